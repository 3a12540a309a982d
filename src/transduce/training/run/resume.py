"""Whether a command resumes the run in its folder, what may change, and what stays."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transduce.config.presets import all_presets
from transduce.config.renamed import with_current_names
from transduce.config.schema import Config, TrainingConfig, Tree, merge
from transduce.errors import ConfigError, counted
from transduce.files.digests import Digests
from transduce.models.model_files import BUDGET_CHANGES, checkpoint_folders, find_model
from transduce.training.request import Request
from transduce.training.run.checkpoint import Checkpoint, Progress
from transduce.training.run.folder import CACHE, BudgetChange, RunFolder, describe_budgets

BUDGETS = {"training.steps", "training.epochs", "training.minutes", "training.patience"}
MACHINERY = {"run.compile", "run.device", "run.save_minutes", "run.timeout_s"}
"""Settings that may change when a run resumes: what it has computed so far stays valid."""

TEXTS = {"data.src", "data.tgt", "data.dev_src", "data.dev_tgt", "data.held_out"}
NAMED_TEXTS = ("data.corpora.", "data.dev_corpora.")
"""What the names of other texts begin with: each is of a corpus and a language."""
VOCABULARY = {
    "data.tokenizer",
    "data.subwords",
    "data.tgt_subwords",
    "data.shared_vocabulary",
    "data.punctuation",
}


class OtherSettingsError(ConfigError):
    """A folder holds a run with other settings than those that are given."""

    def __init__(self, folder: RunFolder, differences: list[str], advice: str) -> None:
        """`differences` says of each setting what it is there and here."""
        super().__init__(
            f"{folder.path} holds a run with other settings: {'; '.join(differences)}; {advice}"
        )
        self.differences = differences


@dataclass(frozen=True)
class Resumption:
    """A run that a command resumes: its settings with what changes, and lines for the user."""

    config: Config
    budgets: BudgetChange  # that change; {}: none
    notes: tuple[str, ...]


def settings_to_resume(folder: RunFolder, request: Request) -> Config | None:
    """Return the settings of the run that a request resumes; None: it begins a run.

    A run that has saved no step has nothing to resume. So a complete command begins it anew, and a
    start that failed does not keep the next from working.
    """
    if request.fresh:
        return None
    names_text = any(map(_names_training_text, dict(_leaves(request.given))))
    return None if names_text and not folder.has_trained() else folder.settings()


def resume(folder: RunFolder, settled: Config, request: Request) -> Resumption:
    """Return what to resume with; raise if the user gives other settings than the run has.

    What is not given now stays as it was. Budgets may change, and so may settings that only say
    how the numbers are computed. Files are compared by content.
    """
    given_now = _given_now(folder, settled, request)
    given_then = dict(_leaves(folder.given()))
    has = dict(_leaves(settled.model_dump()))
    files = _Files(folder, request.cache or folder.path / CACHE)
    free = _free_settings(settled)
    changes: Tree = {}
    differences = {}
    for name, value in given_now.items():
        before = given_then.get(name, has.get(name))
        if name in free or (_is_text(name) and files.are_same(before, value)):
            changes = merge(changes, _tree(name, value))
        elif not (_plain(value) == _plain(before) or files.is_same_model(name, before, value)):
            differences[name] = f"{name} is {_shown(before)} there, not {_shown(value)}"
    if differences:
        raise OtherSettingsError(
            folder, list(differences.values()), _advice(folder, settled, set(differences))
        )
    config = settled.with_changes(changes)
    now = dict(_leaves(config.model_dump()))
    budgets = {name: (has[name], now[name]) for name in BUDGETS if has[name] != now[name]}
    done = _already_done(folder, config.training) if budgets else None
    if done:
        budgets, config = {}, settled.with_changes(_without_budgets(changes))
    stay = (
        f"{name} stays {_shown(has[name])}, as the run has it"
        if name in free
        else f"{name} stays {_shown(given_then[name])}, as the run was started"
        for name in _left_out(folder, request, given_now)
    )
    changed = f"the budget is changed at step {folder.last_step():,}: {describe_budgets(budgets)}"
    last = f"already done: {done}" if done else changed if budgets else None
    notes = (*_preset_note(folder, request), *stay, *([last] if last else []))
    return Resumption(config, budgets, notes)


def _already_done(folder: RunFolder, wanted: TrainingConfig) -> str | None:
    """Say what a finished run has done of other budgets; None: it is not finished by them too."""
    checkpoints = checkpoint_folders(folder.path)
    if not folder.is_finished() or not checkpoints:
        return None
    return _done_of(wanted, Checkpoint.read(checkpoints[max(checkpoints)]).progress)


def _done_of(wanted: TrainingConfig, progress: Progress) -> str | None:
    """Say which budget is spent: `20 steps, and 10 are asked for`; None: none is."""
    spent, minutes, epochs = progress.spent, wanted.minutes, wanted.epochs
    if spent.steps >= wanted.steps:
        return f"{counted(spent.steps, 'step')}, and {_asked_for(wanted.steps)}"
    if epochs is not None and spent.epochs >= epochs:
        return f"{counted(spent.epochs, 'epoch', form='.3g')}, and {_asked_for(epochs)}"
    if minutes is not None and spent.seconds >= 60 * minutes:
        done = counted(spent.seconds / 60, "minute", form=".3g")
        return f"{done}, and {_asked_for(minutes)}"
    if wanted.patience is not None and progress.scorings_since_best >= wanted.patience:
        scores = counted(wanted.patience, "score")
        return f"{progress.scorings_since_best} of {scores} in a row without improvement"
    return None


def _asked_for(budget: float) -> str:
    return counted(budget, "is asked for", "are asked for")


def _given_now(folder: RunFolder, settled: Config, request: Request) -> dict[str, Any]:
    """Return what is given now, by name; raise if a setting is unknown or has no such value.

    A preset stands for no budget of a run that has one. A recipe gives one only if it says another
    than at the start: the run may have been extended by an option since.
    """
    everything: Tree = with_current_names(request.settings())
    if folder.provenance().get("preset", request.preset) != request.preset is not None:
        # A preset states what differs from the base model, so another one is compared in full.
        model = Config.from_tree(everything).model.model_dump()
        everything = merge({"model": model}, everything)
    kind = everything.get("model", {}).get("kind", settled.model.kind)
    if kind == settled.model.kind:
        settled.with_changes(everything)
    given = {name for name, _ in _leaves(with_current_names(request.given))}
    options = given if request.options is None else {name for name, _ in _leaves(request.options)}
    has, at_start = dict(_leaves(settled.model_dump())), _budgets_at_start(folder)

    def stays(name: str, value: Any) -> bool:
        if name not in BUDGETS or name in options or has[name] == value:
            return False
        return name not in given or (name in at_start and at_start[name] == value)

    return {name: value for name, value in _leaves(everything) if not stays(name, value)}


def _budgets_at_start(folder: RunFolder) -> dict[str, Any]:
    """Return the budgets that the run started with: those given then, or changed since."""
    found = {name: value for name, value in _leaves(folder.given()) if name in BUDGETS}
    for change in reversed(folder.provenance().get(BUDGET_CHANGES, [])):
        found |= {name: before for name, (before, _) in change["changed"].items()}
    return found


@dataclass(frozen=True)
class _Files:
    """Compares files that a command names with those that the run started with, by content."""

    folder: RunFolder
    cache: Path

    def are_same(self, then: Any, now: Any) -> bool:
        before, after = _paths(then), _paths(now)
        if before == after:
            return True  # whether their content is the same is checked when it is read
        known, digests = self.folder.provenance()["data"], Digests(self.cache)
        return len(before) == len(after) and all(
            known.get(str(one)) == digests.of(other)
            for one, other in zip(before, after, strict=True)
        )

    def is_same_model(self, name: str, then: Any, now: Any) -> bool:
        """Whether a setting names the vocabulary or the model that the run started from."""
        if not isinstance(then, str) or not isinstance(now, str):
            return False
        if name == "data.tokenizer":
            return self.are_same(then, now)
        if name != "run.init":
            return False
        started_from = self.folder.provenance().get("init")
        if Path(then) == Path(now) or started_from is None:
            return Path(then).resolve() == Path(now).resolve()
        return bool(Digests(self.cache).of(find_model(Path(now)).weights) == started_from)


def _free_settings(settled: Config) -> set[str]:
    """Name the settings that may change when this run resumes."""
    free = BUDGETS | MACHINERY
    if settled.run.choose_by == "loss":
        free.add("run.score_sentences")  # else it decides which weights are the best
    return free


def _left_out(folder: RunFolder, request: Request, given_now: dict[str, Any]) -> list[str]:
    """Name the settings that the run was started with and that are not given now."""
    now = set(given_now)
    # A command that names no text is about the run as it is.
    names_text = any(map(_names_training_text, now))
    preset = _leaves_of_preset(folder, request)
    return [
        name
        for name, value in _leaves(folder.given())
        if name not in now
        and (names_text or not _is_text(name))
        and not (name in preset and preset[name] == value)
    ]


def _leaves_of_preset(folder: RunFolder, request: Request) -> dict[str, Any]:
    """Return what the run's preset stands for, if the command leaves the preset out."""
    name = folder.provenance().get("preset")
    preset = all_presets().get(name) if name and request.preset is None else None
    return dict(_leaves(preset().model_dump(exclude_unset=True))) if preset else {}


