import subprocess
import sys

import pytest

import transduce


def test_the_public_names() -> None:
    assert transduce.__all__ == [
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
    assert all(hasattr(transduce, name) for name in transduce.__all__)
    assert set(transduce.__all__) <= set(dir(transduce))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'translate_everything'"):
        getattr(transduce, "translate_" + "everything")


@pytest.mark.parametrize(
    "use",
    [
        "import transduce",
        "import transduce; transduce.load_config('big', ['model.h=8'])",
        "import transduce.cli.app",
        "import transduce.config.load, transduce.config.presets",
    ],
)
def test_torch_is_not_loaded_until_something_computes(use: str) -> None:
    check = f"{use}\nimport sys\nassert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
