"""Sweeps: many runs from one file, and the table of their results."""
