"""Settings that had another name or value in version 0.1; both are read."""

from typing import Any

from transduce.errors import ConfigError

RENAMED = {("run", "bleu_sentences"): "score_sentences"}
"""The new names of settings, by their section and old name."""

RENAMED_VALUES = {("run", "choose_by", "bleu"): "metric"}
"""The new values of settings, by their section, name and old value."""


def with_current_names(tree: Any) -> Any:
    """Return settings under the names and with the values of this version.

    What is not a tree of settings is returned as it is: validation complains about it.
    """
    if not isinstance(tree, dict):
        return tree
    return {
        section: _renamed(section, values) if isinstance(values, dict) else values
        for section, values in tree.items()
    }


def _renamed(section: str, values: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for old, value in values.items():
        name = RENAMED.get((section, old), old)
        if name != old and name in values:
            raise ConfigError(
                f"{section}.{old} is the old name of {section}.{name}: give only the latter"
            )
        is_text = isinstance(value, str)
        found[name] = RENAMED_VALUES.get((section, name, value), value) if is_text else value
    return found
