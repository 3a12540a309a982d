"""What benchmarks work out from what they measured, where no CPU would show a mistake."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.project.documents import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
try:
    from compare_directions import main as compare_directions
    from profile_search import busy_us, by_name
    from text_to_text import percents
finally:
    sys.path.pop(0)


def kernel(start: float, end: float) -> SimpleNamespace:
    return SimpleNamespace(time_range=SimpleNamespace(start=start, end=end))


def test_time_in_which_kernels_overlap_counts_once() -> None:
    assert busy_us([kernel(10, 14), kernel(0, 3), kernel(1, 2), kernel(12, 20)]) == 13
    assert busy_us([]) == 0


def test_kernels_are_listed_by_their_time() -> None:
    found = by_name([("a", 1000.0), ("b", 5000.0), ("a", 2000.0)])
    assert [(one["name"], one["calls"], one["ms"]) for one in found] == [("b", 1, 5), ("a", 2, 3)]
    assert sum(one["share"] for one in found) == pytest.approx(1)


def test_looks_without_a_figure_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "gpu.txt").write_text("100\n[N/A]\n 50\n\nan error\n0\n")
    assert [*percents(tmp_path / "gpu.txt")] == [1, 0.5, 0]


@pytest.mark.parametrize(
    ("single", "share", "code"), [(30.0, 0.95, 0), (31.5, 0.99, 1), (30.0, 0.94, 1)]
)
def test_claims_about_languages(
    single: float, share: float, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    score = {"BLEU": 30.0, "chrF": 50.0}
    means = {"trained": {"directions": 1} | score, "zero-shot": {"in_target_language": share}}
    many = {"directions": {"de-en": score, "en-fr": score}, "means": means}
    one = {"directions": {"de-en": score | {"BLEU": single}}}
    paths = [tmp_path / "many.json", tmp_path / "one.json"]
    for path, content in zip(paths, (many, one), strict=True):
        path.write_text(json.dumps(content))
    monkeypatch.setattr(sys, "argv", ["compare_directions.py", *map(str, paths)])
    with pytest.raises(SystemExit) as ended:
        compare_directions()
    assert ended.value.code == code
