"""A command line that refuses an option given twice, and says plainly what is wrong with one."""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from transduce.errors import InputError, did_you_mean

UNCUT = 200
"""Characters of a command's description in a list of commands: all, on several lines."""

Function = TypeVar("Function", bound=Callable[..., Any])


class StrictTyper(typer.Typer):
    """Declares commands whose options with one value may be given once; lists may be repeated."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=_StrictGroup, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Function], Function]:
        """Declare a command."""
        return super().command(name, cls=_StrictCommand, **settings)


class _StrictCommand(TyperCommand):
    def get_short_help_str(self, limit: int = 45) -> str:
        return super().get_short_help_str(max(limit, UNCUT))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        for parameter in self.get_params(ctx):
            if parameter.param_type_name == "argument" and parameter.nargs != 1:
                several: Any = parameter
                several.display_type_rich = lambda **_ctx: "..."  # not <list[Path]>
        super().format_options(ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _refuse_repetition(self, ctx, args)
        return super().parse_args(ctx, args)


class _StrictGroup(TyperGroup):
    def get_short_help_str(self, limit: int = 45) -> str:
        return super().get_short_help_str(max(limit, UNCUT))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _refuse_repetition(self, ctx, args)
        return super().parse_args(ctx, args)


def _refuse_repetition(command: TyperCommand | TyperGroup, ctx: Any, args: list[str]) -> None:
    """Raise if an option that has one value is given more than once."""
    if ctx.resilient_parsing:  # of a line that is still being written, for completion
        return
    _, _, given = command.make_parser(ctx).parse_args(args=list(args))
    for option, times in Counter(given).items():
        if times > 1 and takes_one_value(option):
            name = " or ".join((*option.opts, *option.secondary_opts))
            often = "twice" if times == 2 else f"{times} times"
            raise InputError(f"{name} is given {often}, but it has one value: give it once")


def takes_one_value(option: Any) -> bool:
    """Return whether giving an option of click a second time would contradict the first.

    A flag that is only switched on, and a list, may be repeated.
    """
    if option.param_type_name != "option" or option.multiple or getattr(option, "count", False):
        return False
    return not option.is_flag or bool(option.secondary_opts)


def explain(mistake: typer.TyperException) -> str:
    """Say what is wrong with a command line: the option, the value found and the rule."""
    errors = getattr(mistake.__cause__, "errors", None)  # of the library that checks values
    if errors is not None:
        from transduce.config.rules import broken_rule

        [first, *_] = errors(include_url=False)
        if choices := re.search(r"is not one of (.*)\.$", first["msg"]):
            return f"{_name(mistake)} {_choose(str(first['input']), choices[1])}"
        return f"{_name(mistake)} {first['input']}: {broken_rule(first)}"
    option = getattr(mistake, "option_name", None)
    if hasattr(mistake, "possibilities"):
        return f"no option {option}{did_you_mean(str(option), mistake.possibilities or ())}" + (
            _see_help(mistake)
        )
    return _in_our_words(" ".join(mistake.format_message().split()), mistake)


def _choose(found: str, choices: str) -> str:
    """Say which texts are allowed, given them in quotes."""
    known = re.findall(r"'(.*?)'", choices)
    return f"{found}: must be {', '.join(known[:-1])} or {known[-1]}{did_you_mean(found, known)}"


def _in_our_words(message: str, mistake: typer.TyperException) -> str:
    """Rewrite the messages of the library that parses, which leaves no other way to know them."""
    if found := re.fullmatch(r"Missing (?:argument|option) '(.*?)'\.(?: (.*))?", message):
        rest = f": {found[2][0].lower()}{found[2][1:]}" if found[2] else _see_help(mistake)
        return f"{found[1]} is missing{rest}"
    if found := re.fullmatch(r"No such command '(.*?)'\.(?: Did you mean (.*)\?)?", message):
        meant = re.findall(r"'(.*?)'", found[2] or "")
        hint = f" (did you mean {' or '.join(meant)}?)" if meant else ""
        return f"no command {found[1]!r}{hint}{_see_help(mistake)}"
    if found := re.fullmatch(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)", message):
        return (
            f"more arguments than the command takes: {found[1]}{_how_to_name_texts(mistake)}"
            f"{_see_help(mistake)}"
        )
    if found := re.fullmatch(r"Option '(.*?)' requires an argument\.", message):
        return f"{found[1]} needs a value{_see_help(mistake)}"
    if found := re.fullmatch(r"Invalid value for '(.*?)': (.*)", message):
        return f"{found[1]}: {found[2]}"
    return message


def _name(mistake: typer.TyperException) -> str:
    """Return the option or argument that is wrong, as the user writes it."""
    parameter: Any = getattr(mistake, "param", None)
    if parameter is None:
        return "a value"
    if parameter.param_type_name == "option":
        return str(max(parameter.opts, key=len))
    return str(parameter.metavar or parameter.name)


def _how_to_name_texts(mistake: typer.TyperException) -> str:
    """Name the options for texts, if the command has some: its texts are no plain arguments."""
    command = getattr(getattr(mistake, "ctx", None), "command", None)
    known = {name for option in getattr(command, "params", ()) for name in option.opts}
    names = [name for name in ("--src", "--tgt", "--ref") if name in known]
    return f"; for a text, write {' or '.join(names)} before each file" if names else ""


def _see_help(mistake: typer.TyperException) -> str:
    path = getattr(getattr(mistake, "ctx", None), "command_path", None)
    return f"; see '{path} --help'" if path else ""
