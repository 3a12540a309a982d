"""Folders from strangers, and damaged ones: one clear line or the right output, and nothing else.

Each case changes one file of a sound folder and runs a command on it. A process runs many of them;
if one kills it or hangs, that case has failed and another process continues.
"""

import importlib.util
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.command import PRELOADED, leave_out_the_unseen, made_once
from tests.system.hostile_files import damages_of, without_checksums
from tests.system.small_runs import stopped_run, training, write_corpus
from tests.translation.likely import random_model, saved
from transduce.export.ctranslate2 import export_ctranslate2
from transduce.export.huggingface import export_huggingface
from transduce.export.marian_import import import_marian
from transduce.files.checksums import CHECKSUMS
from transduce.models.model_files import checkpoint_folders

FEW, MANY = 30, 500
MAX_CPU_SECONDS, MAX_MEMORY = 10.0, 2**31
HANGS_AFTER = 60
"""Seconds without a result and without work: so waits a process for a FIFO."""
TOLD = ("was changed after it was written", "is damaged")
"""What a command says if it can go on, but not with all that the folder had."""
TEXT = "The king sleeps.\nWhere is the small house?\n"


@dataclass(frozen=True)
class Case:
    """A command for a folder of which one file may be changed."""

    command: str
    folder: Path
    words: list[str]
    result: str | None  # the file that it makes; None: it prints
    damage: str | None = None  # what was done to which file
    is_forged: bool = False  # without checksums: then other output is not told


@dataclass(frozen=True)
class Ended:
    """How the command ended."""

    code: int
    found: str  # what it printed, or the file that it made, as hexadecimal digits
    err: str
    cpu_seconds: float
    memory: int

    def fault(self, case: Case, expected: str) -> str | None:
        """Return what is wrong with it; None: nothing."""
        lines = self.err.splitlines()
        mistakes = [line for line in lines if line.startswith("transduce: ")]
        if "Traceback" in self.err or "panicked" in self.err:
            return self.err[-1500:]
        if self.cpu_seconds > MAX_CPU_SECONDS:
            return f"it took {self.cpu_seconds:.0f} s"
        if self.memory > MAX_MEMORY:
            return f"it used {self.memory >> 20} MiB"
        is_one_line = len(mistakes) == 1 and lines[-1:] == mistakes and len(self.err) <= 4000
        if self.code == 2 and not is_one_line:
            return f"not one line: {self.err[:1500]}"
        if self.code not in (0, 2):
            return f"exit code {self.code}: {self.err[-1500:]}"
        is_told = any(words in self.err for words in TOLD) or case.is_forged
        if self.code == 0 and not is_told and self.found != expected:
            return f"other output, without a word: {self.err[-500:]}"
        return None


@dataclass(frozen=True)
class Sound:
    """A sound folder, which files of it may be changed, and the commands that read it."""

    folder: Path
    commands: dict[str, tuple[list[str], str | None]]
    files: tuple[str, ...]


def run_cases(cases: list[Case], log: Path) -> None:
    """Run cases one after the other in this process, and write how each ended."""
    from transduce.cli.app import main

    resource.setrlimit(resource.RLIMIT_DATA, (3 * 2**30, 3 * 2**30))  # spares the machine
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**30, 2**30))
    os.cpu_count = lambda: 1
    leave_out_the_unseen()
    for target, instead in made_once().items():
        mock.patch(target, instead).start()
    out, err = log.with_suffix(".out"), log.with_suffix(".err")
    for case in cases:
        for number, path in ((1, out), (2, err)):
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC), number)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
        sys.argv = ["transduce", *case.words]
        began = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, 3 * MAX_CPU_SECONDS)  # which ends what never ends
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        except BaseException:  # noqa: BLE001 - whatever the libraries raise
            code = 1
            traceback.print_exc()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        made = out if case.result is None else Path(case.result)
        ended = Ended(
            code,
            _content(made, case.folder).hex(),
            err.read_text(encoding="utf-8", errors="replace"),
            time.process_time() - began,
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        )
        with log.open("a") as written:
            written.write(json.dumps(asdict(ended)) + "\n")


def _content(path: Path, folder: Path) -> bytes:
    content = path.read_bytes() if path.is_file() else b""
    return content.replace(str(folder.parent).encode(), b"PLACE")


