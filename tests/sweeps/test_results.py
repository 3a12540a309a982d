"""What is read from the run folders of a sweep, and how rows are compared."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from sacrebleu.metrics.bleu import BLEU

from tests.sweeps.made_up import REFERENCES, make_run, sweep, with_errors
from transduce.config.presets import preset_named
from transduce.evaluation.paired_bootstrap import (
    Resampled,
    paired_difference,
    resampled_scores,
)
from transduce.models.build import assemble
from transduce.models.transformer.settings import TransformerConfig
from transduce.sweeps.file import DEV
from transduce.sweeps.reporting.spread import (
    SeedNoise,
    mean_ranks,
    rank_correlation,
    seed_noise,
    spearman,
    spread,
)
from transduce.sweeps.reporting.table3 import TABLE_3
from transduce.sweeps.results import read_results
from transduce.tasks.error_rates import ExactMatch
from transduce.tasks.metrics import Bleu
from transduce.text.tokenizer import Tokenizer

WIDE = {"name": "wide", "set": {"model.d_ff": 1024}}


def test_every_state_of_a_run_is_told(tmp_path: Path) -> None:
    plan = sweep(tmp_path, variations=[WIDE], seeds=[1, 2, 3])
    make_run(plan.runs[0], hypotheses=REFERENCES)
    make_run(plan.runs[1], finished=False)
    make_run(plan.runs[3], finished=False)
    plan.runs[3].fault_file.write_text("the loss\nis not finite\n")
    plan.runs[4].fault_file.write_text("out of memory\n")
    make_run(plan.runs[5])
    (plan.runs[5].folder / "journal.jsonl").write_text("{}\n{\n{}\n")
    runs = read_results(plan).runs
    assert [run.state for run in runs[:5]] == [
        "finished",
        "step 50",
        "not begun",
        "failed: the loss is not finite",
        "failed: out of memory",
    ]
    assert runs[5].status == "failed"
    assert "journal.jsonl line 2 is damaged" in runs[5].fault


def test_what_a_run_reached_is_read_from_its_folder(tmp_path: Path) -> None:
    plan = sweep(tmp_path)
    make_run(plan.runs[0], loss=2.0, bleu=20.0, end_loss=1.5, hypotheses=with_errors(5))
    [run] = read_results(plan).runs
    assert (run.parameters, run.steps, run.tokens, run.minutes) == (1_000_000, 100, 10_000, 1.5)
    assert run.dev is not None
    assert run.dev.metric is not None
    assert run.dev.perplexity == math.exp(1.5), "of the weights that it ended with"
    assert run.dev.metric.score == 21.0
    metric = run.tests["seen"].metric
    expected = BLEU().corpus_score(with_errors(5), [REFERENCES])
    assert metric.score == pytest.approx(expected.score)
    assert metric.signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")


def test_the_best_score_stands_for_weights_whose_own_score_no_journal_has(tmp_path: Path) -> None:
    plan = sweep(tmp_path)
    make_run(plan.runs[0], loss=2.0, bleu=20.0)
    [run] = read_results(plan).runs
    assert run.dev is not None
    assert run.dev.loss == 2.0


def test_scores_of_a_row_are_those_of_its_finished_seeds(tmp_path: Path) -> None:
    plan = sweep(tmp_path, seeds=[1, 2, 3])
    make_run(plan.runs[0], loss=math.log(4), bleu=10.0)
    make_run(plan.runs[1], loss=math.log(6), bleu=12.0)
    make_run(plan.runs[2], loss=math.log(100), bleu=1.0, finished=False)
    [row] = read_results(plan).rows
    assert row.perplexity is not None
    assert row.perplexity.mean == pytest.approx(5.0)
    assert row.perplexity.deviation == pytest.approx(math.sqrt(2))
    found = row.score(DEV)
    assert found is not None
    assert (found.n, found.mean, found.lowest, found.highest) == (2, 11.0, 10.0, 12.0)


def test_a_row_is_tested_against_the_base_with_all_seeds_of_both(tmp_path: Path) -> None:
    same = {"name": "same", "set": {"training.eps_ls": 0.2}}
    rows = [{"name": "base", "seeds": [1, 2]}, WIDE, same]
    plan = sweep(tmp_path, variations=rows, seeds=[1])
    for run, errors in zip(plan.runs, (9, 7, 0, 8), strict=True):
        make_run(run, hypotheses=with_errors(errors))
    base, wide, same_again = read_results(plan).rows
    assert base.differences == {}
    found = wide.differences["seen"]
    scores = [BLEU().corpus_score(with_errors(n), [REFERENCES]).score for n in (9, 7)]
    assert found.difference == pytest.approx(100 - sum(scores) / 2)
    assert found.p_value == 1 / 1001
    doubtful = same_again.differences["seen"].p_value
    assert doubtful is not None
    assert doubtful > 0.3


def test_a_row_that_has_not_begun_shows_what_is_planned(tmp_path: Path) -> None:
    plan = sweep(tmp_path, variations=[WIDE, {"preset": "small"}])
    make_run(plan.runs[0])
    rows = read_results(plan).rows
    models = [row.config.model for row in rows]
    assert all(isinstance(model, TransformerConfig) for model in models)
    assert [model.columns()["d_ff"] for model in models] == ["512", "1,024", "1,024"]
    assert models[2].d_model == 256


def test_text_of_another_length_is_left_out_with_a_note(tmp_path: Path) -> None:
    plan = sweep(tmp_path)
    make_run(plan.runs[0], hypotheses=REFERENCES[:3])
    results = read_results(plan)
    assert results.runs[0].tests == {}
    assert "base, seed 1: seen is left out:" in results.notes[-1]
    (tmp_path / "seen.tgt").unlink()
    assert read_results(plan).notes[0].startswith("seen is left out: ")


def test_words_that_were_cut_are_joined_in_the_references(tmp_path: Path) -> None:
    settings = {"data.src": "a.en", "data.tgt": "a.de", "data.subwords": "whitespace"}
    plan = sweep(tmp_path, settings=settings | {"model.vocab_size": 400})
    (tmp_path / "seen.tgt").write_text("".join(f"{line} Fl@@ uss\n" for line in REFERENCES))
    make_run(plan.runs[0], hypotheses=[f"{line} Fluss" for line in REFERENCES])
    tokenizer = Tokenizer.learn(REFERENCES, kind="whitespace", vocab_size=100)
    tokenizer.save(plan.runs[0].folder / "tokenizer.json")
    assert read_results(plan).runs[0].tests["seen"].metric.score == pytest.approx(100.0)


def test_resampled_bleu_is_sacrebleus() -> None:
    hypotheses = with_errors(6)
    found = resampled_scores(Bleu(), hypotheses, REFERENCES)
    assert found is not None
    expected = BLEU().corpus_score(hypotheses, [REFERENCES], n_bootstrap=1000)
    assert found.mean() == pytest.approx(float(expected._mean), abs=0.5)
    drawn = np.random.default_rng(12345).choice(10, (1000, 10))[7]
    sample = [[texts[i] for i in drawn] for texts in (hypotheses, REFERENCES)]
    assert found[7] == pytest.approx(BLEU().corpus_score(sample[0], [sample[1]]).score)


def exact(right: range) -> Resampled:
    """Return the resampled scores of a system whose answers to these questions are right."""
    references = [str(n) for n in range(100)]
    answers = [text if int(text) in right else "?" for text in references]
    found = resampled_scores(ExactMatch(), answers, references)
    assert found is not None
    return found


def test_the_p_value_of_a_metric_without_counts() -> None:
    """A sentence's difference is 1, -1 or 0, with a variance of 0.49: of 100 the mean has 0.07."""
    found = paired_difference([exact(range(30))], [exact(range(30, 50))], 10.0)
    assert found.p_value == pytest.approx(math.erfc(0.1 / 0.07 / math.sqrt(2)), abs=0.03)
    assert paired_difference([exact(range(100))], [exact(range(50))], 50.0).p_value == 1 / 1001
    assert paired_difference([exact(range(50))], [exact(range(50))], 0.0).p_value is None


