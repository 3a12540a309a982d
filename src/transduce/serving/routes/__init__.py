"""The HTTP endpoints: our own API, LibreTranslate's API, and the web pages."""
