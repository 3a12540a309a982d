"""A run's translations of the test sets, made once its weights are final."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from transduce.data.formats.lines import read_lines
from transduce.data.languages.corpora import language_of_file
from transduce.files.atomic import atomic_file
from transduce.files.digests import Digests, JsonMemory
from transduce.files.errors import reporting_write_errors
from transduce.models.model_files import WEIGHTS
from transduce.sweeps.file import SweepFile, SweepTest
from transduce.sweeps.plan import SweepRun
from transduce.translation.load import load
from transduce.translation.options import Options


@dataclass(frozen=True)
class SweepTranslation:
    """Which test sets to translate, and how."""

    tests: tuple[SweepTest, ...]
    beam: int
    alpha: float
    cache: Path  # for digests of files

    @classmethod
    def of(cls, file: SweepFile, cache: Path) -> "SweepTranslation":
        """Return what a sweep file asks for."""
        return cls(file.test, file.beam, float(file.alpha), cache)

    def missing(self, run: SweepRun) -> list[SweepTest]:
        """Return the test sets that the final weights of a run have not translated this way."""
        made = _record(run).recall()
        return [
            test
            for test in self.tests
            if not run.hypotheses_file(test).exists()
            or made.get(test.name) != self._made_from(run, test)
        ]

    def translate_missing(self, run: SweepRun, *, device: str) -> None:
        """Translate what is missing; each file is complete or absent."""
        missing = self.missing(run)
        if not missing:
            return
        translator = load(run.folder, device)
        options = Options(beam=self.beam, alpha=self.alpha)
        for test in missing:
            made_from = self._made_from(run, test)
            lines = list(read_lines(Path(test.src)))
            into = language_of_file(test.tgt) if translator.languages else None
            found = translator.translate(lines, options, to=into)
            _write(run.hypotheses_file(test), [translation.text for translation in found])
            _record(run).remember({test.name: made_from})

    def _made_from(self, run: SweepRun, test: SweepTest) -> str:
        """Return a digest of all that decides the translations of a test set."""
        digests = Digests(self.cache)
        parts = [
            digests.of(run.folder / WEIGHTS),
            digests.of(Path(test.src)),
            self.beam,
            self.alpha,
        ]
        return blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def _record(run: SweepRun) -> JsonMemory:
    return JsonMemory(run.folder.with_name(f"{run.folder.name}.tests.json"))


def _write(path: Path, lines: Sequence[str]) -> None:
    with reporting_write_errors(path), atomic_file(path) as making:
        making.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
