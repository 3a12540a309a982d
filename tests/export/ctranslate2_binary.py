"""CTranslate2's model.bin, taken apart and put together again, to forge one."""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass
class Tensor:
    """A tensor of the file."""

    shape: list[int]
    dtype: int  # the code of its type
    content: bytes


@dataclass
class Binary:
    """The whole file."""

    tensors: dict[str, Tensor]
    aliases: dict[str, str]
    version: int = 6
    kind: str = "TransformerSpec"
    revision: int = 7

    @classmethod
    def read(cls, path: Path) -> Self:
        content = path.read_bytes()
        place = 0

        def number(kind: str) -> int:
            nonlocal place
            (found,) = struct.unpack_from(f"<{kind}", content, place)
            place += struct.calcsize(f"<{kind}")
            return int(found)

        def taken(size: int) -> bytes:
            nonlocal place
            place += size
            return content[place - size : place]

        def text() -> str:
            return taken(number("H"))[:-1].decode()

        version, kind, revision = number("I"), text(), number("I")
        tensors = {}
        for _ in range(number("I")):
            name, shape = text(), [number("I") for _ in range(number("B"))]
            dtype = number("B")
            tensors[name] = Tensor(shape, dtype, taken(number("I")))
        aliases = {}
        for _ in range(number("I")):
            name = text()
            aliases[name] = text()
        assert place == len(content)
        return cls(tensors, aliases, version, kind, revision)

    def write(self, path: Path) -> None:
        with path.open("wb") as file:

            def put(kind: str, number: int) -> None:
                file.write(struct.pack(f"<{kind}", number))

            def text(value: str) -> None:
                put("H", len(value.encode()) + 1)
                file.write(value.encode() + b"\0")

            put("I", self.version)
            text(self.kind)
            put("I", self.revision)
            put("I", len(self.tensors))
            for name, tensor in self.tensors.items():
                text(name)
                put("B", len(tensor.shape))
                for size in tensor.shape:
                    put("I", size)
                put("B", tensor.dtype)
                put("I", len(tensor.content))
                file.write(tensor.content)
            put("I", len(self.aliases))
            for alias, name in self.aliases.items():
                text(alias)
                text(name)
