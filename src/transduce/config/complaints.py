"""What is wrong with settings, in words: all mistakes in one line, each with name and value."""

import reprlib
from collections.abc import Iterator, Mapping
from itertools import islice
from textwrap import shorten
from typing import Any

from pydantic import ValidationError

from transduce.config.renamed import OTHER_NAMES
from transduce.config.rules import broken_rule
from transduce.config.sections.augment import AugmentConfig
from transduce.config.sections.section import Section
from transduce.errors import did_you_mean

MAX_COMPLAINTS = 20
"""A message names at most this many mistakes."""

Sections = Mapping[str, type[Section]]
"""The class of each section, by its name."""


def all_complaints(invalid: ValidationError, sections: Sections) -> str:
    """Say in one line what is wrong with settings of these sections."""
    found = list(islice(_complaints(invalid, sections), MAX_COMPLAINTS + 1))
    shown = [shorten(complaint, 500) for complaint in found[:MAX_COMPLAINTS]]
    more = ["and more"] if len(found) > MAX_COMPLAINTS else []
    return "; ".join(shown + more)


def names_in(sections: Sections) -> list[str]:
    """Return the names of all settings: `model.d_model`, …"""
    return [f"{name}.{setting}" for name, one in sections.items() for setting in one.model_fields]


def _complaints(invalid: ValidationError, sections: Sections) -> Iterator[str]:
    for error in invalid.errors(include_url=False):
        name = ".".join(part for part in error["loc"] if isinstance(part, str))
        found = reprlib.repr(error["input"])
        match error["type"]:
            case "default_factory_not_called":
                pass  # it follows from a setting that has its own complaint
            case "extra_forbidden":
                yield from _unknown(name, error["input"], sections)
            case "value_error":
                yield str(error["ctx"]["error"])
            case "model_type":
                section = name or "the settings"
                yield f"{section} must be a mapping of names to values: found {found}"
            case _:
                rule = broken_rule(error, description=_description(name, sections))
                yield f"{name}={found}: {rule}"


def _unknown(name: str, value: Any, sections: Sections) -> Iterator[str]:
    """Say that a setting is unknown, or all settings of a section, and which may be meant."""
    is_section = "." not in name and isinstance(value, dict) and value
    if is_section and not did_you_mean(name, sections):
        for below in value:
            yield from _unknown(f"{name}.{below}", None, sections)
        return
    known = names_in(sections)
    meant = OTHER_NAMES.get(name.rpartition(".")[2])
    if meant in known:
        hint = f" (did you mean {meant}?)"
    else:
        rates = (f"data.augment.{rate}" for rate in AugmentConfig.model_fields)
        hint = did_you_mean(name, [*sections, *known, *rates])
    yield f"unknown setting {name}{hint or '; transduce describe PRESET --yaml lists all'}"


def _description(name: str, sections: Sections) -> str:
    """Return what a setting means, or '' if there is none of this name."""
    section, _, setting = name.partition(".")
    if section not in sections:
        return ""
    field = sections[section].model_fields.get(setting)
    return (field.description or "") if field else ""
