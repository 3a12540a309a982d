"""Architectures behind one base class, and model folders."""
