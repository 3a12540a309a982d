"""`transduce attention`: who looks at whom, as a page, as a picture, or as word alignments."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from transduce.decoding.options import Translation

PAGE = Path("attention.html")


def attention(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of a model.")],
    text: Annotated[
        str | None,
        typer.Argument(metavar="TEXT", help="What to translate. With --align, or standard input."),
    ] = None,
    translation: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Let the model read this instead of its own."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the page here; else, attention.html.")
    ] = None,
    png: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also draw the heads of a layer, looking at the source."),
    ] = None,
    align: Annotated[
        bool,
        typer.Option("--align", help="Print source ||| translation ||| words aligned from 0."),
    ] = False,
    layer: Annotated[
        int | None,
        typer.Option(help="From 1; else, --png draws the last, --align takes the best."),
    ] = None,
    head: Annotated[
        int | None, typer.Option(help="From 1, for --align; else, the layer's average.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = "auto",
    precision: Annotated[str, typer.Option(help="float32, or bf16: faster on GPUs.")] = "float32",
) -> None:
    """Show which words every head of every layer looks at, on a page for the browser.

    With --align, print for each line which word of the source became which of its translation.
    """
    from transduce.cli.text_output import text_output

    _check(text, translation, align=align, shown={"--out": out, "--png": png})
    _check_numbers(layer, head, align=align, png=png)
    found = _translations(model, text, translation, device=device, precision=precision)
    if align:
        with text_output(None) as write:
            for one in found:
                write(_aligned(one, layer, head))
        return
    [one] = found
    if png is not None:
        draw_heads(one, png, layer)
    write_page(one, out or PAGE)


def _check(
    text: str | None, translation: str | None, *, align: bool, shown: dict[str, Path | None]
) -> None:
    from transduce.errors import InputError

    given = [name for name, path in shown.items() if path is not None]
    if align and given:
        raise InputError(f"--align prints and writes no {given[0]}: give one or the other")
    if text is None and not align:
        raise InputError("no text to show: give it after the model; --align reads standard input")
    if text is None and translation is not None:
        raise InputError("--translation is that of one text: give the text after the model")
    if text is not None and not text.strip():
        raise InputError("the text is empty: nobody looks at anything")


def _check_numbers(layer: int | None, head: int | None, *, align: bool, png: Path | None) -> None:
    from transduce.errors import InputError

    for name, number in (("--layer", layer), ("--head", head)):
        if number is not None and number < 1:
            raise InputError(f"{name} {number}: they count from 1")
    if layer is not None and not align and png is None:
        raise InputError("--layer is for --align and --png: the page shows all layers")
    if head is not None and not align:
        raise InputError("--head is for --align: the page and the picture show all heads")
    if head is not None and layer is None:
        raise InputError(f"--head {head} of which layer? Add --layer")


def _translations(
    model: Path, text: str | None, translation: str | None, *, device: str, precision: str
) -> "Iterator[Translation]":
    """Translate what is given, or let the model read a given translation, and look on."""
    from transduce.cli.text_input import TextInput
    from transduce.decoding.options import Options
    from transduce.decoding.translator import load

    if text is not None and translation is not None:
        yield _given(model, text, translation, device=device, precision=precision)
        return
    lines = TextInput([])
    translator = load(model, device, precision=precision)  # type: ignore[arg-type]
    stream = translator.stream(
        lines if text is None else [text],
        Options(attention=True),
        window=1 if text is None and lines.is_typed else 64,  # weights take memory
    )
    for number, one in enumerate(stream):
        if one.note:
            typer.echo(f"{lines.place(number)}: {one.note}", err=True)
        yield one


def _given(
    model: Path, text: str, translation: str, *, device: str, precision: str
) -> "Translation":
    from dataclasses import replace

    from transduce.decoding.attention import attention_between
    from transduce.decoding.device import choose_device, made_ready
    from transduce.decoding.options import Alternative, Translation
    from transduce.models.folder import load_model

    loaded = load_model(model, device=choose_device(device))
    ready = replace(loaded, model=made_ready(loaded.model, precision=precision))  # type: ignore[arg-type]
    shown = attention_between(ready, text, translation)
    return Translation(text, translation, 0.0, (Alternative(translation, 0.0),), attention=(shown,))


def _aligned(one: "Translation", layer: int | None, head: int | None) -> str:
    from transduce.analysis.alignment import alignment, pharaoh

    links = alignment(
        one.attention,
        source=one.source,
        translation=one.text,
        layer=None if layer is None else layer - 1,
        head=None if head is None else head - 1,
    )
    texts = (" ".join(text.split()) for text in (one.source, one.text))
    return " ||| ".join([*texts, pharaoh(links)])


def draw_heads(one: "Translation", path: Path, layer: int | None = None) -> None:
    """Draw the heads of a layer, from 1 or the last one, looking at the source."""
    from transduce.analysis.attention_picture import attention_picture

    attention_picture(one.attention[0], path, layer=None if layer is None else layer - 1)
    parts = len(one.attention)
    which = f", the first of {parts} parts of the text" if parts > 1 else ""
    typer.echo(f"wrote {path}{which}")


def write_page(one: "Translation", path: Path) -> None:
    """Write the page of every head of every layer."""
    from transduce.analysis.attention_page import attention_page
    from transduce.cli.text_output import text_output

    page = attention_page(one.attention, source=one.source, translation=one.text)
    with text_output(path) as write:
        write(page.removesuffix("\n"))
    typer.echo(f"wrote {path}: open it in a browser")
