"""`transduce sweep`: many runs with one command."""
