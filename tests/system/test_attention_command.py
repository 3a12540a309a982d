"""`transduce attention` on a tiny random model."""

from pathlib import Path

import pytest
from matplotlib.image import imread

import transduce
from tests.command import Command
from tests.translation.likely import random_model, saved, sentences
from transduce.config.schema import Config
from transduce.errors import InputError
from transduce.models.attention import attention_between, attention_of
from transduce.models.build import build_model
from transduce.models.folder import LoadedModel
from transduce.models.transformer.settings import TransformerConfig
from transduce.text.special_ids import EOS_ID
from transduce.text.tokenizer import Tokenizer

TEXT, OTHER = sentences(2)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("models") / "one", random_model(seed=5, max_positions=40))


def links(line: str) -> tuple[str, str, list[tuple[int, int]]]:
    source, translation, found = line.split(" ||| ")
    pairs = (pair.split("-") for pair in found.split())
    return source, translation, [(int(src), int(tgt)) for src, tgt in pairs]


def test_the_page_is_written_here_and_it_says_so(
    model: Path, tmp_path: Path, command: Command
) -> None:
    result = command("attention", model, TEXT, folder=tmp_path)
    assert result.code == 0, result.err
    assert result.out == "wrote attention.html: open it in a browser\n"
    page = (tmp_path / "attention.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert page.endswith("</html>\n")
    assert [path.name for path in tmp_path.iterdir()] == ["attention.html"]


def test_the_page_and_the_picture_of_a_given_translation(
    model: Path, tmp_path: Path, command: Command
) -> None:
    out, png = tmp_path / "page.html", tmp_path / "heads.png"
    files = ("--out", out, "--png", png)
    result = command("attention", model, TEXT, "--translation", "ein <b>Wort", *files)
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines() == [f"wrote {png}", f"wrote {out}: open it in a browser"]
    assert "ein &lt;b&gt;Wort" in out.read_text(encoding="utf-8")
    assert imread(png).ndim == 3


def test_lines_of_standard_input_are_aligned(model: Path, tmp_path: Path, command: Command) -> None:
    given = f"{TEXT}\n\n{OTHER}\n".encode()
    result = command("attention", model, "--align", folder=tmp_path, given=given)
    assert result.code == 0, result.err
    first, blank, last = result.out.splitlines()
    assert blank == " |||  ||| "
    expected = transduce.load(model).translate([TEXT, OTHER])
    for line, translation in zip((first, last), expected, strict=True):
        source, text, found = links(line)
        assert (source, text) == (translation.source, " ".join(translation.text.split()))
        assert [tgt for _, tgt in found] == list(range(len(text.split())))
        assert all(0 <= src < len(source.split()) for src, _ in found)
    assert not list(tmp_path.iterdir())


def test_one_text_is_aligned_with_a_given_translation_by_a_chosen_head(
    model: Path, command: Command
) -> None:
    head = ("--layer", "1", "--head", "2")
    result = command("attention", model, TEXT, "--align", "--translation", "ein Wort", *head)
    assert (result.code, result.err) == (0, "")
    source, text, found = links(result.out.rstrip("\n"))
    assert (source, text) == (TEXT, "ein Wort")
    assert [tgt for _, tgt in found] == [0, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "no text to show"),
        ((" ",), "the text is empty"),
        (("a", "--translation", " "), "the translation is empty"),
        (("a", "--align", "--out", "x.html"), "--align prints"),
        (("--align", "--translation", "x"), "give the text after the model"),
        (("a", "--layer", "1"), "--layer is for --align and --png"),
        (("a", "--head", "1"), "--head is for --align"),
        (("a", "--align", "--head", "1"), "--head 1 needs its layer: add --layer"),
        (("a", "--align", "--layer", "0"), "--layer 0: layers and heads count from 1"),
        (
            ("a", "--align", "--translation", "x", "--layer", "7"),
            "layer 7: the model has layers 1 to 1",
        ),
        (("a", "--translation", "x " * 99), "but the model has 40 positions"),
        (("a", "--translation", "x", "--out", "no folder/x.html"), "cannot write no folder/x.html"),
        (("a", "--precision", "fp8"), "use one of float32, bf16, int8"),
        (("a", "--out", "x.PNG"), "write --png x.PNG for a picture"),
    ],
)
def test_a_mistake_is_one_line(
    model: Path, tmp_path: Path, arguments: tuple[str, ...], message: str, command: Command
) -> None:
    assert (
        message in command("attention", model, *arguments, folder=tmp_path, given=b"a\n").mistake()
    )
    assert not list(tmp_path.iterdir())


