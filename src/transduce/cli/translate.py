"""`transduce translate`: text in, text out, line by line."""

import math
import time
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transduce.cli.analysis.tree_drawing import check_drawing, draw_tree
from transduce.cli.files.shards import (
    OnOption,
    ShardLinesOption,
    check_shardable,
    folder_of_parts,
    write_parts,
)
from transduce.cli.terminal.options import (
    AlphaOption,
    BeamOption,
    DeviceOption,
    EngineOption,
    ModelArgument,
    PrecisionOption,
    ShortlistOption,
    ToOption,
)
from transduce.errors import counted
from transduce.files.regular import parse_json
from transduce.files.unchanged import unchanged_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from transduce.bulk.made_from import OutputSettings
    from transduce.bulk.output_lines import OutputForm
    from transduce.cli.terminal.notes import Notes
    from transduce.cli.terminal.text_input import TextInput
    from transduce.files.resumable import ResumableFile
    from transduce.search.sample import Sampling
    from transduce.translation.memory.read import MemoryUse
    from transduce.translation.options import Options, Translation
    from transduce.translation.translator import Translator
    from transduce.translation.wording.rules import Wording

FilesArgument = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FILE",
        help="Text, line by line, or the source side of a .tsv, .csv, .jsonl or .tmx; "
        "by default, or with -, standard input. With --format, one document.",
    ),
]
FieldsOption = Annotated[
    str,
    typer.Option(
        "--fields",
        metavar="SRC[,TGT]",
        help="Column, field or language of the source text in such a file.",
    ),
]
EnsembleOption = Annotated[
    list[Path] | None,
    typer.Option(metavar="MODEL", help="Another model, to translate with an ensemble."),
]
DraftOption = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="Smaller model, or 'ngrams', that drafts for greedy search (--beam 1): one sentence "
        "takes less time, and its translation is the same.",
    ),
]
NBestOption = Annotated[
    int | None,
    typer.Option(metavar="N", help="Print the N best: line number from 0 ||| text ||| score."),
]
SampleOption = Annotated[bool, typer.Option("--sample", help="Sample instead of searching.")]
TemperatureOption = Annotated[
    float | None, typer.Option(help="Sampling temperature, by default 1; lower is less random.")
]
TopKOption = Annotated[int | None, typer.Option(help="Sample from the k likeliest tokens only.")]
TopPOption = Annotated[
    float | None,
    typer.Option(help="Sample from the likeliest tokens whose probabilities sum to p."),
]
SeedOption = Annotated[int | None, typer.Option(help="Random seed of sampling.")]
WholeLinesOption = Annotated[
    bool, typer.Option("--whole-lines", help="Do not split lines into sentences.")
]
WindowOption = Annotated[
    int | None,
    typer.Option(metavar="N", help="Lines to read before translating them; 1: line by line."),
]
PrefixOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="What each translation must start with, line by line; it may end within a word.",
    ),
]
PrefixTextOption = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="What all translations must start with."),
]
GlossaryOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Terms: source, tab, translations (a|b; none or =: as it is), tab, rules.",
    ),
]
SoftOption = Annotated[
    bool,
    typer.Option(
        "--soft",
        help="Terms are hints, which the model may inflect; for models trained with data.terms.",
    ),
]
ForbidOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Words and phrases that no translation contains."),
]
MemoryOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Translations that exist already (.tmx, .tsv, .csv, .jsonl, .po, .xlf): the same "
        "lines are taken from it, similar ones are offered in --jsonl.",
    ),
]
MemoryFieldsOption = Annotated[
    str,
    typer.Option(metavar="SRC,TGT", help="Languages, columns or fields of --memory."),
]
MemoryThresholdOption = Annotated[
    float,
    typer.Option(metavar="SHARE", help="How similar a line must be to be offered, 0.5 to 1."),
]
MemoryPrefixOption = Annotated[
    bool,
    typer.Option(
        "--memory-prefix",
        help="Begin translations as a similar one does, as far as its source is the same.",
    ),
]
KeepPlaceholdersOption = Annotated[
    bool,
    typer.Option(
        "--keep-placeholders",
        help="Copy addresses, {name}, %s, quantities with units and emoji.",
    ),
]
KeepOption = Annotated[
    list[str] | None,
    typer.Option(metavar="REGEX", help="Copy what matches this pattern too; may be repeated."),
]
JsonlOption = Annotated[
    bool, typer.Option("--jsonl", help="Print a JSON object per line, with scores and notes.")
]
OutOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="File to write, which appears when it is complete; the same command continues it. "
        "DIR/: a folder, for parts of many lines each.",
    ),
]
DrawOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE.svg", help="Draw the tree of the first line, for a parsing model."),
]
FormatOption = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="text, line by line; html or xml: a document, whose tags are kept.",
    ),
]
MAY_CHANGE = ("version", "device", "window")
"""What may differ from the command that began a file: translations differ by rounding at most."""

