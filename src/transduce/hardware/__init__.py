"""Devices, the allocator and CUDA graphs."""
