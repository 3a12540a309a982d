"""Noise in the training text, drawn anew each epoch (`data.augment`)."""
