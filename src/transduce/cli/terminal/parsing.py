"""A command line that refuses an option given twice, instead of taking the last in silence."""

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from transduce.errors import InputError

Function = TypeVar("Function", bound=Callable[..., Any])


class StrictTyper(typer.Typer):
    """Declares commands whose options with one value may be given once; lists may be repeated."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=_StrictGroup, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Function], Function]:
        """Declare a command."""
        return super().command(name, cls=_StrictCommand, **settings)


class _StrictCommand(TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _refuse_repetition(self, ctx, args)
        return super().parse_args(ctx, args)


class _StrictGroup(TyperGroup):
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
