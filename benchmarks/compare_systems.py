"""Table 2, measured: systems trained on one corpus with one budget, scored on one test set.

    python benchmarks/compare_systems.py train recipes/comparison/rnn.yaml --data multi30k_bpe \
        --corpora data --out runs/rnn --minutes 3 --speed 900000
    python benchmarks/compare_systems.py table runs/transformer runs/rnn … [--test test.2016]
    python benchmarks/compare_systems.py draw runs/transformer runs/rnn … --out comparison.png

A budget is in minutes, in operations or in epochs. With `--speed`, the source and target tokens per
second that a system trains on when it has the device for itself, minutes become epochs: what a run
would do alone in that time, so that several runs may share a device. Without it the clock counts.
`train --only-speed --epochs 0.1` measures a speed, and `--speed-of RUN` takes it from there.
`--minutes-of RUN …` and `--operations-of RUN …` give what the run that had the least of them had.
With `--most-minutes`, a run also ends by the clock: the table shows the minutes of its own speed
that it had until then.

For several runs at once, `prepare RECIPE --data … --cache DIR` first makes the data that all with
the same `--cache` share. After `train --no-tests`, `translate RUN` translates the test sets.

Operations are the multiplications and additions of matrix products, forward and backward (three
times the forward pass), counted by torch for sentences of the corpus's mean length. Padding does
not count; slots of experts that stay empty do.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import transduce
from transduce.analysis.cost import Cost, cost_of
from transduce.analysis.runs import read_runs
from transduce.bulk.output_lines import on_one_line
from transduce.config.load import load_config
from transduce.config.schema import Tree
from transduce.data.formats.lines import read_lines
from transduce.evaluation.report import Comparison, IntervalScore, report
from transduce.tasks.tokenization import choose_tokenization
from transduce.training.distributed import ProcessRank
from transduce.training.request import make_request
from transduce.training.run.events import Scored, Stepped
from transduce.training.run.folder import RunFolder
from transduce.training.run.prepare import PreparedRun, prepare_run

RECORD = "comparison.json"
SPEED_ALONE = (
    *("run.checkpoint_steps=1000000000", "run.score_sentences=0", "run.choose_by=loss"),
    *("run.average=1", "run.ema_decay=0"),
)
"""Settings of a run that shows a system's speed."""


@dataclass(frozen=True)
class DataSet:
    """A corpus below the folder of all corpora: files without the endings of their languages."""

    train: tuple[str, ...]
    dev: tuple[str, ...]
    tests: tuple[str, ...]
    src: str = "en"
    tgt: str = "de"
    compressed: str = ""  # the last ending of training text
    tokenizer: str | None = None  # of BLEU
    settings: tuple[str, ...] = ()

    def training_texts(self, corpora: Path) -> dict[str, list[str]]:
        """Return the files that `transduce.train` is given."""
        return {
            name: [f"{corpora / stem}.{language}{ending}" for stem in stems]
            for side, stems, ending in (("", self.train, self.compressed), ("dev_", self.dev, ""))
            for name, language in ((f"{side}src", self.src), (f"{side}tgt", self.tgt))
        } | {"held_out": [str(file) for test in self.tests for file in self.test(corpora, test)]}

    def test(self, corpora: Path, test: str) -> tuple[Path, Path]:
        """Return the source and target of a test set."""
        return corpora / f"{test}.{self.src}", corpora / f"{test}.{self.tgt}"


DATA = {
    "multi30k_bpe": DataSet(
        ("multi30k-bpe/train",),
        ("multi30k-bpe/valid",),
        ("multi30k-bpe/test.2016",),
        tokenizer="none",
        settings=("data.subwords=whitespace", "data.clean=false", "model.vocab_size=12000"),
    ),
    "multi30k": DataSet(
        ("multi30k/train",),
        ("multi30k/val",),
        ("multi30k/test_2016_flickr",),
        settings=("model.vocab_size=8000",),
    ),
    "europarl": DataSet(
        ("europarl-de-en/train.0", "europarl-de-en/train.1"),  # half of it: 842,000 pairs
        ("newstest/newstest2013", "europarl-de-en/dev"),
        ("europarl-de-en/test", "newstest/newstest2014.ende"),
        compressed=".xz",
        settings=("model.vocab_size=24000", "data.punctuation=plain"),
    ),
}


@dataclass(frozen=True)
class Point:
    """The development BLEU of a run at one moment."""

    step: int
    tokens: int
    bleu: float


