"""A training run as the stage of a pipeline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transduce.config.load import parse_override
from transduce.config.renamed import with_current_names
from transduce.config.schema import Tree, merge
from transduce.models.model_files import WEIGHTS
from transduce.pipelines.watcher import PipelineWatcher
from transduce.training.loop import train


@dataclass(frozen=True)
class TrainingTexts:
    """The text of a run: to train on, to choose weights by, and never to train on."""

    src: Sequence[Path]
    tgt: Sequence[Path]
    dev_src: Sequence[Path] = ()
    dev_tgt: Sequence[Path] = ()
    held_out: Sequence[Path] = ()


def as_tree(settings: Mapping[str, Any] | Sequence[str]) -> Tree:
    """Return settings as nested mappings, given so or as texts such as `training.steps=1000`."""
    tree: Tree = {}
    for change in [settings] if isinstance(settings, Mapping) else map(parse_override, settings):
        tree = merge(tree, with_current_names(dict(change)))
    return tree


def train_stage(
    title: str,
    folder: Path,
    texts: TrainingTexts,
    watcher: PipelineWatcher,
    *,
    preset: str | None,
    settings: Tree,
) -> bool:
    """Train a model, or what is left of its run; return False if it was stopped before its end."""
    watcher.stage(title, is_done=(folder / WEIGHTS).is_file())
    outcome = train(
        src=texts.src,
        tgt=texts.tgt,
        out=folder,
        dev_src=texts.dev_src,
        dev_tgt=texts.dev_tgt,
        held_out=texts.held_out,
        preset=preset,
        settings=settings,
        progress=watcher.training(),
        should_stop=watcher.should_stop,
    )
    return outcome.reason is not None
