"""Speculative decoding: greedy search with fewer passes of the model."""
