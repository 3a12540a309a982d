"""Phrases in text: where they begin and end, and automata that find them among tokens."""
