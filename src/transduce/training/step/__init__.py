"""One training step: forward, loss, backward, Adam."""
