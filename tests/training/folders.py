"""Folders of runs that have begun, without any training."""

from pathlib import Path

from transduce.config.schema import Config, Tree, merge
from transduce.training.run.folder import RunFolder

GIVEN: Tree = {
    "data": {"src": ["a.en"], "tgt": "a.de"},
    "model": {"vocab_size": 400, "d_model": 32},
    "training": {"steps": 100},
}
FOUND_OUT: Tree = {"model": {"vocab_size": 387, "p_drop": 0.3}, "training": {"patience": 10}}
DIGESTS = {"a.en": "0a", "a.de": "0b", "data/dev/dev.src": "0c", "data/tokenizer.json": "0d"}


def begun(
    path: Path,
    schedule: str = "paper",
    *,
    given: Tree | None = None,
    digests: dict[str, str] | None = None,
    preset: str | None = None,
) -> RunFolder:
    """Return the folder of a run that was given these settings, by default GIVEN."""
    given = merge(GIVEN if given is None else given, {"training": {"schedule": schedule}})
    path.parent.mkdir(parents=True, exist_ok=True)
    tokenizer = path.parent / "tokenizer.json"
    tokenizer.write_text("{}")
    folder = RunFolder(path)
    with folder.locked():
        folder.write_start(
            Config.from_tree(merge(given, FOUND_OUT)),
            given=given,
            tokenizer=tokenizer,
            digests=DIGESTS if digests is None else digests,
            preset=preset,
        )
    return folder


def with_step(folder: RunFolder, step: int) -> RunFolder:
    """Give it a checkpoint, without its files."""
    (folder.path / "checkpoints" / f"step-{step:012}").mkdir(parents=True)
    return folder


def settings_of(folder: RunFolder) -> Config:
    """Return the settings of a run that has begun."""
    config = folder.settings()
    assert config is not None
    return config