def test_seeds_are_averaged_before_a_difference_is_tested() -> None:
    """Two systems that are right about different sentences vary less together than alone."""
    alone = paired_difference([exact(range(50))], [exact(range(40))], 10.0).p_value
    both = [exact(range(50)), exact(range(50, 100))]
    together = paired_difference(both, [exact(range(40)), exact(range(60, 100))], 10.0).p_value
    assert alone is not None
    assert together is not None
    assert together < alone


def test_spearmans_correlation_of_an_example_by_hand() -> None:
    """Ranks 1, 2.5, 2.5, 4 and 1, 3, 2, 4: covariance 4.5, variances 4.5 and 5."""
    assert mean_ranks([10, 20, 20, 90]) == [1, 2.5, 2.5, 4]
    assert spearman([10, 20, 20, 90], [1, 3, 2, 7]) == pytest.approx(4.5 / math.sqrt(4.5 * 5))
    assert spearman([1, 2, 3], [9, 5, 1]) == pytest.approx(-1)
    assert spearman([1, 2, 3], [5, 5, 5]) is None


def test_the_noise_of_seeds_is_estimated_from_all_rows_with_several() -> None:
    noise = seed_noise([[1.0, 3.0], [5.0], [2.0, 2.0, 2.0]])
    assert noise is not None
    assert noise.deviation == pytest.approx(math.sqrt(2 / 3))
    assert noise.freedom == 3
    assert noise.chance_difference == pytest.approx(3.18 * math.sqrt(2) * noise.deviation)
    for freedom, quantile in ((13, 2.1604), (20, 2.0860), (100, 1.9840)):  # of printed tables
        found = SeedNoise(1.0, freedom).chance_difference
        assert found == pytest.approx(quantile * math.sqrt(2), abs=0.002)
    assert seed_noise([[1.0], [2.0]]) is None