WINDOW_OF_FILE = 128
"""Lines to read at a time on the CPU if the output is a file: what is lost when it is stopped."""


@unchanged_files()
def translate(
    model: ModelArgument,
    files: FilesArgument = None,
    to: ToOption = None,
    fields: FieldsOption = "src,tgt",
    ensemble: EnsembleOption = None,
    draft: DraftOption = None,
    beam: BeamOption = None,
    alpha: AlphaOption = None,
    n_best: NBestOption = None,
    sample: SampleOption = False,
    temperature: TemperatureOption = None,
    top_k: TopKOption = None,
    top_p: TopPOption = None,
    seed: SeedOption = None,
    whole_lines: WholeLinesOption = False,
    window: WindowOption = None,
    prefix: PrefixOption = None,
    prefix_text: PrefixTextOption = None,
    glossary: GlossaryOption = None,
    soft: SoftOption = False,
    forbid: ForbidOption = None,
    keep_placeholders: KeepPlaceholdersOption = False,
    keep: KeepOption = None,
    memory: MemoryOption = None,
    memory_fields: MemoryFieldsOption = "src,tgt",
    memory_threshold: MemoryThresholdOption = 0.75,
    memory_prefix: MemoryPrefixOption = False,
    jsonl: JsonlOption = False,
    text_format: FormatOption = "text",
    out: OutOption = None,
    shard_lines: ShardLinesOption = None,
    on: OnOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "float32",
    engine: EngineOption = None,
    shortlist: ShortlistOption = False,
    draw: DrawOption = None,
) -> None:
    """Translate text line by line; anything unusual is reported on standard error."""
    from transduce.cli.documents.markup import read_document, translate_markup
    from transduce.cli.terminal.text_input import TextInput
    from transduce.cli.terminal.text_output import check_new_file, write_bytes

    lines = TextInput(_no_folders(files or []), fields=fields)
    folder = folder_of_parts(out, shard_lines, on)
    file = Path(out) if out is not None and folder is None else None
    check_new_file(file)
    if folder is not None:
        check_shardable(lines, text_format=text_format, draw=draw)
    only_text = {"--n-best": n_best, "--prefix": prefix, "--prefix-text": prefix_text}
    only_text |= {"--jsonl": jsonl or None, "--draw": draw}
    document = read_document(text_format, lines.files, only_text)
    if draw is not None:
        check_drawing(draw, model)
    prefixes = _Prefixes.of(prefix, prefix_text, lines)
    total = _check_input(lines, prefixes) if lines.can_be_read_twice and not document else None

    from transduce.bulk.made_from import OutputSettings
    from transduce.bulk.workers import ModelSource

    given = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    options = _options(
        model, beam, alpha, n_best, _sampling(given, is_wanted=sample), whole_lines=whole_lines
    )
    words = _wording(glossary, forbid, keep, keep_placeholders=keep_placeholders, soft=soft)
    form: OutputForm = "jsonl" if jsonl else "text" if n_best is None else "n-best"
    known = read_memory(memory, memory_fields, memory_threshold, as_prefix=memory_prefix)
    output = OutputSettings(
        replace(options, wording=words, memory=known),
        form,
        prefixes.path or prefixes.text,
        precision,
    )
    if draft is not None:
        output.options.check_for_draft(has_prefixes=prefixes() is not None)
    chosen = "torch" if engine == "auto" and sample else engine  # CTranslate2 samples differently
    models = (model, *(ensemble or []))
    source = ModelSource(models, device, precision, chosen, draft, to, shortlist)  # type: ignore[arg-type]
    if folder is not None and total is not None:
        shards = {"shard_lines": shard_lines, "window": window}
        write_parts(folder, lines, total, output, source=source, prefixes=prefixes, on=on, **shards)
        return
    translator = source.load()
    if document is not None:
        write_bytes(translate_markup(translator, document, output.options, window=window), file)
        return
    at_once = 1 if window is None and lines.is_interactive else window
    _write(_Work(translator, lines, output, prefixes, at_once, draw=draw), file, total)


def _options(
    model: Path,
    beam: int | None,
    alpha: float | None,
    n_best: int | None,
    sampling: "Sampling | None",
    *,
    whole_lines: bool,
) -> "Options":
    """Return how to translate: as the model's task wants it, but for what is given."""
    from transduce.translation.load import default_options

    own = default_options(model)
    return replace(
        own,
        beam=own.beam if beam is None else beam,
        alpha=own.alpha if alpha is None else alpha,
        n_best=1 if n_best is None else n_best,
        sampling=sampling,
        whole_lines=whole_lines,
    )


