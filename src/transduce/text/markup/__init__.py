"""HTML and XML: the text in it, and its inline tags put back around a translation's words."""
