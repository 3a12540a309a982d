"""Which tokens of a pair are translations of each other, learnt from the corpus itself."""
