"""Table 1 of the paper, measured: what a layer costs, and how far apart it leaves two positions."""
