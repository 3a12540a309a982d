"""The runs of a sweep on this machine: in processes of their own, several at once, resumable."""
