"""Search (§6.1): from a source to the translation that the model finds best."""
