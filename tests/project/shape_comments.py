"""Compares the shape comments in the code with the tensors of a real run.

A comment such as `# [B, h, T, d_k]` ends the line of an assignment, a `return`, a parameter or a
field. `sizes` says which numbers a name may stand for; within one call, or one object, it stands
for one of them. A product such as `B*k` gives its one factor that is not known yet.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from torch import Tensor

SHAPE = re.compile(r"#\s*\[([^\]]*)\]\s*")
KINDS = ("field", "parameter", "return", "assignment")
Sizes = dict[str, set[int]]
Bound = dict[str, int]


@dataclass(frozen=True)
class Claim:
    """A shape comment and what it speaks of."""

    path: Path
    line: int
    dims: tuple[str, ...]
    kind: str  # one of KINDS
    name: str  # of the variable, parameter or field
    owner: str  # the function or class it belongs to
    first: int  # line of the statement or of the owner

    def __str__(self) -> str:
        return f"{self.path.name}:{self.line} [{', '.join(self.dims)}]"


@dataclass
class Report:
    """What a run showed."""

    checked: set[Claim] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)


def shape_faults(
    sources: dict[Path, str], sizes: Callable[[Path], Sizes], run: Callable[[], None]
) -> list[str]:
    """Run and return every comment that is wrong, misplaced or never met."""
    claims, report = [], Report()
    for path, text in sources.items():
        for claim in _claims(path, text):
            if isinstance(claim, str):
                report.faults.append(claim)
            else:
                claims.append(claim)
    tracer = _Tracer(claims, sizes, report)
    previous = sys.gettrace()
    sys.settrace(tracer.on_call)
    try:
        run()
    finally:
        sys.settrace(previous)
    unmet = [f"{claim} was never met" for claim in claims if claim not in report.checked]
    return sorted(set(report.faults)) + unmet


def _claims(path: Path, text: str) -> Iterator[Claim | str]:
    comments = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and token.string.lstrip("# ").startswith("["):
            match = SHAPE.fullmatch(token.string)
            inside = match[1] if match else ""  # a shape with more beside it matches no tensor
            comments[token.start[0]] = tuple(part.strip() for part in inside.split(","))
    tree = ast.parse(text)
    for line, dims in comments.items():
        subject = _subject(tree, line)
        if subject is None:
            yield f"{path.name}:{line} a shape comment on nothing that has a shape"
        else:
            yield Claim(path, line, dims, *subject)


def _subject(tree: ast.Module, line: int) -> tuple[str, str, str, int] | None:
    """Find what ends on this line: (kind, name, owner, first line). Fields are assignments too."""
    found = [subject for node in ast.walk(tree) for end, subject in _subjects(node) if end == line]
    return min(found, key=lambda subject: KINDS.index(subject[0]), default=None)


def _subjects(node: ast.AST) -> Iterator[tuple[int | None, tuple[str, str, str, int]]]:
    match node:
        case ast.ClassDef(name=owner):
            for item in node.body:
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                    yield item.end_lineno, ("field", item.target.id, owner, node.lineno)
        case ast.FunctionDef(name=owner):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            for argument in (*node.args.args, *node.args.kwonlyargs):
                yield argument.end_lineno, ("parameter", argument.arg, owner, first)
        case ast.Return():
            yield node.end_lineno, ("return", "the returned value", "", node.lineno)
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            yield node.end_lineno, ("assignment", name, "", node.lineno)


class _Tracer:
    def __init__(self, claims: list[Claim], sizes: Callable[[Path], Sizes], report: Report) -> None:
        self.by_file: dict[str, list[Claim]] = {}
        for claim in claims:
            self.by_file.setdefault(str(claim.path), []).append(claim)
        self.fields = [claim for claim in claims if claim.kind == "field"]
        self.sizes = sizes
        self.report = report

    def on_call(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        claims = self.by_file.get(frame.f_code.co_filename)
        if claims is None:
            return None
        bound: Bound = {}
        for claim in claims:
            if claim.kind == "parameter" and claim.first == frame.f_code.co_firstlineno:
                self._check(claim, frame.f_locals[claim.name], bound)
        statements = [c for c in claims if c.kind in ("assignment", "return")]
        previous = frame.f_lineno

        def on_line(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal previous
            for claim in statements:
                was_in = claim.first <= previous <= claim.line
                leaves = event == "return" or not claim.first <= frame.f_lineno <= claim.line
                if (
                    claim.kind == "assignment"
                    and was_in
                    and leaves
                    and claim.name in frame.f_locals
                ):
                    self._check(claim, frame.f_locals[claim.name], bound)
                if claim.kind == "return" and event == "return" and was_in and argument is not None:
                    self._check(claim, argument, bound)
            if event == "return":
                returned = argument if isinstance(argument, tuple) else (argument,)
                for value in (frame.f_locals.get("self"), *returned):
                    self._check_fields(value)
            previous = frame.f_lineno
            return on_line

        return on_line

    def _check_fields(self, value: Any) -> None:
        classes = {(kind.__name__, _file_of(kind)) for kind in type(value).__mro__}
        bound: Bound = {}
        for claim in self.fields:
            if (claim.owner, str(claim.path)) in classes:
                self._check(claim, getattr(value, claim.name), bound)

    def _check(self, claim: Claim, value: Any, bound: Bound) -> None:
        self.report.checked.add(claim)
        if not isinstance(value, Tensor | np.ndarray):
            self.report.faults.append(f"{claim}: {claim.name} is no tensor")
        elif not matches(claim.dims, tuple(value.shape), bound, self.sizes(claim.path)):
            self.report.faults.append(f"{claim}: {claim.name} is {list(value.shape)}")


def _file_of(kind: type) -> str | None:
    return getattr(sys.modules.get(kind.__module__), "__file__", None)


def matches(dims: tuple[str, ...], shape: tuple[int, ...], bound: Bound, sizes: Sizes) -> bool:
    """Compare a comment with a shape, binding names that are not known yet."""
    return len(dims) == len(shape) and all(
        _fits(dim, size, bound, sizes) for dim, size in zip(dims, shape, strict=True)
    )


def _fits(dim: str, size: int, bound: Bound, sizes: Sizes) -> bool:
    known, unknown = 1, []
    for factor in dim.split("*"):
        if factor.isdecimal():
            known *= int(factor)
        elif factor in bound:
            known *= bound[factor]
        elif len(sizes.get(factor, ())) == 1:
            known *= min(sizes[factor])
        else:
            unknown.append(factor)
    if not unknown:
        return size == known
    if len(unknown) > 1 or size % known or size // known not in sizes.get(unknown[0], ()):
        return False
    bound[unknown[0]] = size // known
    return True
