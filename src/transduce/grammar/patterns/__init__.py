"""Sentence patterns of the demo corpus."""
