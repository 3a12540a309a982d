"""The picture of a layer's heads is drawn for any tokens."""

from pathlib import Path

import pytest
from fontTools.fontBuilder import FontBuilder  # type: ignore[import-untyped]
from fontTools.pens.ttGlyphPen import TTGlyphPen  # type: ignore[import-untyped]
from matplotlib.figure import Figure
from matplotlib.image import imread

from tests.analysis.shown import attention, bytes_as_letters
from transduce.analysis import pictures
from transduce.analysis.attention_picture import AttentionKind, attention_picture
from transduce.analysis.pictures import fonts_for
from transduce.errors import InputError

PIECES = [bytes_as_letters(text) for text in ("Die", " Straße", " kostet", " $5$ und $x_", "日本")]


@pytest.fixture
def figure(monkeypatch: pytest.MonkeyPatch) -> Figure:
    """The figure that will be drawn, to inspect its content."""
    made = Figure(figsize=(4, 4), layout="constrained")
    monkeypatch.setattr("matplotlib.figure.Figure", lambda **_: made)
    return made


@pytest.mark.exhaustive(after=4)
@pytest.mark.parametrize("h", [1, 3, 4, 8])
@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_every_kind_is_drawn(tmp_path: Path, kind: AttentionKind, h: int) -> None:
    path = tmp_path / "heads.png"
    attention_picture(attention(["A", "Ġman"], PIECES, h=h), path, kind=kind)
    assert imread(path).ndim == 3


def test_the_last_layer_is_drawn_unless_another_is_chosen(tmp_path: Path, figure: Figure) -> None:
    shown = attention(["A", "Ġman"], PIECES)
    attention_picture(shown, tmp_path / "heads.png")
    drawn = [panel.images[0].get_array() for panel in figure.axes]
    assert len(drawn) == 3
    assert all((mine == its).all() for mine, its in zip(drawn, shown.cross[-1], strict=True))


def test_a_layer_can_be_chosen(tmp_path: Path, figure: Figure) -> None:
    shown = attention(["A", "Ġman"], PIECES)
    attention_picture(shown, tmp_path / "heads.png", layer=0)
    array = figure.axes[0].images[0].get_array()
    assert (array == shown.cross[0, 0]).all()


def test_labels_are_readable_tokens_and_no_formulas(tmp_path: Path, figure: Figure) -> None:
    attention_picture(attention(["A", "Ġman"], PIECES), tmp_path / "heads.png")
    panel = figure.axes[0]
    assert [label.get_text() for label in panel.get_xticklabels()] == ["A", "man", "‹end›"]
    labels = [label.get_text() for label in panel.get_yticklabels()]
    assert labels == ["Die", "Straße", "kostet", "$5$ und $x_", "日本", "‹end›"]


def test_a_layer_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="layer 3: the model has layers 1 to 2"):
        attention_picture(attention(["a"], ["b"]), tmp_path / "heads.png", layer=2)


def test_layers_are_those_of_the_stack(tmp_path: Path) -> None:
    shown = attention(["a"], ["b"], n_layers=1, n_encoder_layers=3)
    attention_picture(shown, tmp_path / "heads.png", kind="encoder", layer=2)
    with pytest.raises(InputError, match="layer 3: the model has layers 1 to 1"):
        attention_picture(shown, tmp_path / "heads.png", kind="decoder", layer=2)


def test_a_model_without_self_attention_has_no_picture_of_it(tmp_path: Path) -> None:
    shown = attention(["a"], ["b"], n_encoder_layers=0)
    with pytest.raises(InputError, match="the model has no attention of kind 'encoder'"):
        attention_picture(shown, tmp_path / "heads.png", kind="encoder")


def test_a_kind_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="use encoder, decoder, cross"):
        attention_picture(attention(["a"], ["b"]), tmp_path / "heads.png", kind="self")  # type: ignore[arg-type]


def test_without_matplotlib_it_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pictures, "available", lambda: False)
    with pytest.raises(InputError, match=r"pip install 'transduce\[plot\]'"):
        attention_picture(attention(["a"], ["b"]), tmp_path / "heads.png")


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"heads\.png"):
        attention_picture(attention(["a"], ["b"]), tmp_path / "no folder" / "heads.png")


@pytest.mark.parametrize(("name", "start"), [("a.svg", b"<?xml"), ("a.PDF", b"%PDF-")])
def test_the_format_follows_the_suffix(tmp_path: Path, name: str, start: bytes) -> None:
    attention_picture(attention(["a"], ["b"]), tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)


def test_a_font_is_chosen_that_has_the_characters(
    tmp_path: Path, figure: Figure, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_font(monkeypatch, tmp_path / "font.ttf", "Made Up", "日本語")
    shown = attention(["A", "Ġman"], [bytes_as_letters("日本語")])
    assert attention_picture(shown, tmp_path / "heads.svg") == ""
    label = figure.axes[0].get_yticklabels()[0]
    assert label.get_text() == "日本語"
    assert "Made Up" in label.get_fontfamily()


def test_characters_that_no_font_has_are_named_with_a_font_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_font(monkeypatch, tmp_path / "font.ttf", "Made Up", "日")
    shown = attention(["a"], [bytes_as_letters("日本"), bytes_as_letters("ㄅ")])
    lacking = attention_picture(shown, tmp_path / "heads.png")
    assert set(lacking) == {"本", "ㄅ"}
    advice = "no installed font has ㄅ本: install one, such as Noto Sans Bopomofo, Noto Sans CJK"
    assert pictures.advice_on_fonts(lacking) == advice


def with_font(patch: pytest.MonkeyPatch, path: Path, name: str, letters: str) -> None:
    """Install a font of squares for the letters, besides matplotlib's default font alone."""
    from matplotlib import font_manager

    builder = FontBuilder(1000, isTTF=True)
    glyphs = {letter: f"uni{ord(letter):04X}" for letter in letters}
    builder.setupGlyphOrder([".notdef", *glyphs.values()])
    builder.setupCharacterMap({ord(letter): glyph for letter, glyph in glyphs.items()})
    pen = TTGlyphPen(None)
    pen.moveTo((0, 0))
    for corner in ((0, 700), (700, 700), (700, 0)):
        pen.lineTo(corner)
    pen.closePath()
    square = pen.glyph()
    builder.setupGlyf(dict.fromkeys([".notdef", *glyphs.values()], square))
    builder.setupHorizontalMetrics(dict.fromkeys([".notdef", *glyphs.values()], (800, 0)))
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": name, "styleName": "Regular"})
    builder.setupOS2(sTypoAscender=800, usWinAscent=800, usWinDescent=200)
    builder.setupPost()
    builder.save(path)
    default = [font for font in font_manager.fontManager.ttflist if font.name == "DejaVu Sans"]
    patch.setattr(font_manager.fontManager, "ttflist", default)
    patch.setattr(font_manager, "findSystemFonts", lambda: [str(path)])


def test_a_font_of_placeholders_has_no_characters() -> None:
    fonts, _ = fonts_for(["\U0001e4d0"])  # a letter of a script that few fonts have
    assert not [name for name in fonts if name.startswith("Last Resort")]
