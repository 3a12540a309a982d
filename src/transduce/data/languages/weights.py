"""How often each corpus, or each direction of one, is used in an epoch: mix, stages, temperature.

Everything follows from the settings and the sizes of the corpora, so a resumed run has the same.
"""

from collections.abc import Mapping, Sequence

from transduce.config.schema import DataConfig
from transduce.data.languages.corpora import short_names, stem_of
from transduce.data.store import Store
from transduce.errors import ConfigError, did_you_mean

Weights = tuple[float, ...]
"""Of each corpus of a store, or of each of its directions; (): all are used once."""


def corpus_names(config: DataConfig) -> list[str]:
    """Return the names by which settings weigh corpora: given, or those of the source files."""
    if config.corpora:
        return list(config.corpora)
    stems = [stem_of(name) for name in config.src]
    short = short_names(stems)
    return [short[stem] for stem in stems]


def check_weights(config: DataConfig) -> None:
    """Raise if settings weigh a corpus that there is not, or two by one name."""
    names = corpus_names(config)
    for setting, mix in (("mix", config.mix), *(("stages", one.mix) for one in config.stages)):
        for name in mix:
            if name not in names:
                raise ConfigError(
                    f"data.{setting}: no corpus is named {name!r}{did_you_mean(name, names)}; "
                    f"there are {', '.join(dict.fromkeys(names)) or 'none'}"
                )
            if names.count(name) > 1:
                raise ConfigError(
                    f"data.{setting}: {names.count(name)} corpora are named {name!r}; use "
                    "data.weights, which goes by their order, or data.corpora, which has names"
                )
        if names and not any(mix.get(name, 1.0) for name in names):
            raise ConfigError(f"data.{setting}={mix}: the weight of one corpus must be above 0")
    if config.temperature > 1 and not config.corpora:
        raise ConfigError(
            f"data.temperature={config.temperature:g} is for several directions, from "
            "data.corpora: leave it out, or use data.mix"
        )


def stage_weights(config: DataConfig, train: Store) -> list[Weights]:
    """Return the weights of each stage of a run; one stage, if there are no others.

    Raise if a stage has no pair to train on: its epochs would never make a step.
    """
    mixes: list[Mapping[str, float]] = [stage.mix for stage in config.stages] or [config.mix]
    found = [config.weights or _weights(config, train, mix) for mix in mixes]
    for number, weights in enumerate(found, start=1):
        if weights and not any(w * size for w, size in zip(weights, _sizes(train), strict=True)):
            named = "data.weights" if config.weights else "data.mix"
            stage = f"stage {number} of data.stages" if config.stages else named
            raise ConfigError(
                f"{stage}: no pair is left of the corpora whose weight is above 0, after cleaning; "
                "weigh another, or look at their text"
            )
    return found


def _weights(config: DataConfig, train: Store, mix: Mapping[str, float]) -> Weights:
    """Weigh corpora by a mix, and then directions by temperature."""
    if not config.corpora:
        return tuple(mix.get(name, 1.0) for name in corpus_names(config)) if mix else ()
    sizes = _sizes(train)
    parts: list[list[str]] = train.manifest["directions"]
    weights = [mix.get(name, 1.0) for name, _ in parts]
    if config.temperature > 1:
        factors = tempered(
            [direction for _, direction in parts],
            [weight * size for weight, size in zip(weights, sizes, strict=True)],
            temperature=config.temperature,
        )
        weights = [weight * factor for weight, factor in zip(weights, factors, strict=True)]
    return tuple(weights) if any(weight != 1.0 for weight in weights) else ()


def _sizes(train: Store) -> list[int]:
    """Return the pairs of each corpus of a store, or of each of its directions."""
    ends: list[int] = train.manifest["source_ends"]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]


def tempered(names: Sequence[str], sizes: Sequence[float], *, temperature: float) -> list[float]:
    """Return by what the use of each part is multiplied, given its direction and its size.

    Directions get shares in proportion to size^(1/temperature); their sum stays as it is.
    """
    total: dict[str, float] = {}
    for name, size in zip(names, sizes, strict=True):
        total[name] = total.get(name, 0.0) + size
    wanted = {name: size ** (1 / temperature) if size else 0.0 for name, size in total.items()}
    scale = sum(total.values()) / (sum(wanted.values()) or 1.0)
    return [scale * wanted[name] / total[name] if total[name] else 0.0 for name in names]
