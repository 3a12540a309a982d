"""One module for each family of formats: where its text is, and how text is written there."""
