"""Pipelines: resumable stages over the commands' own functions, each with its outcome kept."""
