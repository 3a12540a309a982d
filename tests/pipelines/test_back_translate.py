"""`transduce back-translate` and `transduce iterate`: pairs from monolingual text."""

import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.command import Command, KillAt, start
from tests.pipelines.small_models import SETTINGS, write_lines
from transduce.data.corpus import read_lines
from transduce.errors import InputError
from transduce.models.model_files import WEIGHTS
from transduce.pipelines.back_translation import back_translate
from transduce.pipelines.source_noise import MASK, SourceNoise
from transduce.translation.load import load
from transduce.translation.options import Options
from transduce.translation.wording.rules import Wording

SHARDS = ("--shard-lines", "10", "--window", "10", "--beam", "2", "--device", "cpu")


@pytest.fixture(scope="session")
def mono(corpus: Path) -> Path:
    """Some lines of German, in a file whose name says so."""
    return write_lines(corpus / "mono.de", list(read_lines(corpus / "a.de"))[:30])


def made(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(out.glob("*/*")) if path.is_file()}


def test_pairs_are_a_models_sources_and_the_text(
    mono: Path, model: Path, tmp_path: Path, command: Command
) -> None:
    done = command("back-translate", model, "--mono", mono, "--out", tmp_path / "out", *SHARDS)
    assert done.code == 0, done.err
    pairs = tmp_path / "out" / "pairs"
    sources = list(read_lines(pairs / "synthetic.en"))
    targets = list(read_lines(pairs / "synthetic.de"))
    assert f"wrote {pairs / 'synthetic.en'} and {pairs / 'synthetic.de'}" in done.err
    found = load(model, "cpu").translate(list(read_lines(mono)), Options(beam=2))
    known = {one.source: f"<bt> {one.text}" for one in found}
    assert len(targets) > 5
    assert [known[target] for target in targets] == sources


def test_forward_pairs_have_the_text_as_source_and_no_tag(
    mono: Path, model: Path, tmp_path: Path
) -> None:
    options = Options(beam=2)
    back = back_translate(model, mono=mono, out=tmp_path / "back", tag="", options=options)
    ahead = back_translate(model, mono=mono, out=tmp_path / "on", forward=True, options=options)
    assert (ahead.src.name, ahead.tgt.name) == ("synthetic.de", "synthetic.en")
    assert ahead.src.read_bytes() == back.tgt.read_bytes()
    assert ahead.tgt.read_bytes() == back.src.read_bytes()


def test_samples_and_noise_follow_the_seed(mono: Path, model: Path, tmp_path: Path) -> None:
    texts = {}
    for seed, name in [(1, "a"), (1, "b"), (2, "c")]:
        found = back_translate(
            model, mono=mono, out=tmp_path / name, method="sample", seed=seed, device="cpu"
        )
        texts[name] = found.src.read_bytes()
    assert texts["a"] == texts["b"] != texts["c"]


def test_noise_changes_beam_searchs_sources_alone(mono: Path, model: Path, tmp_path: Path) -> None:
    options = Options(beam=2)
    plain = back_translate(model, mono=mono, out=tmp_path / "beam", options=options)
    noisy = back_translate(
        model, mono=mono, out=tmp_path / "noise", method="noise", options=options
    )
    assert noisy.tgt.read_bytes() == plain.tgt.read_bytes()
    assert noisy.src.read_bytes() != plain.src.read_bytes()
    assert all(line.startswith("<bt> ") for line in read_lines(noisy.src))
    assert MASK in noisy.src.read_text(encoding="utf-8")


words = st.lists(st.text("abcdefg", min_size=1, max_size=4), min_size=1, max_size=30, unique=True)


@given(words, st.integers(0, 5), st.integers(0, 2**32), st.integers(0, 2**40))
def test_swaps_move_no_word_further_than_allowed(
    texts: list[str], swap: int, seed: int, number: int
) -> None:
    noise = SourceNoise(delete=0, mask=0, swap=swap)
    found = noise(" ".join(texts), seed=seed, number=number).split()
    assert sorted(found) == sorted(texts)
    assert all(abs(found.index(word) - place) <= swap for place, word in enumerate(texts))
    assert found == noise(" ".join(texts), seed=seed, number=number).split()


