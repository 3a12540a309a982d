"""Whole architectures behind one protocol."""
