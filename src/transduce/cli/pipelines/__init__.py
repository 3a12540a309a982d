"""The commands that run pipelines."""
