"""supar's CRF parser (Zhang et al., 2020) beside ours: the same trees in, our score out.

    python benchmarks/supar_parser.py train --train gum/train.mrg --train craft/train.mrg
        --dev gum/dev.mrg --dev craft/dev.mrg --held-out gum/test.mrg --held-out craft/test.mrg
        --out runs/supar [--minutes 15]
    python benchmarks/supar_parser.py parse runs/supar gum/test.mrg --to gum.supar.mrg

supar need not be installed, but must be on PYTHONPATH, for instance after
`pip install --no-deps --target DIR supar==1.1.4 nltk==3.9.1 dill==0.3.8`; it also imports regex and
tqdm. Its BiLSTM reads words and characters, no tags and no pretrained vectors; sizes and optimiser
are those of its published configuration.

`train` cleans the trees as ours are, drops those whose words are in the other sets, and trains
until the time is over, as near as whole epochs allow, or `--patience` epochs bring nothing. The
weights of the epoch that is best by supar's own metric count. The rate falls by a quarter every
`--decay-steps`: 5,000 in its configuration, for hours of training.

`parse` reads only words. supar predicts no tags: all are XX, and scores take the reference's, which
leaves no sentence out. `transduce evaluate --hyp gum.supar.mrg --ref gum/test.mrg` scores that.
"""

import argparse
import functools
import itertools
import json
import math
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from transduce.data.corpus import read_pairs, source_of
from transduce.files.atomic import atomic_file
from transduce.tasks.parsing.metric import BracketF1
from transduce.trees.brackets import parse_brackets, to_brackets
from transduce.trees.cleaning import cleaned
from transduce.trees.tree import Tree

NETWORK = {
    "encoder": "lstm",
    "feat": ["char"],
    "embed": None,
    "n_embed": 100,
    "n_char_embed": 50,
    "n_char_hidden": 100,
    "embed_dropout": 0.33,
    "n_lstm_hidden": 400,
    "n_lstm_layers": 3,
    "encoder_dropout": 0.33,
    "n_span_mlp": 500,
    "n_label_mlp": 100,
    "mlp_dropout": 0.33,
}
OPTIMISER = {
    "lr": 2e-3, "mu": 0.9, "nu": 0.9, "eps": 1e-12, "weight_decay": 1e-5, "clip": 5.0,
    "decay": 0.75, "batch_size": 5000, "min_freq": 2, "fix_len": 20,
}  # fmt: skip
NO_TAG = "XX"


class TimeIsUpError(Exception):
    """Another epoch would take too long."""


def main() -> None:
    """Train, or parse."""
    given = parsed()
    suit_supar_to_torch()
    torch.manual_seed(1)
    torch.set_num_threads(given.threads)
    if given.what == "train":
        train(given)
    else:
        parse(given.model, given.trees, given.to)


def suit_supar_to_torch() -> None:
    """Let what was written for torch 1.7 run with torch 2.9 and later."""
    from supar.structs import fn as structs
    from supar.utils import field
    from supar.utils import fn as utils

    # its files have classes of its own, and torch by now loads nothing but tensors
    torch.load = functools.partial(torch.load, weights_only=False)
    for module in (field, structs, utils):
        module.pad = pad


def pad(
    tensors: Sequence[torch.Tensor],
    padding_value: float = 0,
    total_length: int | None = None,
    padding_side: str = "right",
) -> torch.Tensor:
    """Return tensors as one, padded: supar's own indexes with a list, which torch gives up."""
    sizes = [max(sizes) for sizes in zip(*(tensor.shape for tensor in tensors), strict=True)]
    if total_length is not None:
        sizes[0] = total_length
    padded = tensors[0].new_full((len(tensors), *sizes), padding_value)
    for row, tensor in zip(padded, tensors, strict=True):
        is_left = padding_side == "left"
        row[tuple(slice(-n, None) if is_left else slice(n) for n in tensor.shape)] = tensor
    return padded


