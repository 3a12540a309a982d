"""Tests of the word aligner and of its links."""
