"""Heads and costs: looking at a model rather than running it."""
