"""What a report of a sweep is made of: spreads, paired tests, the paper's Table 3, pictures."""
