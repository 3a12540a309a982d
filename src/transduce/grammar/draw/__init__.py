"""Random choices of the parts of a sentence."""