def train(given: argparse.Namespace) -> None:
    """Write cleaned trees, train on them, and print how it went."""
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "model").unlink(missing_ok=True)
    dev = trees_of(given.dev)
    hidden = {words for words, _ in [*dev, *trees_of(given.held_out)]}
    trees = [one for one in trees_of(given.train) if one[0] not in hidden]
    chosen = dev[:: max(1, len(dev) // given.dev_trees)]
    for name, some in (("train", trees), ("dev", chosen), ("first", chosen[:2])):
        lines = "".join(f"{brackets}\n" for _, brackets in some)
        (given.out / f"{name}.mrg").write_text(lines, encoding="utf-8")
    files = {name: str(given.out / f"{name}.mrg") for name in ("train", "dev")}
    files["test"] = str(given.out / "first.mrg")  # supar scores a test set after every epoch
    print(f"{len(trees):,} trees, {len(chosen):,} for development", flush=True)
    settings = {**NETWORK, **OPTIMISER, "decay_steps": given.decay_steps, "build": True}
    settings |= {"path": str(given.out / "model"), "checkpoint": False, "mbr": True}
    parser = timed_parser(60 * given.minutes).build(**settings, **files)
    began = time.monotonic()
    try:
        parser.train(**settings, **files, patience=given.patience, epochs=10_000, update_steps=1)
        ended = f"no epoch of the last {given.patience} was better"
    except TimeIsUpError:
        ended = f"the {given.minutes:g} minutes were over"
    if not Path(settings["path"]).exists():  # no epoch had a single bracket right
        parser.save(settings["path"])
    report = {
        "trees": len(trees),
        "epochs": parser.epoch - 1,
        "best epoch": parser.best_e,
        "minutes": round((time.monotonic() - began) / 60, 2),
        "ended": ended,
        "its own metric on the development trees": str(parser.best_metric),
    }
    (given.out / "training.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(report, indent=1))


def trees_of(paths: Sequence[Path]) -> list[tuple[str, str]]:
    """Return the words and the cleaned trees of files."""
    pairs = itertools.chain.from_iterable(read_pairs(source_of(path)) for path in paths)
    return [(pair.src, pair.tgt) for pair in pairs]


def timed_parser(seconds: float) -> Any:
    """Return supar's class of parsers, with an end to their time."""
    from supar import CRFConstituencyParser

    class TimedParser(CRFConstituencyParser):  # type: ignore[misc]
        """Stops before an epoch that would end too late."""

        began = math.inf  # of the first epoch

        def _train(self, loader: Iterable[Any]) -> None:
            now = time.monotonic()
            self.began = min(self.began, now)
            spent = now - self.began
            if spent + spent / max(1, self.epoch - 1) > seconds and self.epoch > 1:
                raise TimeIsUpError
            super()._train(loader)

    return TimedParser


def parse(model: Path, trees: Path, to: Path) -> None:
    """Parse the words of a treebank, and print the score."""
    from supar import CRFConstituencyParser

    pairs = trees_of([trees])
    parser = CRFConstituencyParser.load(str(model / "model"))
    began = time.monotonic()
    found = parser.predict([words.split() for words, _ in pairs], verbose=False).trees
    seconds = time.monotonic() - began
    texts = [to_brackets(untagged(parse_brackets(tree.pformat(margin=10**9)))) for tree in found]
    with atomic_file(to) as part:
        part.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    metric = BracketF1()
    each = [
        metric.counts(text, reference) for text, (_, reference) in zip(texts, pairs, strict=True)
    ]
    scores = metric.scores([sum(column) for column in zip(*each, strict=True)])
    speed = {"sentences a second": round(len(texts) / seconds, 1)}
    print(json.dumps({"trees": str(trees)} | speed | scores, indent=1))


def untagged(tree: Tree) -> Tree:
    """Return a tree as ours are, with no tag for any word: supar predicts none."""

    def without(node: Tree) -> Tree:
        if node.word is not None:
            return Tree(NO_TAG, word=node.word)
        return Tree(node.label, tuple(map(without, node.children)))

    return without(cleaned(tree))


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    actions = parser.add_subparsers(dest="what", required=True)
    training = actions.add_parser("train")
    training.add_argument("--train", type=Path, action="append", required=True)
    training.add_argument("--dev", type=Path, action="append", required=True)
    training.add_argument("--held-out", type=Path, action="append", default=[])
    training.add_argument("--out", type=Path, required=True)
    training.add_argument("--minutes", type=float, default=math.inf)
    training.add_argument("--patience", type=int, default=15)
    training.add_argument("--decay-steps", type=int, default=5000)
    training.add_argument("--dev-trees", type=int, default=1500, help="about as many are used")
    parsing = actions.add_parser("parse")
    parsing.add_argument("model", type=Path)
    parsing.add_argument("trees", type=Path)
    parsing.add_argument("--to", type=Path, required=True)
    for one in (training, parsing):
        one.add_argument("--threads", type=int, default=4)
    return parser.parse_args()


if __name__ == "__main__":
    main()
