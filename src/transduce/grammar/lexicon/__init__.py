"""The words of the demo corpus."""
