"""Scores: how good a model's translations are, by measures that others use too."""