@dataclass(frozen=True)
class Record:
    """What one run of one system was, and what it reached."""

    system: str
    data: str
    summary: str
    parameters: int
    training_operations_per_token: float  # of one source and one target token
    tokens: int  # source and target
    seconds: float
    tokens_per_s: float  # median while it trained, or alone on the device if that was given
    curve: list[Point]
    settings: Tree

    @property
    def operations(self) -> float:
        """The operations of the whole training."""
        return self.operations_at(self.tokens)

    @property
    def minutes(self) -> float:
        """Minutes of training at the system's own speed, without scoring."""
        return self.tokens / self.tokens_per_s / 60

    @property
    def best(self) -> float:
        """The best BLEU on the development set."""
        return max((point.bleu for point in self.curve), default=0.0)

    def operations_at(self, tokens: int) -> float:
        """Count the operations of training on that many source and target tokens."""
        return self.training_operations_per_token * tokens / 2

    def minutes_to(self, bleu: float) -> float | None:
        """Return the minutes until the development BLEU is this; None: it never was."""
        reached = [point.tokens for point in self.curve if point.bleu >= bleu]
        return reached[0] / self.tokens_per_s / 60 if reached else None


def train_one(args: argparse.Namespace) -> None:
    """Train one system, translate the test set, and write both down in the run's folder.

    After it was stopped, the same command goes on.
    """
    data = DATA[args.data]
    settings = [*args.set, *(SPEED_ALONE if args.only_speed else ())]
    prepared = prepare(args, settings)
    train = prepared.prepared.train
    epoch_tokens = train.src.ids.size + train.tgt.ids.size + 2 * len(train)
    cost = cost_of(prepared.config.model, length=round(epoch_tokens / 2 / len(train)))
    transduce.train(
        args.recipe,
        **data.training_texts(args.corpora),  # type: ignore[arg-type]
        settings=[
            *(*data.settings, *settings),
            *_budget(args, epoch_tokens, cost.training_operations_per_token),
        ],
        out=args.out,
        cache=args.cache,
        progress=_printing(args.recipe.stem),
    )
    record = _record(args, cost)
    (args.out / RECORD).write_text(json.dumps(asdict(record), indent=1) + "\n")
    if args.only_speed:
        sys.stdout.write(f"{record.system}: {record.tokens_per_s:,.0f} tokens/s\n")
        return
    if not args.no_tests:
        translate_tests(args.out, args.corpora, beam=args.beam)


def prepare(args: argparse.Namespace, settings: Sequence[str] = ()) -> PreparedRun:
    """Prepare the text of a run, or find it in the cache."""
    data = DATA[args.data]
    request = make_request(
        args.recipe,
        data.training_texts(args.corpora),
        [*data.settings, *settings],
        out=args.out,
        preset=None,
        init=None,
        cache=args.cache,
        fresh=False,
    )
    return prepare_run(request, RunFolder(args.out), None, ProcessRank(), lambda _name: _Quiet())


def _record(args: argparse.Namespace, cost: Cost) -> Record:
    """Return what a run did, by its journal."""
    [run] = read_runs([args.out], lambda line: print(line))
    config = load_config(args.out)
    steps = [event for event in run.events if isinstance(event, Stepped)]
    return Record(
        system=args.recipe.stem,
        data=args.data,
        summary=config.model.summary(),
        parameters=cost.parameters,
        training_operations_per_token=cost.training_operations_per_token,
        tokens=steps[-1].tokens,
        seconds=steps[-1].seconds,
        tokens_per_s=_speed(args) or statistics.median(step.tokens_per_s for step in steps),
        curve=_curve(run.events),
        settings=config.model_dump(mode="json", exclude={"data"}),
    )


class _Quiet:
    """A phase of the preparation that reports to nobody."""

    def __enter__(self) -> Any:
        return lambda _done, _total: None

    def __exit__(self, *_fault: object) -> None:
        pass


def _speed(args: argparse.Namespace) -> float | None:
    """Return the speed of the system alone, if it is known."""
    return read(args.speed_of).tokens_per_s if args.speed_of else args.speed