def _wording(
    glossary: Path | None,
    forbid: Path | None,
    keep: list[str] | None,
    *,
    keep_placeholders: bool,
    soft: bool,
) -> "Wording":
    """Read what translations must contain, and what they must not."""
    from transduce.translation.wording.read import read_forbidden, wording

    return wording(
        glossary,
        forbid=() if forbid is None else read_forbidden(forbid),
        keep_placeholders=keep_placeholders,
        keep=keep or [],
        soft=soft,
    )


def read_memory(
    path: Path | None, fields: str, threshold: float, *, as_prefix: bool
) -> "MemoryUse | None":
    """Read a translation memory, if one is given."""
    if path is None:
        return None
    from transduce.translation.memory.read import translation_memory

    return translation_memory(path, fields=fields, threshold=threshold, as_prefix=as_prefix)


def _write(work: "_Work", out: Path | None, total: int | None) -> None:
    """Translate all lines; tell how many were written to a file."""
    began = time.monotonic()
    if out is None or total is None or (out.exists() and not out.is_file()):
        translated = work.write(out, total=total)
    else:
        translated = work.write_or_continue(out, total)
    if out is not None:
        _say_written(out, translated, total, seconds=time.monotonic() - began)


def _no_folders(files: list[Path]) -> list[Path]:
    """Return the files; raise if one is a folder, as given by those who mean an ensemble."""
    from transduce.errors import InputError

    for path in files:
        if path.is_dir():
            raise InputError(
                f"{path} is a folder, and files with text are expected; if it is another model, "
                f"for an ensemble, use --ensemble {path}"
            )
    return files


def _say_written(out: Path, translated: int, total: int | None, *, seconds: float) -> None:
    from transduce.cli.terminal.train_display import duration

    lines = counted(translated if total is None else total, "line")
    now = "" if total in (None, translated) else f", {translated:,} of them now,"
    typer.echo(f"wrote {out}: {lines}{now} in {duration(seconds)}", err=True)


@dataclass(frozen=True)
class _Prefixes:
    """What translations must start with: a line of a file each, or one text for all of them."""

    path: Path | None = None
    text: str | None = None

    @classmethod
    def of(cls, path: Path | None, text: str | None, lines: "TextInput") -> "_Prefixes":
        from transduce.data.corpus import STANDARD_INPUT
        from transduce.errors import InputError

        if path is not None and text is not None:
            raise InputError("--prefix and --prefix-text: use one of them")
        if path is not None and not path.exists() and path != STANDARD_INPUT:
            raise InputError(
                f"cannot read {path}: No such file or directory; if it is the text that all "
                "translations must start with, use --prefix-text"
            )
        if path == STANDARD_INPUT and STANDARD_INPUT in lines.files:
            raise InputError("standard input (-) can be read only once: name files to translate")
        return cls(path, text)

    def __call__(self) -> "Iterable[str] | None":
        """Read them from the start; None if there are none."""
        from transduce.cli.terminal.text_input import text_of

        if self.text is not None:
            return repeat(self.text)
        return None if self.path is None else text_of(self.path)


def _check_input(lines: "TextInput", prefixes: _Prefixes) -> int:
    """Read everything once, so that a fault in the last line is found before work is done."""
    from transduce.data.corpus import read_lines
    from transduce.errors import InputError
    from transduce.translation.lines import check_length

    total = 0
    for number, line in enumerate(lines):
        check_length(line, lines.location(number))
        total += 1
    if prefixes.path is not None and prefixes.path.is_file():
        count = sum(1 for _ in read_lines(prefixes.path))
        if count != total:
            raise InputError(
                f"{prefixes.path} has {counted(count, 'line')} "
                f"but there are {total:,} to translate: "
                "give a prefix for every line, or an empty line"
            )
    return total


def _sampling(given: dict[str, Any], *, is_wanted: bool) -> "Sampling | None":
    """Check the options of sampling; return None if it is not wanted."""
    from transduce.errors import InputError
    from transduce.search.sample import Sampling

    given = {name: value for name, value in given.items() if value is not None}
    if not is_wanted:
        for name in given:
            raise InputError(f"--{name.replace('_', '-')} is for sampling: add --sample")
        return None
    if not 0 < given.get("temperature", 1) < math.inf:
        raise InputError(
            f"--temperature {given['temperature']}: use more than 0, or leave out --sample"
        )
    if given.get("top_k", 1) < 1:
        raise InputError(f"--top-k {given['top_k']}: use 1 or more")
    if not 0 < given.get("top_p", 1) <= 1:
        raise InputError(f"--top-p {given['top_p']}: use more than 0, up to 1")
    return Sampling(**given)


