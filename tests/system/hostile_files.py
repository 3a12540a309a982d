"""Ways to damage or forge a file of a folder: by its bytes, by its values, or as another kind."""

import json
import os
import random
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

Damage = Callable[[Path, random.Random], str]
"""Changes a file, and says how."""

VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    2**31,
    2**70,
    0.5,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    "a\nb",
    "\ud800",
    "9" * 5000,
    [],
    [[]],
    ["x"],
    {},
    {"a": {}},
]
YAML_VALUES = [
    *("", "~", "0", "-1", "1e400", ".nan", "[]", "{}", "[1, 2]", "{a: 1}", "x", "'1'", "true"),
    *("9" * 5000, "0x" + "f" * 5000, "!!bool zz", "!!int ''", "!!float ''", "!!timestamp x"),
    *("!!binary zz", "!!set {a}", "&a [*a]", "2020-99-99", "[" * 3000, "!!python/name:os.system x"),
    *("1000", "1000000", "99999999999999999999", "1:0:0:0", "|", "\t", "? [a]"),
]
PARTS: dict[str, list[Any]] = {
    "normalizer": [
        {
            "type": "Sequence",
            "normalizers": [{"type": "Replace", "pattern": {"String": "e"}, "content": "e" * 10}]
            * 9,
        },
        {"type": "Replace", "pattern": {"Regex": "(e+)+$"}, "content": ""},
        {"type": "Replace", "pattern": {"String": ""}, "content": "x"},
        {"type": "Precompiled", "precompiled_charsmap": "AAAA"},
        {
            "type": "Sequence",
            "normalizers": [{"type": "Precompiled", "precompiled_charsmap": "AAAAEA=="}],
        },
        {"type": "Prepend", "prepend": "x" * 1_000_000},
        {"type": "Lowercase"},
    ],
    "pre_tokenizer": [
        {"type": "FixedLength", "length": 0},
        {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False},
        {"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated", "invert": False},
        {"type": "Sequence", "pretokenizers": [{"type": "Whitespace"}] * 1000},
        None,
    ],
    "decoder": [
        {"type": "Replace", "pattern": {"Regex": "(a|a)*b"}, "content": "x" * 1000},
        {"type": "WordPiece", "prefix": "##", "cleanup": True},
        {"type": "Strip", "content": "e", "start": 2**40, "stop": 2**40},
        None,
    ],
    "post_processor": [
        {"type": "TemplateProcessing", "single": [], "pair": [], "special_tokens": {}}
    ],
    "truncation": [
        {"direction": "Right", "max_length": 0, "strategy": "LongestFirst", "stride": 5}
    ],
    "model": [
        {"type": "BPE", "vocab": {"a": 0}, "merges": [["a", "b"]]},
        {"type": "BPE", "vocab": {}, "merges": []},
        {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "missing"},
        {"type": "Unigram", "unk_id": 99, "vocab": [["a", 0.0]], "byte_fallback": True},
        {
            "type": "WordPiece",
            "unk_token": "u",
            "continuing_subword_prefix": "x" * 1_000_000,
            "max_input_chars_per_word": 100,
            "vocab": {"u": 0},
        },
    ],
}
"""Parts of tokenizers that are not ours: each would make the library panic, hang or fill memory."""


def flipped(path: Path, draw: random.Random) -> str:
    content = bytearray(path.read_bytes())
    places = [draw.randrange(len(content)) for _ in range(draw.choice([1, 1, 1, 8]))]
    for place in places:
        content[place] ^= 1 << draw.randrange(8)
    path.write_bytes(content)
    return f"bits flipped at {places}"


def flipped_early(path: Path, draw: random.Random) -> str:
    """Flip a bit near the start, where headers are."""
    content = bytearray(path.read_bytes())
    place = draw.randrange(min(len(content), 400))
    content[place] ^= 1 << draw.randrange(8)
    path.write_bytes(content)
    return f"a bit flipped at {place}"


def cut(path: Path, draw: random.Random) -> str:
    length = draw.choice([0, 1, draw.randrange(path.stat().st_size), path.stat().st_size - 1])
    os.truncate(path, length)
    return f"cut to {length} bytes"


def longer(path: Path, draw: random.Random) -> str:
    more = draw.choice([b"\0", b"{}", b"x" * 100, draw.randbytes(5000)])
    path.write_bytes(path.read_bytes() + more)
    return f"{len(more)} bytes longer"


def noise(path: Path, draw: random.Random) -> str:
    path.write_bytes(draw.randbytes(draw.choice([1, 100, 100_000])))
    return "random bytes"


def zeros(path: Path, draw: random.Random) -> str:
    content = bytearray(path.read_bytes())
    start = draw.randrange(len(content))
    content[start : start + 200] = bytes(len(content[start : start + 200]))
    path.write_bytes(content)
    return f"zeros at {start}"


def special(path: Path, draw: random.Random) -> str:
    """Put something else in the place of a file."""
    path.unlink()
    kind = draw.choice(["fifo", "zero", "null", "folder", "nowhere", "itself", "sparse", "none"])
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "zero" | "null":
            path.symlink_to(f"/dev/{kind}")
        case "folder":
            path.mkdir()
        case "nowhere":
            path.symlink_to("no/where")
        case "itself":
            path.symlink_to(path.name)
        case "sparse":
            path.touch()
            os.truncate(path, 2**36)
    return kind


