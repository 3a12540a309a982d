"""What a value must be, in plain words, from the errors of the library that checks it."""

from collections.abc import Mapping
from typing import Any

_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "finite": "a finite number",
    "bool": "true or false",
    "string": "text",
    "path": "the name of a file",
    "tuple": "a list, such as [1, 2]",
    "list": "a list, such as [1, 2]",
}
"""What a value must be, by the first word of the type of an error."""

_BOUNDS = {
    "greater_than": ("gt", "more than {}"),
    "greater_than_equal": ("ge", "{} or more"),
    "less_than": ("lt", "less than {}"),
    "less_than_equal": ("le", "at most {}"),
}


def broken_rule(error: Mapping[str, Any], *, description: str = "") -> str:
    """Say which rule a value breaks, such as `must be 1 or more`, given an error of pydantic.

    `description` is that of the setting: it tells which texts are allowed.
    """
    kind = str(error["type"])
    if kind in _BOUNDS:
        name, rule = _BOUNDS[kind]
        return "must be " + rule.format(_shown(error["ctx"][name]))
    if kind == "literal_error":
        return f"must be {error['ctx']['expected']}"
    if kind == "string_pattern_mismatch" and description:
        return f"must be {description}"
    word = kind.partition("_")[0]
    if word in _KINDS:
        return f"must be {_KINDS[word]}"
    return str(error["msg"]).replace("Input should be", "must be")


def _shown(bound: Any) -> str:
    whole = int(bound) if isinstance(bound, float) and bound.is_integer() else bound
    return f"{whole:,}" if isinstance(whole, int) else str(whole)
