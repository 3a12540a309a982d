"""Triton kernels for CUDA devices, and when they are used instead of torch's."""
