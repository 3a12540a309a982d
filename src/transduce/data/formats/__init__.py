"""File formats of text and parallel text, each read as a stream."""
