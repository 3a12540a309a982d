"""The command that translates files."""
