"""Corpora written as files and prepared: helpers of the tests of preparation."""

import json
import unicodedata
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from transduce.config.schema import DataConfig
from transduce.data.corpus import Pair, read_pairs
from transduce.data.prepare import Corpora, Phase, Prepared, find_corpora, prepare
from transduce.data.store import Store
from transduce.grammar import generate
from transduce.text.tokenizer import Tokenizer

PAIRS = [*generate(400, seed=8), Pair("Nothing.", ""), *generate(20, seed=8)]
VOCAB_SIZE = 300


def silent(_name: str) -> Any:
    return nullcontext(lambda _done, _total: None)


PHASE: Phase = silent


def found_corpora(config: DataConfig, cache: Path, *, seed: int = 1) -> Corpora:
    return find_corpora(config, cache, seed=seed, phase=PHASE)


def prepared(config: DataConfig, cache: Path, *, seed: int = 1) -> Prepared:
    corpora = found_corpora(config, cache, seed=seed)
    return prepare(config, corpora, cache, vocab_size=VOCAB_SIZE, processes=1, phase=PHASE)


def write_tsv(path: Path, pairs: list[Pair]) -> str:
    text = "".join(f"{pair.src}\t{pair.tgt}\n" for pair in pairs)
    path.write_text(text, encoding="utf-8", newline="")
    return str(path)


def write_json(path: Path, pairs: list[Pair]) -> str:
    lines = (json.dumps({"id": 7, "from": pair.src, "to": pair.tgt}) for pair in pairs)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def two_files(folder: Path, pairs: list[Pair], name: str = "train") -> dict[str, Any]:
    src, tgt = folder / f"{name}.en", folder / f"{name}.de"
    src.write_text("".join(f"{pair.src}\n" for pair in pairs), encoding="utf-8")
    tgt.write_text("".join(f"{pair.tgt}\n" for pair in pairs), encoding="utf-8")
    return {"src": (str(src),), "tgt": (str(tgt),)}


def decoded(store: Store, tokenizer: Tokenizer) -> list[Pair]:
    sides = [
        tokenizer.decode_batch(side[index].tolist() for index in range(len(side)))
        for side in (store.src, store.tgt)
    ]
    return [Pair(*texts) for texts in zip(*sides, strict=True)]


def seen(text: str) -> str:
    """Return a sentence as the model sees it."""
    return unicodedata.normalize("NFC", text.strip())


def sentences(pairs: list[Pair]) -> set[str]:
    return {seen(text) for pair in pairs for text in pair}


def pairs_of_dev(corpora: Corpora) -> list[Pair]:
    return [pair for source in corpora.dev for pair in read_pairs(source)]


def folders(cache: Path) -> set[str]:
    return {path.name for path in cache.iterdir() if path.is_dir()}
