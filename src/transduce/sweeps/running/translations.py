"""A run's translations of the test sets, made once its weights are final."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transduce.bulk.output_lines import on_one_line
from transduce.data.formats.lines import read_lines
from transduce.data.languages.corpora import language_of_file
from transduce.errors import InputError
from transduce.files.atomic import atomic_file
from transduce.files.digests import Digests, JsonMemory
from transduce.files.errors import reporting_write_errors
from transduce.models.model_files import WEIGHTS
from transduce.sweeps.file import SweepFile, SweepTest
from transduce.sweeps.plan import SweepRun
from transduce.training.run.folder import RunFolder
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
        """Return the test sets that the final weights of a run have not translated this way.

        Raises `InputError` if they are missing and the weights are not here to make them.
        """
        made = _record(run).recall()
        missing = [
            test
            for test in self.tests
            if not run.hypotheses_file(test).exists()
            or made.get(test.name) != self._made_from(run, test, made.get(test.name))
        ]
        if missing and RunFolder(run.folder).is_record():
            raise InputError(
                f"row {run.variation!r}: {run.folder} has no translations of {missing[0].name} "
                f"with beam {self.beam}, α {self.alpha}, and no weights to make them: restore "
                f"{WEIGHTS} from where the run was trained, or leave the row out with --skip"
            )
        return missing

    def translate_missing(self, run: SweepRun, *, device: str) -> None:
        """Translate what is missing; each file is complete or absent."""
        missing = self.missing(run)
        if not missing:
            return
        translator = load(run.folder, device)
        options = Options(beam=self.beam, alpha=self.alpha)
        for test in missing:
            made_from = self._made_from(run, test, None)
            lines = list(read_lines(Path(test.src)))
            into = language_of_file(test.tgt) if translator.languages else None
            found = translator.translate(lines, options, to=into)
            texts = [on_one_line(translation.text) for translation in found]
            _write(run.hypotheses_file(test), texts)
            _record(run).remember({test.name: made_from})

    def _made_from(self, run: SweepRun, test: SweepTest, recorded: Any) -> dict[str, Any]:
        """Return all that decides the translations of a test set.

        Weights that were left elsewhere are taken for those that are recorded.
        """
        digests, weights = Digests(self.cache), run.folder / WEIGHTS
        known = recorded.get("weights") if isinstance(recorded, dict) else None
        return {
            "weights": digests.of(weights) if weights.exists() else known,
            "src": digests.of(Path(test.src)),
            "beam": self.beam,
            "alpha": self.alpha,
        }


def _record(run: SweepRun) -> JsonMemory:
    return JsonMemory(run.translations_record)


def _write(path: Path, lines: Sequence[str]) -> None:
    with reporting_write_errors(path), atomic_file(path) as making:
        making.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
