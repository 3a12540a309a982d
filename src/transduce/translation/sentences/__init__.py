"""Lines of text as sentences that a model can read, and their translations as lines again."""
