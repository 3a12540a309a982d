"""`transduce complexity`: Table 1, measured."""

import os
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli.terminal.options import DeviceOption

if TYPE_CHECKING:
    from rich.table import Table

    from transduce.analysis.complexity.records import LayerMeasurements
    from transduce.analysis.complexity.table import ComplexityRow

SizesOption = Annotated[
    str | None,
    typer.Option("--n", metavar="N,N,…", help="Lengths; by default 64 to 2,048."),
]
WidthsOption = Annotated[
    str | None,
    typer.Option("--d", metavar="D,D,…", help="Widths of layers; by default 64, 128, 256."),
]
AllOption = Annotated[
    bool,
    typer.Option("--all", help="n from 16 to 16,384 and d from 64 to 1,024, in about 8 minutes."),
]
SecondsOption = Annotated[
    float | None,
    typer.Option(help="For time and memory; sizes that would take longer are left out."),
]
FromOption = Annotated[
    Path | None,
    typer.Option("--from", metavar="FILE", help="Show what --json wrote: its sizes, its device."),
]
OutOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Draw a picture: .png, .svg or .pdf.")
]
JsonOption = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="File for all measurements, as JSON.")
]
PrecisionOption = Annotated[
    str, typer.Option(help="float32 or bf16; auto: bf16 on a GPU, float32 elsewhere.")
]
LAYER_WIDTH = 14


def complexity(
    n: SizesOption = None,
    d: WidthsOption = None,
    k: Annotated[int, typer.Option("--k", help="The kernel of convolutions.")] = 3,
    r: Annotated[int, typer.Option("--r", help="The neighbourhood of restricted attention.")] = 64,
    everything: AllOption = False,
    seconds: SecondsOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
    out: OutOption = None,
    as_json: JsonOption = None,
    measured_before: FromOption = None,
) -> None:
    """Measure Table 1: what each kind of layer costs, and how far apart it leaves two positions.

    Self-attention, recurrence, convolution and restricted self-attention: time and memory over
    the length n and the width d, operations that must follow one another, and the longest path.
    """
    from transduce.analysis.complexity.options import grid_options
    from transduce.analysis.pictures import check_picture
    from transduce.cli.terminal.text_output import check_new_file
    from transduce.errors import InputError

    if measured_before is not None and (n or d or everything or seconds):
        raise InputError("--from measures nothing: leave out --n, --d, --all and --seconds")
    options = grid_options(
        n=n,
        d=d,
        k=k,
        r=r,
        device=device,
        precision=precision,
        seconds=seconds,
        everything=everything,
    )
    if out is not None:
        check_picture(out)
    check_new_file(as_json, option="--json", ours=b'{\n "measured_on": ')
    # Without this, torch's profiler prints when it starts and stops. It is read with torch.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # noqa: TID251
    from transduce.analysis.complexity.records import read_measurements, write_measurements

    if measured_before is not None:
        measured = read_measurements(measured_before)
    else:
        from transduce.analysis.complexity.grid import measure_layers

        measured = measure_layers(options, lambda line: typer.echo(line, err=True))
    if as_json is not None:
        write_measurements(measured, as_json)
    _print(measured)
    if out is not None:
        from transduce.analysis.complexity.picture import draw_complexity

        draw_complexity(measured, out)
        typer.echo(f"picture: {out}", err=True)


def _print(measured: "LayerMeasurements") -> None:
    from rich.console import Console

    from transduce.analysis.complexity.table import complexity_rows, connected_n, notes

    console = Console(highlight=False, markup=False, emoji=False)
    console.print(_table(complexity_rows(measured), connected_n(measured)))
    for line in notes(measured):
        console.print(line)


def _table(rows: "list[ComplexityRow]", path_n: int | None) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=0)
    table.add_column("\nlayer", width=LAYER_WIDTH)
    costs = ("cost\npaper", "\ncount", "\ntime", "\nmemory")
    paths = ("path\npaper", f"path\nn={path_n:,}" if path_n else "path\nfound")
    for heading in (*costs, "seq.\npaper", "seq.\nfound", *paths):
        table.add_column(heading, no_wrap=True)
    for row in rows:
        table.add_row(
            _wrapped(row.layer),
            row.paper_operations,
            *(exponents.replace(" ", "\n") for exponents in (row.count, row.time, row.memory)),
            row.paper_sequential,
            row.sequential,
            row.paper_path,
            row.path,
        )
    return table


def _wrapped(name: str) -> str:
    """Wrap the name of a layer; a part of the layer above it is indented, on all lines."""
    indent = " " * (len(name) - len(name.lstrip()))
    return "\n".join(wrap(name, LAYER_WIDTH, subsequent_indent=indent))
