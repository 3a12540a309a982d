"""Scores of translations, by metrics that are in common use."""
