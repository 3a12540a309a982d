"""Search (§6.1): from a source to its best translation; over the protocol `Searchable` alone."""
