"""Noise in text: capitals, typos, spaces, punctuation, and strings that no language translates."""
