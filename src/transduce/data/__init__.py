"""Sentences to batches."""
