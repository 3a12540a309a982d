"""A run on disk and in time: its folder, checkpoints, journal, card."""