@dataclass(frozen=True)
class _Work:
    """What to translate, how, and in which form to write it."""

    translator: "Translator"
    lines: "TextInput"
    output: "OutputSettings"
    prefixes: _Prefixes
    window: int | None
    draw: Path | None = None  # a picture of the first tree

    def write(self, out: Path | None, *, total: int | None) -> int:
        """Write to standard output, or to a file that is complete or absent; count the lines."""
        from transduce.cli.terminal.notes import Notes
        from transduce.cli.terminal.text_output import may_reach_terminal, text_output

        prints_on_terminal = out is None and may_reach_terminal()
        notes, done = Notes(self.lines, jsonl=self.output.form == "jsonl"), 0
        with text_output(out) as write, notes.counting():
            for number, translation in self._translations(
                total=None if prints_on_terminal else total
            ):
                for line in self._formatted(number, translation):
                    write(line)
                self._note(notes, number, translation)
                done += 1
        return done

    def write_or_continue(self, out: Path, total: int) -> int:
        """Write to a file, or continue what a command that was stopped has left of it.

        Return the number of lines that were translated now.
        """
        from transduce.cli.terminal.notes import Notes
        from transduce.files.resumable import resumable_file

        window = self.window or (WINDOW_OF_FILE if self.translator.device.type == "cpu" else None)
        work = replace(self, window=window)
        with resumable_file(out, work.made_from(), may_change=MAY_CHANGE) as file:
            start = work.continue_from(file, out, total)
            done = start
            notes = Notes(self.lines, jsonl=self.output.form == "jsonl")
            try:
                with notes.counting():
                    for number, translation in work._translations(total=total, start=start):
                        file.write(work._formatted(number, translation))
                        done = number + 1
                        self._note(notes, number, translation)
            except KeyboardInterrupt:
                if done:
                    typer.echo(
                        f"{done:,} of {counted(total, 'line is', 'lines are')} "
                        f"in {out}.partial: the same command goes "
                        "on from there",
                        err=True,
                    )
                raise
        return done - start

    def made_from(self) -> dict[str, Any]:
        """Describe everything that decides what is written."""
        import transduce
        from transduce.bulk.made_from import TextFiles, described_model
        from transduce.bulk.workers import ModelIdentity

        return {
            "version": transduce.__version__,
            **described_model(ModelIdentity.of(self.translator)),
            **TextFiles(self.lines.files, self.lines.fields).described(),
            "window": self.window,
            **self.output.described(),
        }

    def continue_from(self, file: "ResumableFile", out: Path, total: int) -> int:
        """Keep the windows of lines that are complete; return how many lines these are."""
        for change in file.changes:
            typer.echo(f"{out}.partial was begun with {change}: going on with it", err=True)
        record_of = RECORD_OF[self.output.form]
        listed = self.output.options.n_best if self.output.form == "n-best" else 1
        done = file.complete_records(record_of, most_lines=listed)
        start = 0
        if done:
            start = self.translator.count_in_whole_windows(
                self.lines, min(done, total), prefixes=self.prefixes(), window=self.window
            )
        file.keep(start, record_of)
        if start:
            typer.echo(
                f"{start:,} of {counted(total, 'line was', 'lines were')} "
                "translated before: going on from there",
                err=True,
            )
        return start

    def _translations(
        self, *, total: int | None, start: int = 0
    ) -> "Iterator[tuple[int, Translation]]":
        """Translate the lines from a number on; show the progress if the total is known."""
        stream = self.translator.stream(
            self.lines,
            self.output.options,
            prefixes=self.prefixes(),
            window=self.window,
            start=start,
        )
        shown = _with_progress(stream, None if total is None else total - start)
        for number, translation in enumerate(shown, start=start):
            if number == 0 and self.draw is not None:
                draw_tree(self.draw, translation.text)
            yield number, translation

    def _formatted(self, number: int, translation: "Translation") -> "Iterator[str]":
        from transduce.bulk.output_lines import output_lines

        return output_lines(number, translation, self.output.form)

    def _note(self, notes: "Notes", number: int, translation: "Translation") -> None:
        notes.add(number, translation.note, self.translator.unknown_script(translation.source))


def _line_number(number: int, _line: bytes) -> int:
    return number


def _object_number(number: int, line: bytes) -> int | None:
    try:
        return number if isinstance(parse_json(line.decode()), dict) else None
    except ValueError:
        return None


def _listed_number(_number: int, line: bytes) -> int | None:
    """Return the number that a line of the n best begins with."""
    number, sign, _ = line.partition(b" ||| ")
    return int(number) if sign and number.isdigit() else None


RECORD_OF = {"text": _line_number, "jsonl": _object_number, "n-best": _listed_number}
"""Of each form of output, what says which line of input a line belongs to."""


def _with_progress(
    translations: "Iterable[Translation]", total: int | None
) -> "Iterable[Translation]":
    """Show a progress bar on a terminal, if the number of lines is known."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    if total is None or not console.is_terminal:
        return translations
    return track(translations, "translating", total, console=console, transient=True)