def test_a_given_translation_is_read_as_if_it_were_the_models_own() -> None:
    loaded = random_model(seed=5, max_positions=40)
    src, tgt = loaded.tokenizer.encode_batch([TEXT, OTHER])
    own = attention_of(loaded.model, loaded.tokenizer, src, [*tgt, EOS_ID])
    given = attention_between(loaded, f" {TEXT}\n", f"{OTHER} ")
    assert (given.source, given.read, given.target) == (own.source, own.read, own.target)
    assert (given.cross == own.cross).all()
    assert given.source_are_bytes


def test_half_a_character_is_refused() -> None:
    with pytest.raises(InputError, match="half of a surrogate pair"):
        attention_between(random_model(seed=5), "a", "\udcff")


@pytest.mark.parametrize(("name", "start"), [("a.svg", b"<?xml"), ("a.pdf", b"%PDF-")])
def test_the_picture_has_the_format_of_its_suffix(
    model: Path, tmp_path: Path, command: Command, name: str, start: bytes
) -> None:
    result = command("attention", model, TEXT, "--png", name, folder=tmp_path)
    assert result.code == 0, result.err
    assert (tmp_path / name).read_bytes().startswith(start)


@pytest.mark.parametrize("name", ["a.jpg", "a"])
def test_another_suffix_is_refused_before_the_model_is_loaded(
    tmp_path: Path, command: Command, name: str
) -> None:
    mistake = command("attention", tmp_path / "no model", TEXT, "--png", name).mistake()
    assert mistake == f"{name} is not a picture: its name must end in .png, .svg or .pdf"


def test_a_picture_without_a_font_for_its_text_says_which_to_install(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib import font_manager

    default = [font for font in font_manager.fontManager.ttflist if font.name == "DejaVu Sans"]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", default)
    monkeypatch.setattr(font_manager, "findSystemFonts", list)
    folder = saved(tmp_path / "ja", japanese_model())
    result = command(
        "attention", folder, "cat", "--translation", "猫は", "--png", "a.png", folder=tmp_path
    )
    assert result.code == 0
    assert result.err == "no installed font has は猫: install one, such as Noto Sans CJK\n"


def test_text_without_spaces_is_aligned_by_tokens(tmp_path: Path, command: Command) -> None:
    folder = saved(tmp_path / "ja", japanese_model())
    result = command("attention", folder, "the cat", "--translation", "猫は寝る。", "--align")
    assert result.code == 0, result.err
    source, translation, found = links(result.out.rstrip("\n"))
    assert source == "the cat"
    assert translation.startswith("猫は ")
    assert translation.replace(" ", "") == "猫は寝る。"
    assert [tgt for _, tgt in found] == list(range(len(translation.split())))
    assert {src for src, _ in found} <= {0, 1}


def japanese_model() -> LoadedModel:
    """Make a model whose tokens are whole Japanese words."""
    texts = ["猫は 寝る 。", "the cat sleeps"] * 5
    tokenizer = Tokenizer.learn(texts, vocab_size=300)
    shape = TransformerConfig(
        vocab_size=len(tokenizer), n_layers=1, d_model=16, d_ff=16, h=2, max_positions=40
    )
    config = Config(model=shape)
    return LoadedModel(build_model(shape, seed=1).eval(), config, tokenizer)
