"""`transduce attention`: attention weights as a page or a picture, or word alignments."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli.terminal.completion import complete_precision
from transduce.cli.terminal.options import DeviceOption, ModelArgument, ToOption

if TYPE_CHECKING:
    from transduce.translation.options import Translation

PAGE = Path("attention.html")
PAGE_START = b"<!doctype html><!-- attention weights, written by transduce -->"

TextArgument = Annotated[
    str | None,
    typer.Argument(metavar="TEXT", help="Text to translate; --align also reads standard input."),
]
TranslationOption = Annotated[
    str | None, typer.Option(metavar="TEXT", help="A translation to use instead of the model's.")
]
OutOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The page, by default attention.html.")
]
PngOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Also draw a layer's heads from target to source: .png, .svg or .pdf."
    ),
]
AlignOption = Annotated[
    bool, typer.Option("--align", help="Print source ||| translation ||| word pairs from 0.")
]
LayerOption = Annotated[
    int | None,
    typer.Option(help="From 1; by default the last for --png, the best for --align."),
]
HeadOption = Annotated[
    int | None, typer.Option(help="For --align, from 1; by default the mean of the layer's heads.")
]
PrecisionOption = Annotated[
    str,
    typer.Option(
        help="float32; bf16, faster on GPUs; int8, faster on the CPU.",
        autocompletion=complete_precision,
    ),
]


def attention(
    model: ModelArgument,
    text: TextArgument = None,
    translation: TranslationOption = None,
    to: ToOption = None,
    out: OutOption = None,
    png: PngOption = None,
    align: AlignOption = False,
    layer: LayerOption = None,
    head: HeadOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "float32",
) -> None:
    """Write a page with the attention weights of every head of every layer.

    With --align, print which word of the source was translated to which word, line by line. Text
    of a script without spaces is divided into the model's tokens, printed with spaces between them.
    """
    from transduce.analysis.pictures import check_picture
    from transduce.cli.terminal.text_output import check_new_file, text_output

    _check(text, translation, align=align, shown={"--out": out, "--png": png})
    _check_numbers(layer, head, align=align, png=png)
    if png is not None:
        check_picture(png)
    if not align:
        check_new_file(out or PAGE, ours=PAGE_START)
    found = _translations(model, text, translation, device=device, precision=precision, to=to)
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
    page = shown["--out"]
    if page is not None and page.suffix.lower() in (".png", ".svg", ".pdf"):
        raise InputError(f"--out names the page, which is HTML: write --png {page} for a picture")
    if align and given:
        raise InputError(f"--align prints alignments and takes no {given[0]}: give one of them")
    if text is None and not align:
        raise InputError(
            "no text to show: give it after the model; only --align reads standard input"
        )
    if text is None and translation is not None:
        raise InputError("--translation needs its source: give the text after the model")
    if text is not None and not text.strip():
        raise InputError("the text is empty: there is no attention to show")


def _check_numbers(layer: int | None, head: int | None, *, align: bool, png: Path | None) -> None:
    from transduce.errors import InputError

    for name, number in (("--layer", layer), ("--head", head)):
        if number is not None and number < 1:
            raise InputError(f"{name} {number}: layers and heads count from 1")
    if layer is not None and not align and png is None:
        raise InputError("--layer is for --align and --png: the page shows all layers")
    if head is not None and not align:
        raise InputError("--head is for --align: the page and the picture show all heads")
    if head is not None and layer is None:
        raise InputError(f"--head {head} needs its layer: add --layer")


def _translations(
    model: Path,
    text: str | None,
    translation: str | None,
    *,
    device: str,
    precision: str,
    to: str | None,
) -> "Iterator[Translation]":
    """Yield translations with their attention, of the text or of standard input."""
    from transduce.cli.terminal.text_input import TextInput
    from transduce.translation.load import load

    if text is not None and translation is not None:
        yield _given_translation(
            model, text, translation, device=device, precision=precision, to=to
        )
        return
    lines = TextInput([])
    translator = load(model, device, precision=precision, to=to)  # type: ignore[arg-type]
    stream = translator.stream(
        lines if text is None else [text],
        replace(translator.default_options, attention=True),
        window=1 if text is None and lines.is_interactive else 64,  # weights take memory
    )
    for number, one in enumerate(stream):
        if one.note:
            place = "the text" if text is not None else lines.location(number)
            typer.echo(f"{place}: {one.note}", err=True)
        yield one


def _given_translation(
    model: Path, text: str, translation: str, *, device: str, precision: str, to: str | None
) -> "Translation":
    from dataclasses import replace

    from transduce.hardware.devices import choose_device
    from transduce.models.attention import attention_between
    from transduce.models.folder import load_model
    from transduce.tasks.registry import task_of
    from transduce.translation.inference import prepare_for_inference
    from transduce.translation.languages import tags_of
    from transduce.translation.options import Alternative, Translation

    loaded = load_model(model, device=choose_device(device))
    ready = replace(loaded, model=prepare_for_inference(loaded.model, precision=precision))  # type: ignore[arg-type]
    written = task_of(loaded.config.data).to_target(translation)
    tags = tags_of(loaded.tokenizer, loaded.config.data.tag_on, to)
    shown = attention_between(ready, text, written, before=(tags.source, tags.target))
    return Translation(text, translation, 0.0, (Alternative(translation, 0.0),), attention=(shown,))


def _aligned(one: "Translation", layer: int | None, head: int | None) -> str:
    from transduce.translation.alignment.word_links import align

    found = align(
        one.attention,
        source=one.source,
        translation=one.text,
        layer=None if layer is None else layer - 1,
        head=None if head is None else head - 1,
    )
    return str(found)


def draw_heads(one: "Translation", path: Path, layer: int | None = None) -> None:
    """Draw the heads of a layer, counted from 1, by default the last: from target to source."""
    from transduce.analysis.attention_picture import attention_picture
    from transduce.analysis.pictures import advice_on_fonts

    lacking = attention_picture(one.attention[0], path, layer=None if layer is None else layer - 1)
    if lacking:
        typer.echo(advice_on_fonts(lacking), err=True)
    parts = len(one.attention)
    which = f", the first of {parts} pieces of the text" if parts > 1 else ""
    typer.echo(f"wrote {path}{which}")


def write_page(one: "Translation", path: Path) -> None:
    """Write the page with every head of every layer."""
    from transduce.analysis.attention_page import attention_page
    from transduce.cli.terminal.text_output import text_output

    page = attention_page(one.attention, source=one.source, translation=one.text)
    with text_output(path) as write:
        write(page.removesuffix("\n"))
    typer.echo(f"wrote {path}: open it in a browser")
