"""What commands share: options, text in, text out, and the display of a run."""
