"""A writer of the safetensors format: a length, a JSON header, then the bytes of the tensors.

The library's own writer orders metadata at random, so equal weights give different files, and it
holds all tensors on the CPU at once. This one always writes the same bytes, tensor by tensor.
"""

import json
from collections.abc import Mapping
from typing import Any, BinaryIO

import torch
from torch import Tensor

DTYPES = {
    torch.int64: "I64",
    torch.float64: "F64",
    torch.float32: "F32",
    torch.int32: "I32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""Widest first: tensors are written in this order, so each starts at a multiple of its width."""


def write_tensors(
    stream: BinaryIO, tensors: Mapping[str, Tensor], *, metadata: Mapping[str, str]
) -> None:
    """Write tensors by name; they may be on any device and not contiguous."""
    order = list(DTYPES)
    names = sorted(tensors, key=lambda name: (order.index(tensors[name].dtype), name))
    header: dict[str, Any] = {"__metadata__": dict(sorted(metadata.items()))}
    end = 0
    for name in names:
        start, end = end, end + tensors[name].nbytes
        header[name] = {
            "dtype": DTYPES[tensors[name].dtype],
            "shape": list(tensors[name].shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    stream.write(len(text).to_bytes(8, "little") + text)
    for name in names:
        flat = tensors[name].detach().cpu().contiguous().view(-1)
        stream.write(flat.view(torch.uint8).numpy().data)