def _budget(args: argparse.Namespace, epoch_tokens: int, per_token: float) -> list[str]:
    """Return the settings that end a run."""
    limits = ["training.steps=1000000000"]
    if args.most_minutes:
        limits.append(f"training.minutes={args.most_minutes}")
    if args.epochs:
        return [*limits, f"training.epochs={args.epochs}"]
    speed, operations = _speed(args), args.operations
    if args.operations_of:
        operations = min(read(run).operations for run in args.operations_of)
    minutes = args.minutes
    if args.minutes_of:
        minutes = min(read(run).minutes for run in args.minutes_of)
    if minutes and not speed:
        return [*limits, f"training.minutes={minutes}"]
    tokens = minutes * 60 * speed if minutes else operations / (per_token / 2)
    return [*limits, f"training.epochs={tokens / epoch_tokens:.4f}"]


def _printing(name: str) -> Any:
    def progress(event: Any) -> None:
        if isinstance(event, Scored):
            score = "" if event.score is None else f", BLEU {event.score:.2f}"
            sys.stdout.write(f"{name}: step {event.step}, dev loss {event.loss:.3f}{score}\n")
            sys.stdout.flush()

    return progress


def _curve(events: Sequence[Any]) -> list[Point]:
    points, tokens = [], 0
    for event in events:
        if isinstance(event, Stepped):
            tokens = event.tokens
        elif isinstance(event, Scored) and event.score is not None:
            points.append(Point(event.step, tokens, event.score))
    return points


def translate_tests(folder: Path, corpora: Path, *, beam: int) -> None:
    """Translate the test sets of the corpus, write their references beside them, and score them."""
    record = read(folder)
    data = DATA[record.data]
    translator = transduce.load(folder)
    for test in data.tests:
        src, tgt = (list(read_lines(file)) for file in data.test(corpora, test))
        found = translator.translate(src, transduce.Options(beam=beam))
        references = [line.replace("@@ ", "") for line in tgt]
        for kind, lines in (("hyp", [on_one_line(one.text) for one in found]), ("ref", references)):
            text = "".join(f"{line}\n" for line in lines)
            _test_file(folder, test, kind).write_text(text, encoding="utf-8")
        sys.stdout.write(_line(record.system, folder, test) + "\n")


def _test_file(folder: Path, test: str, kind: str) -> Path:
    return folder / f"{Path(test).name}.{kind}"


def read(folder: Path) -> Record:
    """Read what `train` wrote down."""
    record = json.loads((folder / RECORD).read_text())
    return Record(**(record | {"curve": [Point(**point) for point in record["curve"]]}))


@dataclass(frozen=True)
class Row:
    """One system in the table."""

    record: Record
    bleu: IntervalScore
    against: Comparison | None  # the first system; None: it is the first


def rows_of(folders: Sequence[Path], test: str | None = None) -> list[Row]:
    """Score all systems on a test set of their corpus, and compare each with the first."""
    records = [read(folder) for folder in folders]
    if len({record.data for record in records}) > 1:
        raise SystemExit("these runs are of different corpora: compare those of one")
    data = DATA[records[0].data]
    test = test or data.tests[0]
    texts = [list(read_lines(_test_file(folder, test, "hyp"))) for folder in folders]
    references = list(read_lines(_test_file(folders[0], test, "ref")))
    tokenization = choose_tokenization(references, tokenizer=data.tokenizer)
    reports = report(texts, [references], tokenization=tokenization)
    return [
        Row(record, one.scores[0], one.comparisons[0] if one.comparisons else None)
        for record, one in zip(records, reports, strict=True)
    ]


def _line(name: str, folder: Path, test: str) -> str:
    [row] = rows_of([folder], test)
    return (
        f"{name}: {Path(test).name} BLEU {row.bleu.score:.2f} ± {row.bleu.margin or 0:.2f}, "
        f"best dev {row.record.best:.2f}, {row.record.tokens_per_s:,.0f} tokens/s, "
        f"{row.record.operations:.2e} operations, {row.record.minutes:.2f} minutes at that speed, "
        f"in {row.record.seconds:.0f} s"
    )


def table(rows: Sequence[Row]) -> str:
    """Write the rows as Markdown; the highest BLEU is bold."""
    lines = [
        "| system | parameters | BLEU | against the first | tokens/s | operations | minutes |",
        "|---|---|---|---|---|---|---|",
    ]
    highest = max(row.bleu.score for row in rows)
    for row in rows:
        record = row.record
        bleu = f"{row.bleu.score:.2f}"
        shown = f"**{bleu}**" if row.bleu.score == highest else bleu
        lines.append(
            f"| {record.system} | {record.parameters / 1e6:.1f}M | {shown} "
            f"± {row.bleu.margin or 0:.2f} | {_against(row.against)} | "
            f"{record.tokens_per_s:,.0f} | {record.operations:.2e} | {record.minutes:.1f} |"
        )
    lines += ["", f"Signature: `{rows[0].bleu.signature}`", "", *_races(rows)]
    return "\n".join(lines)


