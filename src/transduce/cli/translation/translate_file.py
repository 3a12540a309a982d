"""`transduce translate-file`: a document in, the same document in another language out."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.terminal.options import (
    AlphaOption,
    BeamOption,
    DeviceOption,
    EngineOption,
    ModelArgument,
    PrecisionOption,
    ShortlistOption,
)
from transduce.cli.translation.options import (
    ForbidOption,
    GlossaryOption,
    KeepOption,
    MemoryFieldsOption,
    MemoryOption,
    SoftOption,
    WholeLinesOption,
)
from transduce.errors import counted

FileArgument = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="Text, Markdown, HTML, SRT, VTT, PO, XLIFF, TMX, JSON, YAML, DOCX, ODT, PPTX or EPUB, "
        "by its ending.",
    ),
]
OutputOption = Annotated[
    Path,
    typer.Option(metavar="FILE", help="File to write, which appears when it is complete."),
]
FromOption = Annotated[
    str | None,
    typer.Option("--from", metavar="CODE", help="Language of the source in a .tmx, such as en."),
]
ToOption = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="CODE",
        help="Language to translate into, of a model of several, or to add to a .tmx.",
    ),
]
KeepPlaceholdersOption = Annotated[
    bool | None,
    typer.Option(
        "--keep-placeholders/--no-keep-placeholders",
        help="Copy {name}, %s, addresses, quantities and emoji; by default in PO, XLIFF, JSON and "
        "YAML.",
        show_default=False,
    ),
]


def translate_one_file(
    model: ModelArgument,
    file: FileArgument,
    out: OutputOption,
    source: FromOption = None,
    target: ToOption = None,
    beam: BeamOption = None,
    alpha: AlphaOption = None,
    whole_lines: WholeLinesOption = False,
    glossary: GlossaryOption = None,
    soft: SoftOption = False,
    forbid: ForbidOption = None,
    keep_placeholders: KeepPlaceholdersOption = None,
    keep: KeepOption = None,
    memory: MemoryOption = None,
    memory_fields: MemoryFieldsOption = "src,tgt",
    device: DeviceOption = "auto",
    precision: PrecisionOption = "float32",
    engine: EngineOption = None,
    shortlist: ShortlistOption = False,
) -> None:
    """Translate the text of a file; its structure and formatting stay as they are."""
    from transduce.cli.terminal.text_output import check_new_file
    from transduce.translation.documents.registry import file_format

    check_new_file(out)
    file_format(str(file))  # refuse what is not known before a model is loaded

    from transduce.cli.translation import requested
    from transduce.translation.documents.translate import translate_file
    from transduce.translation.load import load

    options = replace(
        requested.search(model, beam, alpha, whole_lines=whole_lines),
        memory=requested.memory(memory, memory_fields, threshold=1, as_prefix=False),
        wording=requested.rules(glossary, forbid, keep, soft=soft),
    )
    translator = load(
        model,
        device,
        precision=precision,  # type: ignore[arg-type]
        engine=engine,  # type: ignore[arg-type]
        shortlist=shortlist,
    )
    if translator.languages:
        translator = translator.into(target)
    began = time.monotonic()
    done = translate_file(
        translator,
        file,
        out,
        options,
        keep_placeholders=keep_placeholders,
        source=source,
        target=target,
    )
    if memory is not None:
        taken = sum(one.match is not None and one.match.is_used for one in done.translations)
        typer.echo(f"taken from {memory}: {counted(taken, 'text')}", err=True)
    _report(done.path, [one.note for one in done.translations], seconds=time.monotonic() - began)


def _report(out: Path, notes: list[str], *, seconds: float) -> None:
    from transduce.cli.terminal.train_display import duration

    unusual = [note for note in notes if note]
    if unusual:
        typer.echo(
            f"unusual: {counted(len(unusual), 'text')}; the first: {unusual[0]}",
            err=True,
        )
    typer.echo(f"wrote {out}: {counted(len(notes), 'text')} in {duration(seconds)}", err=True)
