"""The command line: the only package that reads the environment and prints."""
