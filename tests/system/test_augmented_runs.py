"""Training on text with noise, through the public function."""

from pathlib import Path

import transduce
from tests.system.small_runs import changes, stopped_run, write_corpus


def test_a_run_with_noise_resumes_to_the_same_bits(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus")
    settings = [one.removeprefix("--set=") for one in changes(data__augment="true")]
    src, tgt = corpus / "a.en", corpus / "a.de"
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    transduce.train(src=src, tgt=tgt, out=whole, settings=settings)
    stopped_run(corpus, parts, after=13, data__augment="true")
    transduce.train(src=src, tgt=tgt, out=parts, settings=settings)
    weights = {(folder / "model.safetensors").read_bytes() for folder in (whole, parts)}
    assert len(weights) == 1
