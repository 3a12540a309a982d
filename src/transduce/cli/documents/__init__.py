"""Whole documents for commands that translate."""
