"""Text to token ids and back, sentence ends, and long texts cut into pieces."""
