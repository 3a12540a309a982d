"""Corpora in several languages: one text each, read and encoded once for all directions."""
