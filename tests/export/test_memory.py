"""The peak memory of a conversion is at most three times that of the weights."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.translation.likely import learnt_tokenizer
from transduce.config.schema import Config
from transduce.models.build import build_model
from transduce.models.folder import LoadedModel, save_model

pytest.importorskip("ctranslate2", reason="one of the conversions needs it")

MEASURED = """
import resource, sys
from pathlib import Path
import torch, ctranslate2
from transduce.export.ctranslate2 import export_ctranslate2
from transduce.export.huggingface import export_huggingface
from transduce.export.marian_import import import_marian

model, out, how = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
torch.ones(8, 8) @ torch.ones(8, 8)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
match how:
    case "ctranslate2":
        export_ctranslate2(model, out)
    case "huggingface":
        export_huggingface(model, out)
    case "import":
        import_marian(model, out)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def peak_bytes(model: Path, out: Path, how: str) -> int:
    arguments = [sys.executable, "-c", MEASURED, str(model), str(out), how]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    return 1024 * int(done.stdout)


@pytest.mark.exhaustive
def test_a_conversion_needs_at_most_three_times_the_weights(tmp_path: Path) -> None:
    shape = {"n_layers": 3, "d_model": 512, "d_ff": 2048, "vocab_size": 500}
    config = Config.from_tree({"model": shape})
    model = build_model(config.model)
    save_model(tmp_path / "model", LoadedModel(model, config, learnt_tokenizer()))
    weights = (tmp_path / "model" / "model.safetensors").stat().st_size
    assert weights > 80_000_000
    for how in ("ctranslate2", "huggingface", "import"):
        source = "huggingface" if how == "import" else "model"
        peak = peak_bytes(tmp_path / source, tmp_path / how, how)
        assert peak <= 3 * weights, f"{how} took {peak / weights:.2f} times the weights"
