"""Columns of a Ray Dataset, translated.

Ray Data reads, divides, streams, retries and writes. All that is here is what its actors do: each
holds the model and adds columns to the batches that it is given.
"""

import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

from transduce.bulk.ray_workers import ModelActor, resources_of_actors
from transduce.bulk.shards import Shard
from transduce.bulk.translate import WINDOW_LINES, WINDOW_LINES_OF_GPU
from transduce.bulk.workers import ModelIdentity, ModelSource, ShardSettings
from transduce.errors import InputError, did_you_mean, how_to_install
from transduce.translation.inference import Precision
from transduce.translation.lines import check_length
from transduce.translation.load import EngineName, Folder, default_options
from transduce.translation.options import Options, Translation
from transduce.translation.translator import Translator

DEFAULT_COLUMNS = MappingProxyType({"text": "translation"})
TEXT_TYPES = ("string", "large_string", "dictionary<values=string", "null", str(object))
"""How the names of types for text begin: Arrow's, and what a column of pandas may be."""


@dataclass(frozen=True, repr=False)  # Ray Data keeps the repr; that of a glossary may be long
class ColumnTranslation:
    """Which columns of a dataset are translated, and how."""

    columns: dict[str, str]  # the new column for each column with text
    options: Options
    has_scores: bool
    window: int  # rows that are translated together

    def __post_init__(self) -> None:
        if not self.columns:
            raise InputError("columns={}: name a column with text, and the one for translations")
        if self.options.sampling is not None:
            raise InputError("rows have no numbers that noise could follow: search instead")
        if self.window < 1:
            raise InputError(f"a window of {self.window} rows: use 1 or more")

    def check(self, types: Mapping[str, Any]) -> None:
        """Raise unless the texts are among columns with these types, and the new ones are not."""
        for name in self.columns:
            if name not in types:
                known = f"its columns are {', '.join(types)}"
                raise InputError(
                    f"the dataset has no column {name}{did_you_mean(name, types)}: {known}"
                )
            if not str(types[name]).startswith(TEXT_TYPES):
                raise InputError(
                    f"column {name} is of type {types[name]}, but must be text: name another, or "
                    "convert it first"
                )
        scores = [f"{new}_score" for new in self.columns.values()] if self.has_scores else []
        new_columns = [*self.columns.values(), *scores]
        for new in new_columns:
            if [*types, *new_columns].count(new) > 1:
                raise InputError(
                    f"there would be two columns {new}: give the translation another name"
                )

    def cells(
        self, translator: Translator, name: str, texts: Sequence[str | None]
    ) -> Iterator[Translation | None]:
        """Translate the texts of a column; where there is none, there is no translation."""
        present = [text for text in texts if text is not None]
        for text in present:
            check_length(text, lambda: f"a text of column {name}")
        found = translator.stream(present, self.options, window=self.window)
        return (None if text is None else next(found) for text in texts)


class ColumnTranslator:
    """Holds the model in an actor of Ray Data, and adds columns to batches."""

    def __init__(
        self,
        work: ColumnTranslation,
        source: ModelSource,
        expected: ModelIdentity,
        threads: int | None,
    ) -> None:
        import torch

        if threads is not None:
            torch.set_num_threads(threads)
        self._work = work
        self._translator = source.load()
        if ModelIdentity.of(self._translator) != expected:
            raise InputError(
                f"{socket.gethostname()} has another model in {source.folders[0]} than the first "
                "node, or another engine: use a folder that all share and that no run changes"
            )

    def __call__(self, table: Any) -> Any:
        """Return an Arrow table with its new columns."""
        import pyarrow

        work = self._work
        work.check(dict(zip(table.schema.names, table.schema.types, strict=True)))
        for name, new in work.columns.items():
            found = list(work.cells(self._translator, name, table[name].to_pylist()))
            texts = pyarrow.array([one and one.text for one in found], pyarrow.string())
            table = table.append_column(new, texts)
            if work.has_scores:
                scores = pyarrow.array([one and one.score for one in found], pyarrow.float64())
                table = table.append_column(f"{new}_score", scores)
        return table


