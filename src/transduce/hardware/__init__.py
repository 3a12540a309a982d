"""Devices, the allocator, Python's own pauses and CUDA graphs."""
