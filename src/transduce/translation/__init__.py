"""Text in, text out, over an engine."""
