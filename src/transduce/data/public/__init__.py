"""Public corpora by name: which there are, and how they are downloaded, checked and unpacked."""
