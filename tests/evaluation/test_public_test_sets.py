"""Public test sets: every reference of a sentence is used."""

from pathlib import Path

import pytest

import transduce
from transduce.evaluation import public_test_sets as module


def test_all_references_of_a_test_set_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {"src": "eins", "ref.A": "the first one of all", "ref.B": "number one of all"}
    for name, text in texts.items():
        (tmp_path / name).write_text(f"{text}\n", encoding="utf-8")
    monkeypatch.setattr(module, "get_source_file", lambda *_: str(tmp_path / "src"))
    refs = [str(tmp_path / "ref.A"), str(tmp_path / "ref.B")]
    monkeypatch.setattr(module, "get_reference_files", lambda *_: refs)
    result = transduce.evaluate(hyp=tmp_path / "ref.B", test_set="wmt14", pair="de-en")
    assert result.references == 2
    bleu = result.report.scores[0]
    assert bleu.score == pytest.approx(100)
    assert "nrefs:2|" in bleu.signature
    assert "|test:wmt14|lang:de-en|" in bleu.signature
