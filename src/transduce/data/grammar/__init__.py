"""The demo corpus: English and German sentence pairs from a grammar of our own.

A sentence is drawn once, as a clause of nominals and a verb, and then said in both languages, so a
pair always means the same. The rules and decisions are in docs/DEMO_CORPUS.md.
"""

from transduce.data.grammar.splits import DemoCorpus, generate, split

__all__ = ["DemoCorpus", "generate", "split"]
