"""The four ids with a fixed meaning; every vocabulary starts with them."""

PAD_ID = 0
"""Padding: fills a batch up to its longest sentence; masked everywhere."""
UNK_ID = 1
"""The unknown token: any piece that the vocabulary lacks."""
BOS_ID = 2
"""Starts every target sequence: the "shifted right" of Figure 1."""
EOS_ID = 3
"""Ends every sequence."""
