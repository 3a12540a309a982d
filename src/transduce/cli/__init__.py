"""The command line: the only room that reads the environment and prints."""
