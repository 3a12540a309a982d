"""By aligned tokens: hints how terms are translated, and planted placeholders, in each epoch."""
