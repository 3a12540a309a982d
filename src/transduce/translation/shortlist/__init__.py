"""Shortlists: which tokens a translation may consist of, by the tokens of its source."""
