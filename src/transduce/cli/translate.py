"""`transduce translate`: text in, text out, line by line."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.cli.analysis.tree_drawing import check_drawing
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
from transduce.cli.translation.options import (
    DraftOption,
    DrawOption,
    EnsembleOption,
    FilesArgument,
    ForbidOption,
    FormatOption,
    GlossaryOption,
    JsonlOption,
    KeepOption,
    KeepPlaceholdersOption,
    MemoryFieldsOption,
    MemoryOption,
    MemoryPrefixOption,
    MemoryThresholdOption,
    NBestOption,
    OutOption,
    PrefixOption,
    PrefixTextOption,
    SampleOption,
    SeedOption,
    SoftOption,
    SourceFieldsOption,
    TemperatureOption,
    TopKOption,
    TopPOption,
    WholeLinesOption,
    WindowOption,
)
from transduce.cli.translation.shards import (
    OnOption,
    ShardLinesOption,
    check_shardable,
    folder_of_parts,
    write_parts,
)
from transduce.errors import InputError
from transduce.files.unchanged import unchanged_files

if TYPE_CHECKING:
    from transduce.bulk.output_lines import OutputForm
    from transduce.cli.terminal.text_input import TextInput
    from transduce.cli.translation.prefixes import Prefixes


@unchanged_files()
def translate(
    model: ModelArgument,
    files: FilesArgument = None,
    to: ToOption = None,
    fields: SourceFieldsOption = "src,tgt",
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
    from transduce.cli.terminal.text_input import TextInput
    from transduce.cli.terminal.text_output import check_new_file, write_bytes
    from transduce.cli.translation.markup import read_document, translate_markup
    from transduce.cli.translation.prefixes import Prefixes

    lines = TextInput(_no_folders(files or []), fields=fields)
    folder = folder_of_parts(out, shard_lines, on)
    file = Path(out) if out is not None and folder is None else None
    check_new_file(file)
    if folder is not None:
        check_shardable(lines, text_format=text_format, draw=draw)
    only_text = {"--n-best": n_best, "--prefix": prefix, "--prefix-text": prefix_text}
    only_text |= {"--jsonl": jsonl or None, "--draw": draw}
    document = read_document(text_format, lines.files, only_text)
    check_drawing(draw, model)
    prefixes = Prefixes.of(prefix, prefix_text, lines)
    total = _count_lines(lines, prefixes) if lines.can_be_read_twice and not document else None

    from transduce.bulk.made_from import OutputSettings
    from transduce.bulk.workers import ModelSource
    from transduce.cli.translation import requested
    from transduce.cli.translation.lines import LineTranslation

    given = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    sampling = requested.sampling(given, is_wanted=sample)
    words = requested.rules(glossary, forbid, keep, keep_placeholders=keep_placeholders, soft=soft)
    options = replace(
        requested.search(model, beam, alpha, whole_lines=whole_lines),
        n_best=1 if n_best is None else n_best,
        sampling=sampling,
        wording=words,
        memory=requested.memory(memory, memory_fields, memory_threshold, as_prefix=memory_prefix),
    )
    if draft is not None:
        options.check_for_draft(has_prefixes=prefixes() is not None)
    form: OutputForm = "jsonl" if jsonl else "text" if n_best is None else "n-best"
    output = OutputSettings(options, form, prefixes.path or prefixes.text, precision)
    chosen = "torch" if engine == "auto" and sample else engine  # CTranslate2 samples differently
    models = (model, *(ensemble or []))
    source = ModelSource(models, device, precision, chosen, draft, to, shortlist)  # type: ignore[arg-type]
    if folder is not None and total is not None:
        shards = {"shard_lines": shard_lines, "window": window}
        write_parts(folder, lines, total, output, source=source, prefixes=prefixes, on=on, **shards)
        return
    translator = source.load()
    if document is not None:
        write_bytes(translate_markup(translator, document, options, window=window), file)
        return
    LineTranslation(translator, lines, output, prefixes, window, draw).run(file, total)


def _no_folders(files: list[Path]) -> list[Path]:
    """Return the files; raise if one is a folder, as given by those who mean an ensemble."""
    for path in files:
        if path.is_dir():
            raise InputError(
                f"{path} is a folder, and files with text are expected; if it is another model, "
                f"for an ensemble, use --ensemble {path}"
            )
    return files


def _count_lines(lines: "TextInput", prefixes: "Prefixes") -> int:
    """Count the lines; read all of them first, so that a fault in the last one is found now."""
    from transduce.translation.lines import check_length

    total = 0
    for line in lines:
        check_length(line, partial(lines.location, total))
        total += 1
    prefixes.check_count(total)
    return total
