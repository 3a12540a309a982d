"""Hints in the sources of training pairs: how their terms are translated, another in each epoch."""
