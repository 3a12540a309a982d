"""Training (§5): from batches to weights, and nothing is ever lost."""
