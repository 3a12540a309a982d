"""The command `transduce`: its options, its commands, and how it fails.

Modules in this package import at their top only what loads quickly; a command imports what it
computes with when it runs.
"""

import io
import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, NoReturn

import typer

import transduce
from transduce.cli.analysis.complexity import complexity
from transduce.cli.analysis.detect import detect
from transduce.cli.attention import attention
from transduce.cli.data.check import check_corpus
from transduce.cli.data.confident import keep_confident
from transduce.cli.data.demo import write_demo
from transduce.cli.data.filter import filter_pairs
from transduce.cli.data.generate import generate_task
from transduce.cli.data.pronunciation import write_pronunciations
from transduce.cli.data.public import get_corpus, list_corpora
from transduce.cli.data.shortlist import shortlist
from transduce.cli.demo import demo
from transduce.cli.describe import describe
from transduce.cli.evaluate import evaluate
from transduce.cli.export import export_model, import_model
from transduce.cli.pipelines.back_translate import back_translate, iterate
from transduce.cli.pipelines.distill import distill
from transduce.cli.presets import presets
from transduce.cli.runs import list_runs
from transduce.cli.score import score
from transduce.cli.serve import serve
from transduce.cli.sweeps.sweep import sweep
from transduce.cli.terminal.parsing import StrictTyper, explain
from transduce.cli.terminal.text_output import drop_unwritable_output
from transduce.cli.train import train
from transduce.cli.translate import translate
from transduce.cli.translation.translate_file import translate_one_file
from transduce.errors import InputError, TransduceError

app = StrictTyper(
    name="transduce",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: loading the renderer would take as long again
)
app.command()(demo)
app.command()(train)
app.command()(translate)
app.command("translate-file")(translate_one_file)
app.command()(evaluate)
app.command()(score)
app.command()(sweep)
app.command()(distill)
app.command("back-translate")(back_translate)
app.command()(iterate)
app.command("runs")(list_runs)
app.command()(attention)
app.command()(serve)
app.command()(shortlist)
app.command("export")(export_model)
app.command("import")(import_model)
app.command()(describe)
app.command()(complexity)
app.command()(presets)
app.command()(detect)
data = StrictTyper(rich_markup_mode=None)
data.command("check")(check_corpus)
data.command("filter")(filter_pairs)
data.command("list")(list_corpora)
data.command("get")(get_corpus)
data.command("demo")(write_demo)
data.command("generate")(generate_task)
data.command("confident")(keep_confident)
data.command("pronunciation")(write_pronunciations)
app.add_typer(data, name="data")


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    _debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback if there is an error.")
    ] = False,
) -> None:
    """From parallel text to a translator: "Attention Is All You Need" as software."""
    if version:
        typer.echo(f"transduce {transduce.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@data.callback(invoke_without_command=True)
def data_help(context: typer.Context) -> None:
    """Check and filter corpora, download public ones, write the built-in one, or generate tasks."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """Run the command line. A user's mistake is one line on standard error and exit code 2.

    If a reader of the output, such as `head`, has had enough, the command ends without a word.
    """
    # Waiting OpenMP threads sleep. By default they spin, which takes time from other processes and
    # from each other. This must be set before torch is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # noqa: TID251
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="replace"
            )  # so that a terminal without ε still gets the table
    arguments, debug = _without_debug(sys.argv[1:])
    try:
        with _ending_quietly_at_closed_pipes(), _printing_the_log():
            code = app(arguments, standalone_mode=False, prog_name="transduce")
            if sys.stdout is not None:  # None if it was closed
                sys.stdout.flush()
    except OSError as fault:
        if debug:
            raise
        # Discard what is still buffered, or Python would fail again when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        what = "cannot write the output" if fault.filename is None else str(fault.filename)
        _fail(InputError(f"{what}: {fault.strerror}"))
    except (TransduceError, typer.TyperException) as mistake:
        if debug:
            raise
        _fail(mistake)
    except typer.Abort:
        sys.exit(130)
    sys.exit(code)


@contextmanager
def _ending_quietly_at_closed_pipes() -> Iterator[None]:
    """End as a program does that a closed pipe stops: with the code that a shell gives it."""
    try:
        yield
    except (BrokenPipeError, SystemExit) as end:
        # typer and rich end the process with a code of their own if the reader is gone.
        if not any(isinstance(cause, BrokenPipeError) for cause in (end, end.__context__)):
            raise
        drop_unwritable_output()
        sys.exit(128 + signal.SIGPIPE)


class _LogLines(logging.Handler):
    """Prints what the package logs as plain lines on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        # A progress bar prints above itself what goes to sys.stderr; typer.echo goes around it.
        if sys.stderr is None:
            return
        try:
            sys.stderr.write(f"{record.getMessage()}\n")
            sys.stderr.flush()
        except BrokenPipeError:
            drop_unwritable_output()


@contextmanager
def _printing_the_log() -> Iterator[None]:
    """Print what the package tells its caller, such as which weights it has loaded."""
    log, lines = logging.getLogger("transduce"), _LogLines()
    before = log.level
    log.addHandler(lines)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(lines)
        log.setLevel(before)


def _without_debug(arguments: list[str]) -> tuple[list[str], bool]:
    """Remove `--debug` wherever it is, so that it can be appended to any failed command."""
    return [argument for argument in arguments if argument != "--debug"], "--debug" in arguments


def _fail(mistake: TransduceError | typer.TyperException) -> NoReturn:
    message = str(mistake) if isinstance(mistake, TransduceError) else explain(mistake)
    try:
        typer.echo(f"transduce: {' '.join(message.split())}", err=True)
    except BrokenPipeError:
        drop_unwritable_output()
    sys.exit(2)
