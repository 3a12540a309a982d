"""Other engines' formats: writing our models for them, and reading theirs."""
