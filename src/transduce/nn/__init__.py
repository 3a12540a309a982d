"""Layers and their kernels: the paper's parts (§3.2 to §3.5) and variants of them.

They take tensors and plain numbers and return tensors. They know no settings, files or devices.

Shapes in comments: B sentences, S source or key positions, T target or query positions, k beam,
V vocabulary entries, h heads; d_model, d_ff, d_k and d_v as in the paper, N layers.
"""
