"""CTranslate2 searches among the same candidates as torch; a map that is not ours is refused."""

from collections.abc import Callable
from pathlib import Path

import pytest

import transduce
from tests.command import Command
from tests.export.test_ctranslate2 import TEXTS, sharp_model
from tests.translation.likely import saved
from tests.translation.test_shortlist import write_pairs
from transduce.errors import InputError
from transduce.export.ctranslate2 import export_ctranslate2
from transduce.export.vocabulary_map import MAP
from transduce.models.shortlist import SHORTLIST
from transduce.translation.options import Options

pytest.importorskip("ctranslate2", reason="it is the engine under test")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("model")
    folder = saved(root / "model", sharp_model())
    src, tgt = write_pairs(root)
    transduce.make_shortlist(folder, src=[src], tgt=[tgt], frequent=5, per_token=3)
    return folder


@pytest.fixture
def exported(model: Path, tmp_path: Path) -> Path:
    export_ctranslate2(model, tmp_path / "exported", shortlist=True)
    return tmp_path / "exported"


@pytest.mark.parametrize("beam", [1, 4])
def test_both_engines_find_the_same_for_one_sentence(
    model: Path, exported: Path, beam: int
) -> None:
    options = Options(beam=beam, alpha=0.0, second_try=False)
    ours = transduce.load(model, "cpu", shortlist=True)
    free = transduce.load(model, "cpu").translate(TEXTS, options)
    for folder in (model, exported):
        theirs = transduce.load(folder, "cpu", engine="ctranslate2", shortlist=True)
        narrowed = []
        for text in TEXTS:  # it takes the candidates of a batch together
            [one], [other] = (each.translate([text], options) for each in (ours, theirs))
            assert one.text == other.text
            assert other.score == pytest.approx(one.score, abs=1e-3)
            narrowed.append(other.text)
        assert narrowed != [one.text for one in free]


def test_without_the_option_an_export_with_a_list_is_as_without(
    model: Path, exported: Path
) -> None:
    found = transduce.load(exported, "cpu").translate(TEXTS)
    expected = transduce.load(model, "cpu", engine="ctranslate2").translate(TEXTS)
    assert [one.text for one in found] == [one.text for one in expected]


@pytest.mark.parametrize(
    ("forge", "message"),
    [
        (lambda path: path.write_bytes(b""), "does not match the shortlist"),
        (lambda path: path.write_bytes(path.read_bytes()[:-3] + b"xyz"), "does not match"),
        (lambda path: path.write_bytes(b"x" * 10**7), "cannot read|does not match|bytes"),
        (lambda path: path.with_name(SHORTLIST).unlink(), "beside it: remove it"),
    ],
)
def test_a_map_that_is_not_ours_is_refused(
    exported: Path, forge: Callable[[Path], None], message: str
) -> None:
    forge(exported / MAP)
    with pytest.raises(InputError, match=message):
        transduce.load(exported, "cpu")


def test_the_command_exports_it(model: Path, command: Command, tmp_path: Path) -> None:
    given = ("export", model, "--to", "ctranslate2", "--out", tmp_path / "out", "--shortlist")
    assert command(*given, "--quantize", "int8").code == 0
    assert (tmp_path / "out" / MAP).read_bytes().startswith(b"\t")
    refused = command(
        "export", model, "--to", "huggingface", "--out", tmp_path / "h", "--shortlist"
    )
    assert "--shortlist is for --to ctranslate2" in refused.mistake()


@pytest.mark.parametrize("folder", ["model", "exported"])
@pytest.mark.parametrize("whole", [False, True])
def test_what_was_begun_with_a_list_does_not_go_on_without_nor_the_other_way(
    folder: str, whole: bool, model: Path, exported: Path, command: Command, tmp_path: Path
) -> None:
    text = tmp_path / "text"
    text.write_text("".join(f"{line}\n" for line in TEXTS), encoding="utf-8")
    path = model if folder == "model" else exported
    shards = ("--shard-lines", "4", "--window", "4", "--out", tmp_path / "parts")
    ways = ((), ("--shortlist",))
    first, then = ways if whole else ways[::-1]
    assert command("translate", path, text, "--device", "cpu", *shards, *first).code == 0
    told = command("translate", path, text, "--device", "cpu", *shards, *then).mistake()
    assert ("shortlist false, not true" if whole else "shortlist true, not false") in told


def test_an_export_without_a_list_is_refused(model: Path, tmp_path: Path) -> None:
    export_ctranslate2(model, tmp_path / "plain")
    with pytest.raises(InputError, match="was exported without a shortlist: make one"):
        transduce.load(tmp_path / "plain", "cpu", shortlist=True)


def test_an_exported_folder_gets_no_list_of_its_own(exported: Path, tmp_path: Path) -> None:
    src, tgt = write_pairs(tmp_path)
    with pytest.raises(InputError, match="make the shortlist of the model folder, and export that"):
        transduce.make_shortlist(exported, src=[src], tgt=[tgt])
    transduce.load(exported, "cpu", shortlist=True)