@given(words, st.integers(0, 2**32))
def test_deletion_keeps_the_order_and_at_least_a_word(texts: list[str], seed: int) -> None:
    noise = SourceNoise(delete=0.5, mask=0, swap=0)
    found = noise(" ".join(texts), seed=seed, number=3).split()
    assert found
    places = [texts.index(word) for word in found]
    assert places == sorted(places)


def test_rates_of_noise_are_as_asked_for() -> None:
    text = " ".join(["word"] * 20)
    noised = [SourceNoise()(text, seed=5, number=number).split() for number in range(500)]
    left = sum(map(len, noised))
    assert abs(left / 10_000 - 0.9) < 0.01
    assert abs(sum(line.count(MASK) for line in noised) / left - 0.1) < 0.01


@pytest.mark.exhaustive(after=1)
@pytest.mark.parametrize(
    "moment",
    [
        KillAt("os.rename", r"translations/part-00000001\.jsonl\.[0-9a-f]+\.making"),
        KillAt("os.rename", r"pairs\.[0-9a-f]+\.making"),
    ],
    ids=["in a shard", "before the pairs"],
)
def test_killed_it_goes_on_to_the_same_bytes(
    moment: KillAt, mono: Path, model: Path, tmp_path: Path, command: Command
) -> None:
    arguments = ("back-translate", model, "--mono", mono, "--method", "sample", *SHARDS, "--out")
    killed = start(*arguments, tmp_path / "out", log=tmp_path / "log", kill_at=moment)
    killed.join()
    assert killed.exitcode == -signal.SIGKILL, (tmp_path / "log").read_text()
    for name in ("out", "whole"):
        assert command(*arguments, tmp_path / name).code == 0
    assert made(tmp_path / "out") == made(tmp_path / "whole")


def test_other_options_are_refused(
    mono: Path, model: Path, tmp_path: Path, command: Command
) -> None:
    out = tmp_path / "out"
    arguments = ("back-translate", model, "--mono", mono, "--out", out, *SHARDS)
    assert command(*arguments).code == 0
    told = command(*arguments, "--tag", "<x>").mistake()
    assert told == (
        f'{out} was begun with tag "<bt>", not "<x>": give the same command again to go on; to '
        f"start over from there, remove {out / 'pairs'}, or choose another --out"
    )
    shutil.rmtree(out / "pairs")
    assert command(*arguments, "--tag", "<x>").code == 0
    assert next(read_lines(out / "pairs" / "synthetic.en")).startswith("<x> ")
    told = command("back-translate", model, "--mono", mono, "--out", mono.parent).mistake()
    assert told.startswith(f"{mono.parent} has other files (a.de): choose a new or an empty folder")


def test_ctrl_c_says_how_to_go_on(
    mono: Path, model: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_arguments: object) -> None:
        raise KeyboardInterrupt

    arguments = ("back-translate", model, "--mono", mono, "--out", tmp_path / "out", *SHARDS)
    with monkeypatch.context() as patch:
        patch.setattr("transduce.pipelines.back_translation.translate_stage", interrupted)
        stopped = command(*arguments)
    assert stopped.code == 130
    assert "Stopped. The same command goes on from here." in stopped.err
    assert command(*arguments).code == 0


def test_a_seed_that_nothing_is_drawn_with_may_change(
    mono: Path, model: Path, tmp_path: Path
) -> None:
    options = Options(beam=2)
    first = back_translate(model, mono=mono, out=tmp_path, options=options, seed=1)
    assert first == back_translate(model, mono=mono, out=tmp_path, options=options, seed=2)


def test_a_glossary_is_an_option_too(mono: Path, model: Path, tmp_path: Path) -> None:
    options = Options(beam=2)
    back_translate(model, mono=mono, out=tmp_path, options=options)
    other = replace(options, wording=Wording(forbidden=("window",)))
    with pytest.raises(InputError, match=r"was begun with wording none, not "):
        back_translate(model, mono=mono, out=tmp_path, options=other)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tag", "two words"], "--tag 'two words': use a word without spaces, or '' for none"),
        (["--forward", "--method", "noise"], "--method noise changes what a model wrote"),
        (["--keep", "2"], "--keep 2: use more than 0, up to 1"),
    ],
)
def test_mistakes_are_one_line(
    options: list[str], message: str, mono: Path, model: Path, tmp_path: Path, command: Command
) -> None:
    out = tmp_path / "out"
    told = command("back-translate", model, "--mono", mono, "--out", out, *options).mistake()
    assert told.startswith(message)
    assert not out.exists()


