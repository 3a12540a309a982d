"""State spaces: layers that carry a state along the positions, computed for all at once."""
