"""Sequence transduction with attention: "Attention Is All You Need" as software.

The public names are imported when they are first used, so that `import transduce` is quick: it
does not load torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

from transduce.errors import ConfigError, InputError, TransduceError

if TYPE_CHECKING:
    from transduce.bulk.ray_dataset import translate_dataset
    from transduce.bulk.translate import ShardedTranslation, translate_in_shards
    from transduce.config.load import load_config
    from transduce.config.schema import Config
    from transduce.evaluation.evaluate import Evaluation, evaluate
    from transduce.models.base import Seq2Seq
    from transduce.models.build import build_model
    from transduce.pipelines.back_translation import SyntheticPairs, back_translate
    from transduce.pipelines.distillation import Distillation, distill
    from transduce.pipelines.filtering.filter_corpus import FilteredCorpus, filter_corpus
    from transduce.pipelines.iteration import IteratedTraining, iterate_back_translation
    from transduce.training.loop import TrainingOutcome, train
    from transduce.translation.documents.translate import TranslatedFile, translate_file
    from transduce.translation.load import load
    from transduce.translation.memory.read import translation_memory
    from transduce.translation.options import Options, Translation
    from transduce.translation.scorer import PairScore, score
    from transduce.translation.shortlist.make import MadeShortlist, make_shortlist
    from transduce.translation.translator import Translator
    from transduce.translation.wording.read import wording

__version__ = "0.1.0"
__all__ = [
    "Config",
    "ConfigError",
    "Distillation",
    "Evaluation",
    "FilteredCorpus",
    "InputError",
    "IteratedTraining",
    "MadeShortlist",
    "Options",
    "PairScore",
    "Seq2Seq",
    "ShardedTranslation",
    "SyntheticPairs",
    "TrainingOutcome",
    "TransduceError",
    "TranslatedFile",
    "Translation",
    "Translator",
    "__version__",
    "back_translate",
    "build_model",
    "distill",
    "evaluate",
    "filter_corpus",
    "iterate_back_translation",
    "load",
    "load_config",
    "make_shortlist",
    "score",
    "train",
    "translate_dataset",
    "translate_file",
    "translate_in_shards",
    "translation_memory",
    "wording",
]

_MODULES = {
    "Config": "transduce.config.schema",
    "Distillation": "transduce.pipelines.distillation",
    "Evaluation": "transduce.evaluation.evaluate",
    "FilteredCorpus": "transduce.pipelines.filtering.filter_corpus",
    "IteratedTraining": "transduce.pipelines.iteration",
    "MadeShortlist": "transduce.translation.shortlist.make",
    "Options": "transduce.translation.options",
    "PairScore": "transduce.translation.scorer",
    "Seq2Seq": "transduce.models.base",
    "ShardedTranslation": "transduce.bulk.translate",
    "SyntheticPairs": "transduce.pipelines.back_translation",
    "TrainingOutcome": "transduce.training.loop",
    "TranslatedFile": "transduce.translation.documents.translate",
    "Translation": "transduce.translation.options",
    "Translator": "transduce.translation.translator",
    "back_translate": "transduce.pipelines.back_translation",
    "build_model": "transduce.models.build",
    "distill": "transduce.pipelines.distillation",
    "evaluate": "transduce.evaluation.evaluate",
    "filter_corpus": "transduce.pipelines.filtering.filter_corpus",
    "iterate_back_translation": "transduce.pipelines.iteration",
    "load": "transduce.translation.load",
    "load_config": "transduce.config.load",
    "make_shortlist": "transduce.translation.shortlist.make",
    "score": "transduce.translation.scorer",
    "train": "transduce.training.loop",
    "translate_dataset": "transduce.bulk.ray_dataset",
    "translate_file": "transduce.translation.documents.translate",
    "translate_in_shards": "transduce.bulk.translate",
    "translation_memory": "transduce.translation.memory.read",
    "wording": "transduce.translation.wording.read",
}


if not TYPE_CHECKING:  # a type checker knows only the imports above

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module 'transduce' has no attribute {name!r}")
        return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
