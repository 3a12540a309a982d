"""Files of many formats: their text out, its translation in, everything else as it was."""
