"""Quality and speed of a teacher and its student, each measurement kept in a file of its own."""

import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from transduce.bulk.output_lines import on_one_line
from transduce.bulk.workers import ModelSource
from transduce.data.corpus import DEFAULT_FIELDS, format_of, read_lines, read_side
from transduce.errors import InputError, counted
from transduce.evaluation.report import MAX_RESAMPLED, Comparison, EvaluationReport, report
from transduce.export.ctranslate2 import is_exported, is_installed, refusal
from transduce.files.atomic import atomic_file
from transduce.files.errors import reporting_write_errors
from transduce.models.build import build_model
from transduce.models.folder import load_settings
from transduce.pipelines.stages import read_outcome, write_json
from transduce.pipelines.watcher import PipelineWatcher
from transduce.tasks.tokenization import choose_tokenization
from transduce.translation.languages import target_language
from transduce.translation.load import default_options
from transduce.translation.options import Options
from transduce.translation.translator import Translator

TEACHER, STUDENT, STUDENT_INT8 = "teacher", "student", "student int8"
STUDENT_SHORTLIST, INT8_SHORTLIST = "student shortlist", "student int8 shortlist"
SPEED_SENTENCES = 200
LATENCY_SENTENCES = 50
WARM_UP = 8


@dataclass(frozen=True)
class MeasuredTest:
    """A test set: a source text and its references, line by line."""

    src: Path
    ref: Path
    fields: str = DEFAULT_FIELDS

    def sources(self) -> list[str]:
        """Read the source sentences."""
        return list(read_side(self.src, "src", fields=self.fields))

    def references(self) -> list[str]:
        """Read the references."""
        return list(read_side(self.ref, "tgt", fields=self.fields))


@dataclass(frozen=True)
class MeasuredSystem:
    """A model as an engine runs it."""

    name: str
    source: ModelSource
    options: Options
    has_quality: bool = True  # False: another engine's quality is that of the same weights

    @property
    def file_name(self) -> str:
        """Its name in files."""
        return self.name.replace(" ", "-").replace("(", "").replace(")", "").lower()


@dataclass(frozen=True)
class Speed:
    """What a system costs on this machine's CPU."""

    parameters: int
    disk_bytes: int  # weights, vocabulary and settings
    engine: str
    beam: int
    sentences_per_s: float  # of many sentences at once
    latency_ms: float  # of one sentence, the median
    latency_ms_95: float  # 95 of 100 take less
    threads: int


@dataclass(frozen=True)
class Quality:
    """The scores of all systems on a test set."""

    test: str
    sentences: int
    reports: dict[str, EvaluationReport]  # by system; compared with the teacher
    int8: tuple[Comparison, ...]  # the int8 student compared with the student
    shortlist: tuple[Comparison, ...] = ()  # the student with a shortlist compared with the student


@dataclass(frozen=True)
class Measured:
    """All measurements."""

    speeds: dict[str, Speed]  # by system
    qualities: tuple[Quality, ...]  # by test set


def check_tests(src: list[Path], ref: list[Path], *, fields: str) -> tuple[MeasuredTest, ...]:
    """Pair the files of test sets, and read them; raise if they cannot be used."""
    if not ref:
        ref = [path for path in src if format_of(path) != "text"]  # which have both sides
    if len(src) != len(ref):
        raise InputError(
            f"{counted(len(src), 'test set')} with --test-src but {len(ref):,} with --test-ref: "
            "give one reference file for each"
        )
    tests = tuple(MeasuredTest(*paths, fields) for paths in zip(src, ref, strict=True))
    for test in tests:
        lines, references = len(test.sources()), len(test.references())
        if lines != references:
            raise InputError(
                f"{test.ref} has {counted(references, 'line')} but {test.src} has {lines:,}: they "
                "must match line by line"
            )
        if not any(line.strip() for line in test.sources()):
            raise InputError(f"{test.src} has no sentence: give a test set with some")
        if lines > MAX_RESAMPLED:
            raise InputError(f"{test.src} has {lines:,} lines: give at most {MAX_RESAMPLED:,}")
    return tests


def sample_sentences(
    tests: Sequence[MeasuredTest], texts: Sequence[Path], *, fields: str
) -> list[str]:
    """Return sentences to measure speed on: of the first test set, or of the text."""
    sources = [tests[0].sources()] if tests else (read_side(path, fields=fields) for path in texts)
    lines = (line for source in sources for line in source if line.strip())
    return list(islice(lines, SPEED_SENTENCES))


def systems_of(
    teacher: ModelSource,
    student: Path,
    int8: Path | None,
    options: Options,
    *,
    has_shortlist: bool = False,
) -> list[MeasuredSystem]:
    """List what is measured: teacher and student by torch, and by CTranslate2 if it can."""
    greedy = default_options(student)
    device = teacher.device
    systems = [
        MeasuredSystem(TEACHER, teacher, options),
        MeasuredSystem(STUDENT, ModelSource((student,), device), greedy),
    ]
    if int8 is not None:
        systems.append(MeasuredSystem(STUDENT_INT8, ModelSource((int8,), "cpu"), greedy))
    if has_shortlist:
        narrowed = {STUDENT_SHORTLIST: student} | ({INT8_SHORTLIST: int8} if int8 else {})
        for name, folder in narrowed.items():
            source = ModelSource((folder,), "cpu", shortlist=True)
            systems.append(MeasuredSystem(name, source, greedy))
    [first, *others] = teacher.folders
    can_convert = not others and not is_exported(first) and is_installed()
    if can_convert and refusal(load_settings(first).model) is None:
        source = ModelSource((first,), "cpu", engine="ctranslate2")
        name = f"{TEACHER} (CTranslate2)"
        systems.append(MeasuredSystem(name, source, options, has_quality=False))
    return systems


