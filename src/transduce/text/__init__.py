"""Words to numbers."""
