"""`transduce data`: check, download and generate corpora."""
