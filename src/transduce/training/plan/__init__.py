"""A run's settings, as far as the user leaves them open: fitted to corpus, machine and budget."""