def _preset_note(folder: RunFolder, request: Request) -> Iterator[str]:
    name = folder.provenance().get("preset")
    if name and request.preset is None:
        yield f"the preset stays {name}, as the run was started"


def _advice(folder: RunFolder, settled: Config, differing: set[str]) -> str:
    """Say what to do; another model or vocabulary cannot start from this model."""
    fixed = {name for name in differing if name.startswith("model.")}
    fixed -= {f"model.{name}" for name in settled.model.free_settings()}
    if fixed | (differing & VOCABULARY):
        return "choose another --out, or start over with --fresh"
    return (
        f"choose another --out, with --init {folder.path} to start from this model, or start over "
        "with --fresh"
    )


def _leaves(tree: Tree, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _leaves(value, f"{name}.")
        else:
            yield name, value


def _is_text(name: str) -> bool:
    """Whether a setting names files of text."""
    return name in TEXTS or name.startswith(NAMED_TEXTS)


def _names_training_text(name: str) -> bool:
    return name == "data.src" or name.startswith(NAMED_TEXTS[0])


def _tree(name: str, value: Any) -> Tree:
    for part in reversed(name.split(".")):
        value = {part: value}
    tree: Tree = value
    return tree


def _without_budgets(changes: Tree) -> Tree:
    return {
        section: {key: value for key, value in values.items() if f"{section}.{key}" not in BUDGETS}
        for section, values in changes.items()
    }


def _plain(value: Any) -> Any:
    """Return a value to compare: a tuple equals a list, and one value equals a list of it."""
    return list(value) if isinstance(value, list | tuple) else [value]


def _paths(value: Any) -> list[Path]:
    return [Path(str(name)) for name in _plain(value) if name is not None]


def _shown(value: Any) -> str:
    """Write a value as a user gives it."""
    return ", ".join(map(str, value)) or "none" if isinstance(value, list | tuple) else str(value)