def iterated(corpus: Path, mono: Path, out: Path, *options: str) -> list[str | Path]:
    pairs: list[str | Path] = ["--src", corpus / "a.en", "--tgt", corpus / "a.de", "--mono", mono]
    settings = [f"--set={change}" for change in SETTINGS]
    few = ["--set=training.steps=20", "--set=run.checkpoint_steps=10", "--method", "sample"]
    return ["iterate", *pairs, "--out", out, *settings, *few, "--device", "cpu", *options]


@pytest.mark.exhaustive
def test_an_iteration_goes_on_to_the_same_bytes(corpus: Path, mono: Path, tmp_path: Path) -> None:
    """Killed in each stage in turn, it ends as one that nothing has stopped."""
    whole, out = tmp_path / "whole", tmp_path / "out"
    done = start(*iterated(corpus, mono, whole), log=tmp_path / "log")
    done.join()
    assert done.exitcode == 0, (tmp_path / "log").read_text()
    for moment in (
        KillAt("os.rename", r"1-reverse/checkpoints/step-000000000010.*\.making"),
        KillAt("os.rename", r"1-synthetic/pairs\.[0-9a-f]+\.making"),
        KillAt("os.rename", r"1-final/checkpoints/step-000000000010.*\.making"),
    ):
        killed = start(*iterated(corpus, mono, out), log=tmp_path / "log", kill_at=moment)
        killed.join()
        assert killed.exitcode == -signal.SIGKILL, (tmp_path / "log").read_text()
    again = start(*iterated(corpus, mono, out), log=tmp_path / "log")
    again.join()
    assert again.exitcode == 0, (tmp_path / "log").read_text()
    for name in (f"1-reverse/{WEIGHTS}", "1-synthetic/pairs/synthetic.en", f"1-final/{WEIGHTS}"):
        assert (out / name).read_bytes() == (whole / name).read_bytes()


def test_a_final_model_learns_from_pairs_and_synthetic_ones(
    corpus: Path, mono: Path, tmp_path: Path, command: Command
) -> None:
    out = tmp_path / "out"
    given = iterated(corpus, mono, out, "--weight", "2")
    done = command(*given)
    assert done.code == 0, done.err
    settings = (out / "1-final" / "config.yaml").read_text(encoding="utf-8")
    assert "weights: [2.0, 1.0]" in settings
    assert "1-synthetic/pairs/synthetic.en" in settings
    told = command(*given[:-1], "3").mistake()
    assert told.startswith(f"{out} was begun with weight of the pairs 2.0, not 3.0: ")


@pytest.mark.exhaustive
def test_a_second_round_uses_text_of_the_source_language(
    corpus: Path, mono: Path, tmp_path: Path, command: Command
) -> None:
    out = tmp_path / "out"
    done = command(
        *iterated(corpus, mono, out, "--rounds", "2", "--mono-src", str(corpus / "t.en"))
    )
    assert done.code == 0, done.err
    names = ["reverse", "synthetic", "final"]
    expected = {f"1-{name}" for name in names} | {f"2-{name}" for name in names}
    assert {path.name for path in out.iterdir() if path.is_dir()} == {*expected, "2-synthetic-src"}
    settings = (out / "2-final" / "config.yaml").read_text(encoding="utf-8")
    assert "weights: [1.0, 1.0]" in settings
    assert "2-synthetic/pairs/synthetic.en" in settings
    assert load(out / "2-final", "cpu").translate(["A man."])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rounds", "2"], "--rounds 2: a second round needs text of the source language"),
        (["--rounds", "9"], "--rounds 9: use 1 to 5"),
        (["--weight", "0"], "--weight 0: must be more than 0"),
    ],
)
def test_mistakes_in_an_iteration_are_one_line(
    options: list[str], message: str, corpus: Path, mono: Path, tmp_path: Path, command: Command
) -> None:
    told = command(*iterated(corpus, mono, tmp_path / "out", *options)).mistake()
    assert told.startswith(message)
    assert not (tmp_path / "out").exists()