def _cpu_ticks(process: int | None) -> int:
    """Return the time of the processor that a process has used; 0: it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


def ends_of(cases: Sequence[Case], place: Path) -> Iterator[Ended]:
    """Yield how each case ended, whatever happens to the processes that run them."""
    log = place / "log"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    done = 0
    while done < len(cases):
        log.write_text("")
        process = context.Process(target=run_cases, args=(list(cases[done:]), log))
        process.start()
        count = 0
        while True:
            used = _cpu_ticks(process.pid)
            process.join(HANGS_AFTER)
            results = log.read_text().splitlines()
            has_ended = not process.is_alive()
            is_stuck = len(results) == count and _cpu_ticks(process.pid) - used < 10
            for line in results[count:]:
                yield Ended(**json.loads(line))
            count = len(results)
            if has_ended or is_stuck:
                break
        process.kill()
        process.join()
        done += count
        if done < len(cases):
            why = "it hangs" if is_stuck and not has_ended else f"it died: {process.exitcode}"
            printed = log.with_suffix(".err").read_text(errors="replace")[-1000:]
            yield Ended(1, "", f"{why}\n{printed}", 0.0, 0)
            done += 1


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("hostile")
    (place / "text").write_text(TEXT)
    return place


@pytest.fixture(scope="module")
def sound(place: Path) -> list[Sound]:
    """Sound folders of every format; in a command, {} is the folder and {new} a folder to make."""
    model = saved(place / "model", random_model(seed=5))
    export_huggingface(model, place / "hf")
    translate = (f"translate {{}} {place / 'text'} --device cpu --beam 1".split(), None)
    describe = (["describe", "{}"], None)
    made = "{new}/model.safetensors"
    imported = (["import", "{}", "--from", "marian-hf", "--out", "{new}"], made)
    exported = (["export", "{}", "--to", "huggingface", "--out", "{new}"], made)
    ours = ("config.yaml", "tokenizer.json", "model.safetensors")
    found = [
        Sound(model, {"translate": translate, "describe": describe, "export": exported}, ours),
        Sound(place / "hf", {"import": imported}, ("config.json", *ours[1:])),
        _run(place, translate, describe),
    ]
    if _has("ctranslate2"):
        files = (*ours[:2], "model.bin", "model.bin", "config.json", "shared_vocabulary.json")
        for quantize in (None, "int8"):
            out = place / f"ctranslate2-{quantize}"
            export_ctranslate2(model, out, quantize=quantize)
            found.append(Sound(out, {"translate": translate}, files))
    if _has("sentencepiece") and _has("transformers"):
        from tests.export.marian import marian_folder

        theirs = ("config.json", "vocab.json", "source.spm", "target.spm")
        marian_folder(place / "marian")
        import_marian(place / "marian", place / "imported")
        kept = tuple(f"marian/{name}" for name in (*theirs, "tokenizer_config.json"))
        found += [
            Sound(place / "marian", {"import": imported}, (*theirs, "model.safetensors")),
            Sound(place / "imported", {"translate": translate, "export": exported}, (*ours, *kept)),
        ]
    return found


def _has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _run(place: Path, translate: Any, describe: Any) -> Sound:
    """A run that was stopped, of which another step is trained."""
    corpus = write_corpus(place / "corpus")
    stopped_run(corpus, place / "run", after=9, run__checkpoint_steps=4, training__steps=10)
    resume = training(corpus, Path("{}"), run__checkpoint_steps=4, training__steps=10)
    checkpoint = max(checkpoint_folders(place / "run").values()).relative_to(place / "run")
    return Sound(
        place / "run",
        {
            "translate": translate,
            "describe": describe,
            "runs": (["runs", "{}"], None),
            "resume": (resume, "{}/model.safetensors"),
        },
        (
            *("config.yaml", "tokenizer.json", "provenance.json", "journal.jsonl"),
            *(f"{checkpoint}/{name}" for name in ("state.json", "state.json")),
            *(f"{checkpoint}/{name}.safetensors" for name in ("model", "optimiser")),
        ),
    )


def filled(text: str, folder: Path) -> str:
    """Name the folder, and a new one beside it."""
    return text.replace("{new}", str(folder.parent / "new")).replace("{}", str(folder))


def prepared(one: Sound, command: str, folder: Path) -> Case:
    """Copy a sound folder, for a command."""
    shutil.copytree(one.folder, folder)
    words, result = one.commands[command]
    made = None if result is None else filled(result, folder)
    return Case(command, folder, [filled(word, folder) for word in words], made)


def drawn_case(one: Sound, folder: Path, draw: random.Random) -> Case:
    """Copy a sound folder and change one of its files."""
    case = prepared(one, draw.choice(list(one.commands)), folder)
    path = folder / draw.choice(one.files)
    has_checksums = (folder / CHECKSUMS).exists()  # Marian's own folders have none
    is_forged = draw.random() < 0.5 or not has_checksums
    if is_forged:
        without_checksums(folder)
    damage = draw.choice(damages_of(path))(path, draw)
    return replace(case, damage=f"{path}: {damage}", is_forged=is_forged)


def test_a_hostile_folder_is_one_line_or_gives_the_right_output(
    sound: list[Sound], place: Path, request: pytest.FixtureRequest
) -> None:
    draw = random.Random(1)  # noqa: S311 - the same cases every time
    count = MANY if request.config.getoption("--all") else FEW
    places = (place / f"{number:04}" for number in range(10_000))  # equally long: some are shown
    plain = [
        prepared(one, command, next(places) / one.folder.name)
        for one in sound
        for command in one.commands
    ]
    changed = [
        drawn_case(one, next(places) / one.folder.name, draw) for one in islice(cycle(sound), count)
    ]
    expected: dict[tuple[str, str], str] = {}
    faults = []
    for case, ended in zip(plain + changed, ends_of(plain + changed, place), strict=True):
        key = case.command, case.folder.name
        if case.damage is None:
            assert ended.code == 0, f"{key}: {ended.err}"
            expected[key] = ended.found
        elif fault := ended.fault(case, expected[key]):
            faults.append(f"{case.command} {case.damage}: {fault}")
    assert not faults, "\n\n".join([f"{len(faults)} of {count}:", *faults])