def _against(comparison: Comparison | None) -> str:
    if comparison is None:
        return "–"
    chance = "" if comparison.p_value is None else f", p = {comparison.p_value:.3f}"
    return f"{comparison.difference:+.2f}{chance}"


def _races(rows: Sequence[Row]) -> list[str]:
    """Write the minutes that each system needs for the best development BLEU of each other."""
    names = [row.record.system for row in rows]
    lines = [f"| minutes to the best of | {' | '.join(names)} |", "|---" * (len(rows) + 1) + "|"]
    for row in rows:
        times = [row.record.minutes_to(other.record.best) for other in rows]
        cells = ["never" if time is None else f"{time:.1f}" for time in times]
        lines.append(f"| {row.record.system} | {' | '.join(cells)} |")
    return lines


def draw(records: Sequence[Record], path: Path) -> None:
    """Draw the development BLEU of all systems over their training operations."""
    from matplotlib.figure import Figure

    from transduce.analysis.curves import style_panel
    from transduce.analysis.overlaid_curves import _COLOURS
    from transduce.analysis.pictures import save_picture

    figure = Figure(figsize=(8, 4.6), dpi=150, layout="constrained")
    panel = figure.subplots()
    for record, colour in zip(records, _COLOURS, strict=False):
        points = [(record.operations_at(point.tokens), point.bleu) for point in record.curve]
        panel.plot(*zip(*points, strict=True), color=colour, label=record.system, marker=".")
    panel.set_xscale("log")
    panel.set_xlabel("operations of training")
    panel.set_ylabel("BLEU on the development set")
    style_panel(panel)
    panel.legend(frameon=False)
    save_picture(figure, path)


def command_line() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("prepare", "train"):
        train = commands.add_parser(name)
        train.add_argument("recipe", type=Path)
        train.add_argument("--data", choices=DATA, required=True)
        train.add_argument("--corpora", type=Path, default=Path("data"))
        train.add_argument("--cache", type=Path, required=name == "prepare")
    train.add_argument("--out", type=Path, required=True)
    train.add_argument("--set", action="append", default=[])
    train.add_argument("--only-speed", action="store_true", help="no scores and translations")
    train.add_argument("--no-tests", action="store_true", help="no translations")
    known_speed = train.add_mutually_exclusive_group()
    known_speed.add_argument("--speed", type=float)
    known_speed.add_argument("--speed-of", type=Path, metavar="RUN")
    budget = train.add_mutually_exclusive_group(required=True)
    for name in ("minutes", "operations", "epochs"):
        budget.add_argument(f"--{name}", type=float)
    for name in ("minutes", "operations"):
        budget.add_argument(f"--{name}-of", type=Path, nargs="+", metavar="RUN")
    train.add_argument("--most-minutes", type=float)
    translate = commands.add_parser("translate")
    translate.add_argument("runs", type=Path, nargs="+")
    translate.add_argument("--corpora", type=Path, default=Path("data"))
    for command in (train, translate):
        command.add_argument("--beam", type=int, default=5)
    for name in ("table", "draw"):
        shown = commands.add_parser(name)
        shown.add_argument("runs", type=Path, nargs="+")
        shown.add_argument("--test", help="a test set of the corpus; if not given, the first")
    shown.add_argument("--out", type=Path, default=Path("comparison.png"))
    return parser


def main() -> None:
    """Train one system, or show what several reached."""
    args = command_line().parse_args()
    if args.command == "train":
        train_one(args)
    elif args.command == "translate":
        for folder in args.runs:
            translate_tests(folder, args.corpora, beam=args.beam)
    elif args.command == "prepare":
        args.out = args.cache.with_name("none")  # nothing is written there
        sys.stdout.write(f"{len(prepare(args).prepared.train):,} pairs\n")
    elif args.command == "table":
        sys.stdout.write(table(rows_of(args.runs, args.test)) + "\n")
    else:
        draw([read(folder) for folder in args.runs], args.out)


if __name__ == "__main__":
    main()
