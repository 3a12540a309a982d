"""Text that is changed while it is prepared is told, and nothing is cached under a wrong name."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.command import Command, Result
from tests.system.small_runs import training, write_corpus
from transduce.data import corpus as reading
from transduce.data import development_set, prepare, store
from transduce.data.store import Store
from transduce.text.tokenizer import Tokenizer

CHANGED = "was changed while it was read: run the command again once it stays the same"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "text")


def rewritten(path: Path, change: Callable[[list[str]], list[str]]) -> None:
    """Change the lines of a file in place, without a trace in its modification time."""
    before = path.stat()
    lines = change(path.read_text(encoding="utf-8").splitlines())
    with path.open("r+b") as file:
        file.write("".join(f"{line}\n" for line in lines).encode())
        file.truncate()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def reversed_words(lines: list[str]) -> list[str]:
    """Lines of the same lengths."""
    return [line[::-1] for line in lines]


def change_before(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, change: Callable[[], None]
) -> None:
    """Have the text changed at the last moment before a function of the module reads it."""
    function = getattr(module, name)

    def changed_meanwhile(*arguments: Any, **named: Any) -> Any:
        change()
        return function(*arguments, **named)

    monkeypatch.setattr(module, name, changed_meanwhile)


def last_line(result: Result) -> str:
    """Return the message of a mistake, which follows what was done before."""
    assert result.code == 2
    assert "Traceback" not in result.err
    return result.err.splitlines()[-1].removeprefix("transduce: ")


def prepared_folders(out: Path) -> set[str]:
    return {path.name for path in (out / "data").iterdir() if path.is_dir()}


def store_of(out: Path) -> dict[str, Any]:
    """Return the checksums of the training store: it is the one of the most pairs."""
    folders = [path for path in (out / "data").iterdir() if (path / "manifest").exists()]
    manifests = [Store.open(folder).manifest for folder in folders]
    return dict(max(manifests, key=lambda found: int(found["pairs"]))["files"])


def test_text_that_changes_while_it_is_encoded_is_never_cached_as_the_text_before(
    corpus: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = (corpus / "a.de").read_bytes()
    wanted = training(corpus, tmp_path / "run", training__steps=1)
    with monkeypatch.context() as patch:
        change_before(patch, store, "_build", lambda: rewritten(corpus / "a.de", reversed_words))
        assert last_line(command(*wanted)) == f"{corpus / 'a.de'} {CHANGED}"
    assert not any((path / "manifest").exists() for path in (tmp_path / "run/data").iterdir())
    (corpus / "a.de").write_bytes(original)
    done = command(*wanted)
    assert done.code == 0, done.err
    clean = command(*training(corpus, tmp_path / "clean", training__steps=1))
    assert clean.code == 0, clean.err
    assert store_of(tmp_path / "run") == store_of(tmp_path / "clean")


@pytest.mark.parametrize(
    ("module", "name", "made"),
    [(development_set, "_choose", "dev-"), (prepare, "learn_subwords", "subwords-")],
    ids=["development set", "subwords"],
)
def test_nothing_else_is_made_of_text_that_changes_meanwhile(
    module: Any,
    name: str,
    made: str,
    corpus: Path,
    tmp_path: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After its pairs were counted, it loses lines on both sides."""

    def lose_lines() -> None:
        for side in ("a.en", "a.de"):
            rewritten(corpus / side, lambda lines: lines[:200])

    change_before(monkeypatch, module, name, lose_lines)
    message = last_line(command(*training(corpus, tmp_path / "run", training__steps=1)))
    assert message in [f"{corpus / side} {CHANGED}" for side in ("a.en", "a.de")]
    assert not any(name.startswith(made) for name in prepared_folders(tmp_path / "run"))


@pytest.mark.parametrize("is_restored", [True, False], ids=["for a moment", "for good"])
def test_lines_that_shift_while_they_are_read_are_one_line(
    is_restored: bool,
    corpus: Path,
    tmp_path: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = corpus / "a.de"
    original = target.read_bytes()
    change_before(monkeypatch, store, "_build", lambda: rewritten(target, lambda all_: all_[1:]))
    if is_restored:
        change_before(monkeypatch, reading, "count_pairs", lambda: restore(target, original))
    message = last_line(command(*training(corpus, tmp_path / "run", training__steps=1)))
    assert message == f"{target} {CHANGED}"


def restore(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def test_a_vocabulary_that_changes_while_text_is_encoded_makes_no_store(
    corpus: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = (corpus / "a.en").read_text(encoding="utf-8").splitlines()
    tokenizer = tmp_path / "tokenizer.json"
    Tokenizer.learn(lines, kind="bpe", vocab_size=300).save(tokenizer)
    other = tmp_path / "other.json"
    Tokenizer.learn(lines[::-3], kind="bpe", vocab_size=300).save(other)
    change_before(monkeypatch, store, "_build", lambda: restore(tokenizer, other.read_bytes()))
    wanted = training(corpus, tmp_path / "run", training__steps=1, data__tokenizer=tokenizer)
    assert last_line(command(*wanted)) == f"{tokenizer} {CHANGED}"
    assert not any((path / "manifest").exists() for path in (tmp_path / "run/data").iterdir())
