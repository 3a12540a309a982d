"""What a run is for: text form, metrics, length limits, degenerate output."""
