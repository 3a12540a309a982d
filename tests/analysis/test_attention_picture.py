"""The picture of a layer's heads is drawn for any tokens."""

from pathlib import Path

import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from tests.analysis.shown import attention, bytes_as_letters
from transduce.analysis import attention_picture as module
from transduce.analysis.attention_picture import AttentionKind, attention_picture
from transduce.errors import InputError

PIECES = [bytes_as_letters(text) for text in ("Die", " Straße", " kostet", " $5$ und $x_", "日本")]


@pytest.fixture
def figure(monkeypatch: pytest.MonkeyPatch) -> Figure:
    """The figure that will be drawn, to inspect its content."""
    made = Figure(figsize=(4, 4), layout="constrained")
    monkeypatch.setattr("matplotlib.figure.Figure", lambda **_: made)
    return made


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
    monkeypatch.setattr(module, "available", lambda: False)
    with pytest.raises(InputError, match=r"pip install 'transduce\[plot\]'"):
        attention_picture(attention(["a"], ["b"]), tmp_path / "heads.png")


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"heads\.png"):
        attention_picture(attention(["a"], ["b"]), tmp_path / "no folder" / "heads.png")
