"""What the commands that translate consist of: options, prefixes, and forms of output."""
