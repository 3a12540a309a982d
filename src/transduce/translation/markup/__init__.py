"""HTML and XML translated: tags follow the words that they were around."""
