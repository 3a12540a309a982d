"""The ids that mean something to the model; every vocabulary starts with these four."""

PAD_ID = 0
"""Fills a batch up to its longest sentence; never looked at."""
UNK_ID = 1
"""Stands for what the vocabulary lacks."""
BOS_ID = 2
"""Starts every target sequence: the "shifted right" of Figure 1."""
EOS_ID = 3
"""Ends every sequence."""
