"""Translation of any amount of text, in shards: here, or over the machines of a Ray cluster."""
