"""The best pairs of a corpus, by rules, languages, near duplicates and two models."""