def translate_dataset(
    path_or_paths: Folder | Sequence[Folder],
    dataset: Any,
    columns: Mapping[str, str] = DEFAULT_COLUMNS,
    options: Options | None = None,
    *,
    scores: bool = False,
    window: int | None = None,
    device: str = "auto",
    precision: Precision = "float32",
    engine: EngineName | None = None,
    to: str | None = None,
    shortlist: bool = False,
) -> Any:
    """Return a Ray Dataset that has translations of its text columns in columns of their own.

    path_or_paths, precision, engine, to, shortlist: the model, as for `load`, in a folder that all
        nodes see.
    columns: the name of the new column for each column with text; by default the translations of
        `text` are in `translation`. A row without a text gets no translation.
    scores: whether there is a column `NAME_score` for each new column.
    window: rows that are translated together; by default 128 on the CPU, 8,192 on a GPU.
    device: auto, cuda or cpu. An actor has a GPU; without GPUs, the cores of a node but one.

    The model is loaded once by the call, on a node, so that mistakes raise `InputError` at once.
    Rows are translated when Ray Data needs them. Their other columns stay as they are, and their
    order is as for `map_batches`. Sampling is refused, because rows have no numbers that noise
    could follow.
    """
    if any(find_spec(needed) is None for needed in ("ray", "pyarrow")):
        raise InputError(f"Ray Data is not installed: {how_to_install('cluster')}")
    import ray.data

    if not isinstance(dataset, ray.data.Dataset):
        raise InputError(f"a {type(dataset).__name__} is no Ray Dataset: make one with ray.data")
    if not isinstance(columns, Mapping):
        raise InputError(f"columns={columns!r}: name the new column of each, as {{'text': 'de'}}")
    several = [path_or_paths] if isinstance(path_or_paths, str | PathLike) else path_or_paths
    folders = tuple(Path(folder).absolute() for folder in several)
    source = ModelSource(folders, device, precision, engine, to=to, shortlist=shortlist)
    needs, count, threads = _resources(device)
    source = replace(source, device="cuda" if needs["num_gpus"] else "cpu")
    work = ColumnTranslation(
        dict(columns),
        options or default_options(folders[0]),
        scores,
        WINDOW_LINES.get(source.device, WINDOW_LINES_OF_GPU) if window is None else window,
    )
    schema = dataset.schema(fetch_if_missing=False)
    if schema is not None:
        work.check(dict(zip(schema.names, schema.types, strict=True)))
    identity = _loaded_once(source, work, needs, threads)
    return dataset.map_batches(
        ColumnTranslator,
        fn_constructor_args=(work, source, identity, threads),
        batch_size=work.window,
        batch_format="pyarrow",
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=count),
        **needs,
    )


def _resources(device: str) -> tuple[dict[str, float], int, int | None]:
    """Return what an actor needs, how many there may be, and how many threads each has.

    Ray Data starts actors before it reads, and waits forever if they have all cores. So each leaves
    one, though it has a thread for each.
    """
    needs, count = resources_of_actors(device, "translate_dataset")
    if needs["num_gpus"]:
        return {"num_cpus": 0, "num_gpus": 1}, count, None
    cores = int(needs["num_cpus"])
    return {"num_cpus": cores - 1, "num_gpus": 0}, count, cores


def _loaded_once(
    source: ModelSource, work: ColumnTranslation, needs: dict[str, float], threads: int | None
) -> ModelIdentity:
    """Have a node load the model and check the options; return what the model is."""
    import ray

    actor = ray.remote(**needs)(ModelActor).remote()
    nothing, settings = Shard(0, 0, [], []), ShardSettings(work.options, "text", work.window)
    try:
        loading: tuple[str, ModelIdentity | str] = ray.get(actor.load.remote(source, None, threads))
        machine, found = loading
        if isinstance(found, str):
            raise InputError(f"{machine} cannot load the model: {found}")
        refused = ray.get(actor.translate.remote(nothing, settings))
    except ray.exceptions.RayError as lost:
        first = next(iter(str(lost).splitlines()), "") or type(lost).__name__
        raise InputError(f"a node cannot load the model: {first}") from lost
    finally:
        ray.kill(actor)
    if isinstance(refused, str):
        raise InputError(refused)
    return found