def other_value(path: Path, draw: random.Random) -> str:
    """Replace, add or remove a value somewhere in a JSON file."""
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:  # lines of JSON
        return flipped(path, draw)
    holder, key = _drawn_place(tree, draw)
    value = draw.choice(VALUES)
    if holder is None:
        tree = value
    elif draw.random() < 0.2:
        del holder[key]
        value = "(removed)"
    else:
        holder[key] = value
    path.write_text(json.dumps(tree), encoding="utf-8")
    return f"{key!r} is {str(value)[:20]!r}"


def _drawn_place(tree: Any, draw: random.Random) -> tuple[Any, Any]:
    if draw.random() < 0.05:
        return None, "all"
    while True:
        names = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
        key = draw.choice(names)
        below = tree[key]
        if not isinstance(below, dict | list) or not below or draw.random() < 0.3:
            return tree, key
        tree = below


def deep(path: Path, draw: random.Random) -> str:
    depth = draw.choice([2000, 200_000])
    path.write_text(draw.choice(['{"a":', "["]) * depth, encoding="utf-8")
    return f"{depth} deep"


def other_setting(path: Path, draw: random.Random) -> str:
    """Change, add or remove a line of YAML."""
    lines = path.read_text(encoding="utf-8").split("\n")
    places = [n for n, line in enumerate(lines) if re.match(r"\s*\w+:", line)]
    place, value = draw.choice(places), draw.choice(YAML_VALUES)
    name = lines[place].partition(":")[0]
    lines[place] = f"{name}: {value}"
    path.write_text("\n".join(lines), encoding="utf-8")
    return f"{name.strip()}: {value[:20]}"


def large(path: Path, draw: random.Random) -> str:
    unit = draw.choice(["a: 1\n", "[", "- ", "# comment\n", "{a: [1, 2]}, "])
    path.write_text(unit * (5_000_000 // len(unit)), encoding="utf-8")
    return f"5 MB of {unit!r}"


def foreign_part(path: Path, draw: random.Random) -> str:
    """Give a tokenizer a part that is not ours."""
    tree = json.loads(path.read_text(encoding="utf-8"))
    one = tree[draw.choice(["source", "target"])] if "source" in tree else tree
    name = draw.choice(list(PARTS))
    one[name] = draw.choice(PARTS[name])
    if name == "model":
        specials = {name: n for n, name in enumerate(("< pad >", "< unk >", "< bos >", "< eos >"))}
        if isinstance(one[name]["vocab"], dict):
            one[name] = one[name] | {"vocab": specials | {"a": 4}}
    path.write_text(json.dumps(tree), encoding="utf-8")
    return f"a foreign {name}: {str(one[name])[:60]}"


def other_header(path: Path, draw: random.Random) -> str:
    """Change a value in the header of safetensors."""
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + size])
    holder, key = _drawn_place(header, draw)
    value = draw.choice([*VALUES, [2**40, 2**40], "F64", "F8_E4M3", [0, 1], [-1]])
    if holder is None:
        header = value
    else:
        holder[key] = value
    text = json.dumps(header).encode()
    length = struct.pack("<Q", draw.choice([len(text)] * 5 + [2**63]))
    path.write_bytes(length + text + content[8 + size :])
    return f"{key!r} in the header is {str(value)[:20]!r}"


def other_name(path: Path, draw: random.Random) -> str:
    """Flip a bit within a name, a shape or a number of CTranslate2's format."""
    content = bytearray(path.read_bytes())
    names = [b"num_heads", b"pre_norm", b"linear_0", b"/weight", b"gamma", b"encodings", b"coder/"]
    name = draw.choice(names)
    found = [n for n in range(len(content)) if content.startswith(name, n)]
    place = draw.choice(found or [0]) + draw.randrange(len(name) + 20)
    content[place % len(content)] = draw.randrange(256)
    path.write_bytes(content)
    return f"another byte at {place}, near {name.decode()}"


BYTES: list[Damage] = [flipped, flipped, flipped_early, cut, longer, noise, zeros, special]
JSON: list[Damage] = [*BYTES, other_value, other_value, other_value, deep]
YAML: list[Damage] = [*BYTES, other_setting, other_setting, other_setting, large, deep]
TOKENIZER: list[Damage] = [*JSON, foreign_part, foreign_part, foreign_part]
SAFETENSORS: list[Damage] = [*BYTES, other_header, other_header]
CTRANSLATE2: list[Damage] = [*BYTES, other_name, other_name, other_name]


def damages_of(path: Path) -> list[Damage]:
    """Return what can be done to a file, by its name."""
    by_name = {"tokenizer.json": TOKENIZER, "model.bin": CTRANSLATE2}
    by_kind = {".json": JSON, ".jsonl": JSON, ".yaml": YAML, ".safetensors": SAFETENSORS}
    return by_name.get(path.name) or by_kind.get(path.suffix) or BYTES


def without_checksums(folder: Path) -> None:
    """Remove what would tell an accident, as a stranger does."""
    for path in folder.rglob("checksums.json"):
        path.unlink()
    for path in folder.rglob("*.safetensors"):
        content = path.read_bytes()
        path.write_bytes(content.replace(b'"checksum":', b'"checksun":', 1))
    for path in (*folder.rglob("state.json"), *folder.rglob("provenance.json")):
        tree = json.loads(path.read_text(encoding="utf-8"))
        tree.pop("checksum", None)
        path.write_text(json.dumps(tree), encoding="utf-8")
    for path in folder.rglob("journal.jsonl"):
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for line in lines:
            line.pop("checksum", None)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