def test_the_noise_of_a_rank_correlation_follows_from_seeds() -> None:
    known = [1.0, 2.0, 3.0, 4.0, 5.0]
    spreads = [found for value in known if (found := spread([value]))]
    unknown = rank_correlation(known, spreads, None)
    assert unknown is not None
    assert unknown.rho == pytest.approx(1)
    assert unknown.interval is None
    quiet = rank_correlation(known, spreads, SeedNoise(0.01, 20))
    loud = rank_correlation(known, spreads, SeedNoise(5.0, 20))
    assert quiet is not None
    assert quiet.interval is not None
    assert min(quiet.interval) == pytest.approx(1)
    assert loud is not None
    assert loud.interval is not None
    assert loud.interval[0] < 0
    assert loud.ceiling is not None
    assert loud.ceiling < 0.9
    assert rank_correlation(known[:2], spreads[:2], None) is None


def millions(preset: str) -> float:
    with torch.device("meta"):
        model = assemble(preset_named(preset).model)
    return sum(weights.numel() for weights in model.parameters()) / 1e6


def test_the_facts_of_table_3_are_of_its_presets() -> None:
    """Where the vocabulary does not matter, parameters differ from base as in the paper."""
    assert len(TABLE_3) == 20
    assert (TABLE_3["base_h1"].bleu, TABLE_3["base_dk16"].bleu) == (24.9, 25.1)
    base, printed = millions("base"), 65
    for name in ("base_dk16", "base_dk32", "base_n2", "base_n8", "base_ff1024", "base_ff4096"):
        expected = (TABLE_3[name].parameters or 0) - printed
        assert millions(name) - base == pytest.approx(expected, abs=1), name
