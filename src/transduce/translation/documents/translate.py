"""`transduce.translate_file`: a file in, the same file in another language out."""

from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

from transduce.errors import InputError
from transduce.files.atomic import exclusive_file
from transduce.files.errors import reporting_read_errors, reporting_write_errors
from transduce.files.regular import read_regular
from transduce.text.markup.marked import Line
from transduce.translation.documents.inline_codes import (
    lines_to_translate,
    place_translations,
    without_marks,
)
from transduce.translation.documents.limits import MAX_FILE_BYTES
from transduce.translation.documents.registry import file_format, parse_file
from transduce.translation.load import Folder, load
from transduce.translation.options import Options, Translation
from transduce.translation.translator import Translator


@dataclass(frozen=True)
class TranslatedFile:
    """What was done to a file."""

    path: Path
    segments: int  # paragraphs, cells, cues or strings
    translations: tuple[Translation, ...]  # of those that have letters


def translate_file(
    model: Translator | Folder,
    path: str | PathLike[str],
    out: str | PathLike[str],
    options: Options | None = None,
    *,
    keep_placeholders: bool | None = None,
    source: str | None = None,
    target: str | None = None,
) -> TranslatedFile:
    """Translate the text of a file; everything else in it stays as it is.

    model: a translator, or a model folder.
    path: the file; the ending of its name says which format it has.
    out: the file to write; it appears when it is complete.
    keep_placeholders: copy fields such as {name} and %s; None: in PO, XLIFF, JSON and YAML.
    source, target: codes of the languages, such as en and de, for TMX.

    A file that cannot be read, or is too large, raises `InputError`.
    """
    path, out = Path(path), Path(out)
    if out.exists() and path.exists() and out.samefile(path):
        raise InputError(f"{out} is the file to translate: choose another one to write")
    kind = file_format(str(path))
    with reporting_read_errors(path):
        content = read_regular(path, max_bytes=MAX_FILE_BYTES)
    parsed = parse_file(content, str(path), source=source, target=target)
    translator = model if isinstance(model, Translator) else load(model)
    options = options or translator.default_options
    keep = kind.has_placeholders if keep_placeholders is None else keep_placeholders
    wording = replace(
        options.wording, keeps_placeholders=options.wording.keeps_placeholders or keep
    )
    lines = lines_to_translate(parsed.segments)
    found = translator.translate(lines, replace(options, wording=wording))
    placed = place_translations(parsed.segments, [one.text for one in found])
    written = parsed.written(placed)
    with reporting_write_errors(out), exclusive_file(out) as making:
        making.write_bytes(written)
    plain = tuple(_plain(line, one) for line, one in zip(lines, found, strict=True))
    return TranslatedFile(out, len(parsed.segments), plain)


def _plain(line: Line, translation: Translation) -> Translation:
    """Return a translation without the marks that stand for inline codes."""
    alternatives = tuple(
        one._replace(text=without_marks(line, one.text)) for one in translation.alternatives
    )
    return replace(translation, text=alternatives[0].text, alternatives=alternatives)
