"""Which words of a source and of its translation belong together, by the attention of a model."""
