"""Constituency parsing (§6.3): words in, a tree out."""