def measure(
    folder: Path,
    systems: Sequence[MeasuredSystem],
    tests: Sequence[MeasuredTest],
    *,
    sample: Sequence[str],
    watcher: PipelineWatcher,
) -> Measured:
    """Measure what no file in the folder has; translations of test sets are kept too."""
    with reporting_write_errors(folder):
        folder.mkdir(exist_ok=True)
    translated: dict[str, list[list[str]]] = {}
    speeds = {}
    for system in systems:
        if system.has_quality:
            translated[system.name] = [
                _translations(folder, system, number, test, watcher)
                for number, test in enumerate(tests, start=1)
            ]
        speeds[system.name] = _speed(folder, system, sample, watcher)
    qualities = tuple(
        _quality(test, {name: texts[number] for name, texts in translated.items()}, systems)
        for number, test in enumerate(tests)
    )
    return Measured(speeds, qualities)


def _translations(
    folder: Path,
    system: MeasuredSystem,
    number: int,
    test: MeasuredTest,
    watcher: PipelineWatcher,
) -> list[str]:
    """Translate a test set, or read what was translated before."""
    path = folder / f"test-{number}-{system.file_name}.txt"
    watcher.stage(f"translating {test.src.name} with the {system.name}", is_done=path.exists())
    if not path.exists():
        sources = test.sources()
        translator = system.source.load()
        with reporting_write_errors(path), atomic_file(path) as making, making.open("wb") as out:
            for done, found in enumerate(translator.stream(sources, system.options), start=1):
                out.write(f"{on_one_line(found.text)}\n".encode())
                watcher.working(done, len(sources))
    return list(read_lines(path))


def _speed(
    folder: Path, system: MeasuredSystem, sample: Sequence[str], watcher: PipelineWatcher
) -> Speed:
    path = folder / f"speed-{system.file_name}.json"
    watcher.stage(f"measuring the speed of the {system.name}", is_done=path.exists())
    if not path.exists():
        source = replace(system.source, device="cpu", precision="float32")
        write_json(path, asdict(_measured_speed(source.load(), system, sample)))
    return Speed(**read_outcome(path))


def _measured_speed(translator: Translator, system: MeasuredSystem, sample: Sequence[str]) -> Speed:
    translator.translate(sample[:WARM_UP], system.options)
    began = time.perf_counter()
    translator.translate(sample, system.options)
    seconds = time.perf_counter() - began
    latencies = []
    for sentence in sample[:LATENCY_SENTENCES]:
        start = time.perf_counter()
        translator.translate([sentence], system.options)
        latencies.append(1000 * (time.perf_counter() - start))
    latencies.sort()
    return Speed(
        parameters=sum(map(_parameters, system.source.folders)),
        disk_bytes=_disk_bytes(system.source.folders, translator),
        engine=translator.engine_name,
        beam=system.options.beam,
        sentences_per_s=len(sample) / seconds,
        latency_ms=statistics.median(latencies),
        latency_ms_95=latencies[min(len(latencies) - 1, int(0.95 * len(latencies)))],
        threads=torch.get_num_threads(),
    )


def _parameters(folder: Path) -> int:
    with torch.device("meta"):
        model = build_model(load_settings(folder).model)
    return sum(parameter.numel() for parameter in model.parameters())


def _disk_bytes(folders: Sequence[Path], translator: Translator) -> int:
    """Add up the files of the models: those that were read."""
    paths = {path for files in translator.read_from for path in files}
    exported = [path for path in folders if is_exported(path)]
    paths |= {path for folder in exported for path in folder.iterdir() if path.is_file()}
    return sum(path.stat().st_size for path in paths)


def _quality(
    test: MeasuredTest, translated: dict[str, list[str]], systems: Sequence[MeasuredSystem]
) -> Quality:
    references = test.references()
    language = target_language(load_settings(systems[0].source.folders[0]))
    tokenization = choose_tokenization(references, language=language, tokenizer=None)
    names = list(translated)
    found = report([translated[name] for name in names], [references], tokenization=tokenization)

    def against_student(name: str) -> tuple[Comparison, ...]:
        if name not in translated:
            return ()
        both = [translated[STUDENT], translated[name]]
        return report(both, [references], tokenization=tokenization)[1].comparisons

    return Quality(
        test.src.name,
        len(references),
        dict(zip(names, found, strict=True)),
        int8=against_student(STUDENT_INT8),
        shortlist=against_student(STUDENT_SHORTLIST),
    )


def as_json(measured: Measured) -> dict[str, Any]:
    """Return all measurements as plain JSON."""
    found: dict[str, Any] = json.loads(json.dumps(asdict(measured)))
    return found
