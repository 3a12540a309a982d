"""A writer of the safetensors format: a length, a JSON header, then the bytes of the tensors.

The library's own writer orders metadata at random, so equal weights give different files, and it
holds all tensors on the CPU at once. This one always writes the same bytes, tensor by tensor. The
first entry of the metadata is a checksum of all the rest of the file.
"""

import json
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from transduce.files.checksums import BLOCK_BYTES, DamagedFileError
from transduce.files.errors import reporting_read_errors
from transduce.files.regular import open_regular

CHECKSUM, NO_CHECKSUM = "checksum", "00000000"
"""The key of a CRC-32 in the metadata, and its value while it is computed."""

_HEADER_START = re.compile(rb'(.{8}\{"__metadata__":\{[^}]*?"checksum":")([0-9a-f]{8})"', re.DOTALL)

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
    """Write tensors by name, into an empty file; they may be on any device and not contiguous."""
    order = list(DTYPES)
    names = sorted(tensors, key=lambda name: (order.index(tensors[name].dtype), name))
    noted = {CHECKSUM: NO_CHECKSUM} | dict(sorted(metadata.items()))
    header: dict[str, Any] = {"__metadata__": noted}
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
    start_of_file = len(text).to_bytes(8, "little") + text
    stream.write(start_of_file)
    crc = zlib.crc32(start_of_file)
    for name in names:
        flat = tensors[name].detach().cpu().contiguous().view(-1)
        data = flat.view(torch.uint8).numpy().data
        stream.write(data)
        crc = zlib.crc32(data, crc)
    place = _HEADER_START.match(start_of_file)
    assert place is not None, "the checksum comes first"
    stream.seek(place.start(2))
    stream.write(f"{crc:08x}".encode())


def check_tensors(path: Path) -> None:
    """Raise if a file differs from what `write_tensors` wrote; without a checksum it cannot."""
    with reporting_read_errors(path), open_regular(path) as stream:
        block = stream.read(BLOCK_BYTES)
        found = _HEADER_START.match(block)
        if found is None:
            return
        crc = zlib.crc32(found[1] + NO_CHECKSUM.encode() + block[found.end(2) :])
        while block := stream.read(BLOCK_BYTES):
            crc = zlib.crc32(block, crc)
    if f"{crc:08x}".encode() != found[2]:
        raise DamagedFileError(
            path,
            "its checksum differs",
            f"restore it from a copy; if you changed it yourself, save it without {CHECKSUM!r} in "
            "its metadata",
        )
