"""From pairs of text to ids, in several processes."""
