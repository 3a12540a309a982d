"""Encoding processes and Ctrl-C."""

import multiprocessing
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from transduce.data.cleaning import PairFilter
from transduce.data.corpus import Pair
from transduce.data.encoding.encoder import Encoder
from transduce.grammar import generate
from transduce.text.tokenizer import Tokenizer


def test_ctrl_c_does_not_reach_a_process_that_has_just_been_started(tmp_path: Path) -> None:
    pairs = list(generate(50, seed=1))
    Tokenizer.learn((pair.src for pair in pairs), vocab_size=300).save(tmp_path / "tokenizer.json")

    def batches() -> Iterator[list[Pair]]:
        yield pairs
        started = multiprocessing.active_children()
        assert started
        for process in started:
            assert process.pid is not None
            os.kill(process.pid, signal.SIGINT)
        yield pairs

    encoder = Encoder(tmp_path / "tokenizer.json", PairFilter.fit(pairs, rules=None))
    assert len(list(encoder.encode_all(batches(), processes=2))) == 2
