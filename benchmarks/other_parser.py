"""Give another parser exactly the trees that ours is trained on, and read its output for scoring.

    python benchmarks/other_parser.py prepare data/trees/gum data/trees/craft --out runs/other
    … train the other parser on runs/other/train.mrg, let it parse runs/other/gum.words …
    python benchmarks/other_parser.py collect gum.parsed --test gum.mrg --out gum.hyp.mrg
    transduce evaluate --hyp gum.hyp.mrg --ref gum.mrg

`prepare` reads train.mrg, dev.mrg and test.mrg of each folder and writes

- train.mrg: the trees of all folders, cleaned as in training (no traces, no functional labels),
  without those whose words are in a development or test set;
- NAME.mrg and NAME.words of each folder: its cleaned test trees, and their words alone, with
  brackets for -LRB- and -RRB-, as OpenNLP reads both;
- head_rules: the heads of Collins' thesis, in the form that OpenNLP reads, and params: what it
  does without settings, 100 iterations of each model and features that occur 5 times.

`collect` writes one tree over exactly the words of the test tree for each of the parser's lines.
What is no tree over as many words becomes one without brackets, and is counted. The forest that
OpenNLP gives up with, under INC, keeps its brackets.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from transduce.data.cleaning import PairFilter
from transduce.data.corpus import Pair, Trees, read_pairs
from transduce.trees.brackets import TreeError, parse_brackets, to_brackets
from transduce.trees.cleaning import cleaned
from transduce.trees.tree import TOP, Tree

PARTS = ("build", "tagger", "chunker", "check")
"""The models of OpenNLP's parser."""

BRACKETS = {"-LRB-": "(", "-RRB-": ")"}
UNFINISHED = "INC"
"""The label under which OpenNLP puts the parts of a tree that it could not complete."""

HEADS = """
ADJP > NNS QP NN $ ADVP JJ VBN VBG ADJP JJR NP JJS DT FW RBR RBS SBAR RB
ADVP < RB RBR RBS FW ADVP TO CD JJR JJ IN NP JJS NN
CONJP < CC RB IN
FRAG <
INTJ >
LST < LS :
NAC > NN NNS NNP NNPS NP NAC EX $ CD QP PRP VBG JJ JJS JJR ADJP FW
PP < IN TO VBG VBN RP FW
PRN >
PRT < RP
QP > $ IN NNS NN JJ RB DT CD NCD QP JJR JJS
RRC < VP NP ADVP ADJP PP
S > TO IN VP S SBAR ADJP UCP NP
SBAR > WHNP WHPP WHADVP WHADJP IN DT S SQ SINV SBAR FRAG
SBARQ > SQ S SINV SBARQ FRAG
SINV > VBZ VBD VBP VB MD VP S SINV ADJP NP
SQ > VBZ VBD VBP VB MD VP SQ
UCP <
VP > TO VBD VBN MD VBZ VB VBG VBP VP ADJP NN NNS NP
WHADJP > CC WRB JJ ADJP
WHADVP < CC WRB
WHNP > WDT WP WP$ WHADJP WHPP WHNP
WHPP < IN TO FW
"""
"""Collins (1999), appendix A: search from the left (>) or right for the first label; NP is built
in. In the file, 1 is from the left, and the number of fields comes first."""


def main() -> None:
    """Prepare the other parser's input, or collect its output."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    modes = parser.add_subparsers(dest="mode", required=True)
    before = modes.add_parser("prepare")
    before.add_argument("folders", type=Path, nargs="+")
    before.add_argument("--out", type=Path, required=True)
    after = modes.add_parser("collect")
    after.add_argument("parsed", type=Path)
    after.add_argument("--test", type=Path, required=True, help="NAME.mrg, for its words")
    after.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    if arguments.mode == "prepare":
        prepare(arguments.folders, arguments.out)
    else:
        collect(arguments.parsed, arguments.test, arguments.out)


def prepare(folders: Sequence[Path], out: Path) -> None:
    """Write the training trees, the test sets, and what OpenNLP needs besides."""
    out.mkdir(parents=True, exist_ok=True)
    tests = {folder.name: _trees(folder / "test.mrg") for folder in folders}
    for name, pairs in tests.items():
        _write(out / f"{name}.mrg", (pair.tgt for pair in pairs))
        _write(out / f"{name}.words", (_with_brackets(pair.src) for pair in pairs))
    hidden = [*tests.values(), *(_trees(folder / "dev.mrg") for folder in folders)]
    kept = list(training_trees((pair for part in hidden for pair in part), folders))
    _write(out / "train.mrg", kept)
    _write(out / "head_rules", head_rules())
    _write(out / "params", params())
    print(f"{len(kept):,} training trees; tests: {[(n, len(t)) for n, t in tests.items()]}")


def training_trees(hidden: Iterable[Pair], folders: Sequence[Path]) -> Iterator[str]:
    """Stream the trees that our parser is trained on, as `data.held_out_by=source` keeps them."""
    pairs = [pair for folder in folders for pair in _trees(folder / "train.mrg")]
    sources = [pair.src for pair in hidden]
    judge = PairFilter.fit(pairs, rules=None, held_out=sources, by_source=True)
    for pair, fault in zip(pairs, judge.faults(pairs), strict=True):
        if fault is None:
            yield pair.tgt


def head_rules() -> Iterator[str]:
    """Stream the lines of OpenNLP's file of head rules."""
    for line in HEADS.strip().splitlines():
        label, direction, *labels = line.split()
        yield " ".join([str(len(labels) + 2), label, "01"[direction == ">"], *labels])


def params() -> Iterator[str]:
    """Stream the lines of OpenNLP's training parameters."""
    yield "dict.Cutoff=5"
    for part in PARTS:
        yield from (f"{part}.Algorithm=MAXENT", f"{part}.Iterations=100", f"{part}.Cutoff=5")


def collect(parsed: Path, test: Path, out: Path) -> None:
    """Write one tree for each sentence, and say how many the parser did not give."""
    outputs = parsed.read_text("utf-8").splitlines()
    sentences = [pair.src.split() for pair in _trees(test)]
    found = [tree_over(*both) for both in zip(sentences, outputs, strict=True)]
    unfinished = sum(output.startswith(f"({UNFINISHED} ") for output in outputs)
    both = zip(found, sentences, strict=True)
    trees = [tree or _without_brackets(sentence) for tree, sentence in both]
    _write(out, map(to_brackets, trees))
    print(f"{len(trees):,} sentences; {found.count(None)} no tree, {unfinished} unfinished")


def tree_over(words: Sequence[str], output: str) -> Tree | None:
    """Read a parser's tree with these words in place of its own, or None if it is not over them."""
    try:
        tree = parse_brackets(output)
        if tree.label == UNFINISHED:
            tree = Tree(TOP, tree.children)
        tree = cleaned(tree)
    except TreeError:
        return None
    leaves = tree.leaves()
    if len(leaves) != len(words):
        return None
    for leaf, word in zip(leaves, words, strict=True):
        leaf.word = word
    return tree


def _with_brackets(sentence: str) -> str:
    return " ".join(BRACKETS.get(word, word) for word in sentence.split())


def _without_brackets(words: Sequence[str]) -> Tree:
    return Tree(TOP, tuple(Tree("XX", word=word) for word in words))


def _trees(path: Path) -> list[Pair]:
    return list(read_pairs(Trees(path)))


def _write(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


if __name__ == "__main__":
    main()
