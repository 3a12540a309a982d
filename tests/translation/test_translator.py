"""Text in, text out: the same in any batch, in order, in bounded memory, and guarded."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import active_count
from typing import Any, Self

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import transduce
from tests.search.constraints import only
from tests.translation.likely import (
    VOCAB_SIZE,
    LikelyModel,
    learnt_tokenizer,
    random_model,
    saved,
    sentences,
)
from transduce.errors import InputError
from transduce.files.read_ahead import ITEMS_AHEAD
from transduce.models.folder import LoadedModel
from transduce.models.transformer.model import Transformer
from transduce.search.constraint import Constraint
from transduce.search.ensemble import Ensemble
from transduce.search.sample import Sampling
from transduce.tasks.translation import TranslationTask
from transduce.text.special_ids import BOS_ID, EOS_ID
from transduce.text.tokenizer import Tokenizer
from transduce.translation.engine import EncodedSentence
from transduce.translation.options import Alternative, Options, Translation
from transduce.translation.torch_engine import TorchEngine
from transduce.translation.translator import Translator

TOKENIZER = learnt_tokenizer()
LONG = "She is dancing now. Please listen to my grandmother! Did the waiter see us, too?"


def ids_of(text: str) -> list[int]:
    return TOKENIZER.encode_batch([text])[0]


def likely(**answers: float) -> LikelyModel:
    """Answer everything with these, spaces for underscores."""
    known = [(ids_of(text.replace("_", " ")), chance) for text, chance in answers.items()]
    return LikelyModel(lambda _: known)


def translator(model: Any, *, max_positions: int = 1024, by_sentence: bool = False) -> Translator:
    return Translator(model, TOKENIZER, max_positions=max_positions, by_sentence=by_sentence)


def echo() -> LikelyModel:
    """Say what is there, or with a chance of one fifth something else."""
    return LikelyModel(lambda ids: [(ids, 0.8), (ids_of("Sie tanzt."), 0.2)])


@pytest.fixture(scope="module")
def nonsense() -> Translator:
    """A real model, in float64, so that only a real difference shows."""
    return translator(random_model(seed=3).model.double(), max_positions=24)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("models") / "one", random_model(seed=3))


def same(found: list[Translation], expected: list[Translation]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert (one.source, one.text, one.note) == (other.source, other.text, other.note)
        assert one.is_finished == other.is_finished
        assert [text for text, _ in one.alternatives] == [text for text, _ in other.alternatives]
        for (_, score), (_, expected_score) in zip(
            one.alternatives, other.alternatives, strict=True
        ):
            assert score == pytest.approx(expected_score, rel=1e-4)


texts = st.lists(
    st.one_of(st.sampled_from([*sentences(20), "", " ", LONG]), st.text(max_size=12)), max_size=8
).map(lambda drawn: [text.encode("utf-8", "ignore").decode() for text in drawn])


@given(
    texts=texts,
    beam=st.integers(1, 3),
    window=st.integers(1, 9),
    budget=st.sampled_from([1, 200, 1_000, 1_000_000]),
)
@settings(max_examples=10)
def test_in_any_window_and_batch_as_one_by_one(
    nonsense: Translator, texts: list[str], beam: int, window: int, budget: int
) -> None:
    options = Options(beam=beam, n_best=beam, max_batch_tokens=budget)
    alone = [nonsense.translate([text], options)[0] for text in texts]
    same(list(nonsense.stream(texts, options, window=window)), alone)
    same(nonsense.translate(texts, options), alone)


@given(texts=texts, window=st.integers(1, 9), budget=st.sampled_from([1, 200, 1_000_000]))
@settings(max_examples=10)
def test_samples_follow_from_the_seed_and_the_lines_number(
    nonsense: Translator, texts: list[str], window: int, budget: int
) -> None:
    options = Options(sampling=Sampling(seed=5, top_k=20), max_batch_tokens=budget)
    together = list(nonsense.stream(texts, options, window=window))
    for number, text in enumerate(texts):
        same(
            nonsense.translate([*[""] * number, text], options)[-1:], together[number : number + 1]
        )


def test_another_seed_or_line_gives_another_sample(nonsense: Translator) -> None:
    text = sentences(1)[0]
    drawn = [
        translation.text
        for seed in (1, 2)
        for translation in nonsense.translate([text, text], Options(sampling=Sampling(seed=seed)))
    ]
    assert len(set(drawn)) == 4


def test_blank_lines_stay_blank_without_the_model() -> None:
    model = echo()
    found = translator(model).translate(["", " \t", "\u3000", "\u2028"])
    assert [one.text for one in found] == [""] * 4
    assert [one.source for one in found] == ["", " \t", "\u3000", "\u2028"]
    assert all(one.is_finished and one.alternatives == (Alternative("", 0.0),) for one in found)
    assert model.batches == []


def test_nothing_to_translate() -> None:
    assert translator(echo()).translate([]) == []


@pytest.mark.parametrize("text", ["\x00\x01", "пример текста", "例文", "🙂" * 5, "e\u0301", "‮abc"])
def test_any_script_comes_through(text: str) -> None:
    [found] = translator(echo()).translate([text])
    assert found.text == TOKENIZER.decode_batch([ids_of(text)])[0]


def test_space_around_a_line_makes_no_difference() -> None:
    [found] = translator(echo()).translate(["  She is dancing now.\t"])
    assert (found.source, found.text) == ("  She is dancing now.\t", "She is dancing now.")


def test_the_score_is_the_log_probability_by_the_length_penalty() -> None:
    [found] = translator(likely(Ja=0.75, Nein=0.25)).translate(["Yes"], Options(n_best=2))
    penalties = [((5 + len(ids_of(text)) + 1) / 6) ** 0.6 for text in ("Ja", "Nein")]
    assert [text for text, _ in found.alternatives] == ["Ja", "Nein"]
    assert [score for _, score in found.alternatives] == pytest.approx(
        [math.log(0.75) / penalties[0], math.log(0.25) / penalties[1]], rel=1e-5
    )
    assert (found.text, found.score) == found.alternatives[0]
    assert (found.note, found.is_finished) == ("", True)


# Long lines


def test_a_long_line_is_translated_in_pieces_and_rejoined() -> None:
    model = echo()
    [found] = translator(model, max_positions=24).translate([LONG], Options(alpha=0.5))
    assert found.text == LONG
    assert found.note == f"too long, translated in {sum(model.batches)} pieces"
    assert sum(model.batches) > 1
    # As if it were one: each piece has probability 0.8, and the lengths add up.
    tokens = len(ids_of(LONG)) + sum(model.batches)
    expected = sum(model.batches) * math.log(0.8) / math.sqrt((5 + tokens) / 6)
    assert found.score == pytest.approx(expected, rel=0.05)


def test_the_most_tokens_of_a_piece_are_250_whatever_the_model_can_read() -> None:
    text = "She is dancing now. " * 100
    [found] = translator(echo(), max_positions=100_000).translate([text])
    assert found.text == text.strip()
    assert "pieces" in found.note


def test_a_translation_has_at_most_50_tokens_more_than_its_source() -> None:
    engine = TorchEngine(torch.device("cpu"), 70, TranslationTask(), OneWordModel(), TOKENIZER)

    def limit(tokens: int, prefix: int = 0) -> int:
        return engine.max_tgt_tokens(EncodedSentence([4] * tokens, 0, [4] * prefix))

    assert limit(3) == 3 + 1 + 50  # EOS counts
    assert limit(3, prefix=8) == 8 + 50  # a prefix needs room for what follows it
    assert limit(30) == 70  # the model's positions


def test_a_model_of_two_positions_still_answers() -> None:
    [found] = translator(random_model(seed=1, max_positions=2).model, max_positions=2).translate(
        ["字 and"]
    )
    assert "pieces" in found.note


def test_a_line_that_is_hardly_text_is_refused() -> None:
    with pytest.raises(InputError, match="line 2 has 1,000,000 characters"):
        translator(echo()).translate(["Yes", "x" * 1_000_000])


# The guard


def test_a_loop_gives_way_to_another_of_the_n_best() -> None:
    model = likely(**{"Ja,_nein," * 6: 0.6, "Ja.": 0.4})
    [found] = translator(model).translate(["Yes."], Options(n_best=2))
    assert found.text == "Ja."
    assert found.note == "the best translation repeated itself: this is number 2 of 2"
    assert [text for text, _ in found.alternatives] == ["Ja.", "Ja, nein," * 6]
    assert model.batches == [1]


def test_a_loop_is_searched_again() -> None:
    model = likely(**{"Ja,_nein," * 6: 0.6, "Ja.": 0.4})
    [found] = translator(model).translate(["Yes."], Options(beam=1))
    assert found.text == "Ja."
    assert found.note == "the translation repeated itself; this is from a beam of 13"
    expected = math.log(0.4) / ((5 + len(ids_of("Ja.")) + 1) / 6) ** 0.6
    assert found.score == pytest.approx(expected, rel=1e-5)


def test_a_loop_without_anything_better_stands_with_a_note() -> None:
    [found] = translator(likely(**{"Ja,_nein," * 6: 1.0})).translate(["Yes."])
    assert found.text == "Ja, nein," * 6
    assert found.note == "the translation repeated itself, and that of a beam of 16 was no better"


def test_an_empty_translation_is_searched_again() -> None:
    model = LikelyModel(lambda _: [([], 0.9), (ids_of("Ja."), 0.1)])
    [found] = translator(model).translate(["Yes."])
    assert found.text == "Ja."
    assert found.note == "the translation was empty; this is from a beam of 16"


def test_a_translation_that_does_not_end_is_searched_again() -> None:
    endless = [4 + n % 400 for n in range(1, 2_000)]
    model = LikelyModel(lambda _: [(endless, 0.7), (ids_of("Ja."), 0.3)])
    [found] = translator(model).translate(["Yes."], Options(beam=1))
    assert (found.text, found.is_finished) == ("Ja.", True)
    assert found.note == "the translation did not end; this is from a beam of 13"


def test_a_translation_that_never_ends_is_marked() -> None:
    endless = [4 + n % 400 for n in range(1, 2_000)]
    model = LikelyModel(lambda _: [(endless, 1.0)])
    [found] = translator(model).translate(["Yes."], Options(beam=1, sampling=Sampling()))
    assert not found.is_finished
    assert found.note == "the translation did not end, and that of a second sample was no better"


def test_a_degenerate_sample_is_drawn_again() -> None:
    model = LikelyModel(lambda _: [([], 0.5), (ids_of("Ja."), 0.5)])
    found = translator(model).translate(["Yes."] * 40, Options(sampling=Sampling()))
    notes = {one.note for one in found}
    assert {"", "the translation was empty; this is from a second sample"} <= notes
    assert sum(one.text == "" for one in found) < 20


def test_what_the_source_repeats_may_be_repeated() -> None:
    [found] = translator(echo()).translate(["ha, " * 20])
    assert (found.text, found.note) == (("ha, " * 20).strip(), "")


def test_a_model_of_numbers_that_are_none_says_nothing() -> None:
    broken = random_model(seed=1).model
    with torch.no_grad():
        for weights in broken.parameters():
            weights.fill_(torch.nan)
    [found] = translator(broken, max_positions=24).translate(["Yes."])
    assert (found.text, found.is_finished) == ("", False)
    assert "was empty" in found.note


# Prefixes and constraints


@given(
    prefix=st.sampled_from(["", "Sie", "Sie tanzt", "Bitte, ", "字"]),
    text=st.sampled_from(sentences(5)),
    sampling=st.sampled_from([None, Sampling()]),
)
@settings(max_examples=15)
def test_a_translation_begins_with_its_prefix(
    nonsense: Translator, prefix: str, text: str, sampling: Sampling | None
) -> None:
    options = Options(beam=2, sampling=sampling)
    [other, found] = nonsense.translate([text, text], options, prefixes=["", prefix])
    assert found.text.startswith(prefix)
    same([other], nonsense.translate([text], options))
    if not prefix and sampling is None:
        same([found], [other])


def test_a_sample_with_a_prefix_depends_on_its_own_line_alone(nonsense: Translator) -> None:
    texts, options = list(sentences(6)), Options(sampling=Sampling(seed=3))
    prefixes = ["Sie", "", "Bitte,", "Sie tanzt", "", "字"]
    together = nonsense.translate(texts, options, prefixes=prefixes)
    for number in range(6):
        blank = [""] * number
        alone = nonsense.translate(
            [*blank, texts[number]], options, prefixes=[*blank, prefixes[number]]
        )
        same(alone[-1:], together[number : number + 1])


SISTER = {"Meine_Schwester_tanzt.": 0.2, "Meine_Schwerter_fehlen.": 0.1, "Mein_Bruder_singt.": 0.7}


@pytest.mark.parametrize(
    ("prefix", "text"),
    [
        ("Meine Schw", "Meine Schwester tanzt."),
        ("Meine Schwer", "Meine Schwerter fehlen."),
        ("Meine Schwester", "Meine Schwester tanzt."),
        ("Meine Schwester ", "Meine Schwester tanzt."),
        ("Meine ", "Meine Schwester tanzt."),
        ("Mein ", "Mein Bruder singt."),
        ("M", "Mein Bruder singt."),
        ("Meine Schwester tanzt", "Meine Schwester tanzt."),
        ("Meine Schwester tanzt.", "Meine Schwester tanzt."),
    ],
)
@pytest.mark.parametrize(
    "options", [Options(beam=1), Options(beam=4), Options(sampling=Sampling(top_k=1))]
)
def test_a_prefix_may_end_within_a_word(prefix: str, text: str, options: Options) -> None:
    [other, found] = translator(likely(**SISTER)).translate(
        ["She", "He"], options, prefixes=["", prefix]
    )
    assert other.text == "Mein Bruder singt."
    assert found.text == text


def test_the_prefix_is_that_of_the_first_piece_alone() -> None:
    [found] = translator(echo(), max_positions=24).translate([LONG], prefixes=["Sie"])
    assert found.text == "Sie tanzt." + LONG.removeprefix("She is dancing now.")


class Copying(TranslationTask):
    """A task whose output must be its source."""

    def constraint(
        self,
        sources: Sequence[str],
        tokenizer: Tokenizer,
        *,
        max_tokens: Sequence[int],
        hypotheses: int,
        device: torch.device,
    ) -> Constraint:
        assert len(max_tokens) == len(sources)
        return only(
            tokenizer.encode_batch(sources),
            vocab_size=len(tokenizer),
            hypotheses=hypotheses,
            device=str(device),
        )


@pytest.fixture(scope="module")
def copier() -> Translator:
    model = random_model(seed=3, max_positions=64).model.double()
    return Translator(model, TOKENIZER, task=Copying(), max_positions=64)


@pytest.mark.parametrize(
    "options",
    [Options(), Options(beam=1), Options(sampling=Sampling()), Options(max_batch_tokens=1)],
)
def test_a_translation_obeys_the_constraint_of_its_task(
    copier: Translator, options: Options
) -> None:
    texts = ["", *sentences(5), "字"]
    found = copier.translate(texts, options)
    assert [one.text for one in found] == texts
    assert all(one.is_finished and math.isfinite(one.score) for one in found)
    for text, one in zip(texts, found, strict=True):
        same(copier.translate([text], options), [one])


def test_prefixes_are_obeyed_beside_the_constraint_of_a_task(copier: Translator) -> None:
    [text, other] = sentences(2)
    prefixes = [text.split()[0], "Sie tanzt"]
    [found, dead] = copier.translate([text, other], prefixes=prefixes)
    assert found.text == text
    assert (dead.text, dead.score, dead.is_finished) == ("", -math.inf, False)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_prefixes_must_match_line_by_line(count: int) -> None:
    with pytest.raises(InputError, match="prefix"):
        translator(echo()).translate(["Yes", "No"], prefixes=["x"] * count)


def test_a_prefix_that_fills_the_model_is_refused() -> None:
    with pytest.raises(InputError, match=r"line 1: a prefix of \d+ tokens, but the model has 8"):
        translator(echo(), max_positions=8).translate(["Yes"], prefixes=["Sie tanzt jetzt. " * 9])


# What is asked wrongly


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 0}, "a beam of 0: use 1 to 1,000"),
        ({"beam": 10**9}, "a beam of 1000000000"),
        ({"n_best": 5}, "the 5 best of a beam of 4"),
        ({"n_best": 0}, "the 0 best"),
        ({"alpha": -1.0}, "alpha=-1.0"),
        ({"alpha": math.nan}, "alpha=nan"),
        ({"alpha": math.inf}, "alpha=inf"),
        ({"max_batch_tokens": 0}, "max_batch_tokens=0"),
        ({"sampling": Sampling(), "n_best": 2}, "gives one translation per line"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Options(**options)


def test_what_is_no_list_of_texts_is_refused() -> None:
    one: Any = "Yes"
    number: Any = [1]
    asked = translator(echo())
    with pytest.raises(InputError, match="put it into a list"):
        asked.translate(one)
    with pytest.raises(InputError, match="line 1 is of type int, but must be a text"):
        asked.translate(number)
    with pytest.raises(InputError, match="line 2 has half of a surrogate pair"):
        asked.translate(["Yes", "\ud800"])
    with pytest.raises(InputError, match="a window of 0 lines"):
        asked.stream(["Yes"], window=0)


# Memory


def test_a_batch_that_is_too_much_for_the_memory_is_halved() -> None:
    model = echo()
    model.most_sentences = 3
    lines = list(sentences(10))
    assert [one.text for one in translator(model).translate(lines)] == lines
    assert max(model.batches) <= 3
    model.most_sentences = 0
    with pytest.raises(InputError, match=r"not enough memory for one sentence of .* use a smaller"):
        translator(model).translate(["Yes"])


def test_a_sentence_is_searched_again_with_the_memory_that_its_first_search_has_freed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = echo()
    encode, tries = model.encode, []

    def encode_at_the_second_try(src: Tensor) -> Any:
        tries.append(src)
        if len(tries) == 1:
            raise torch.OutOfMemoryError
        return encode(src)

    monkeypatch.setattr(model, "encode", encode_at_the_second_try)
    [found] = translator(model).translate(["Yes"])
    assert found.text == "Yes"
    assert len(tries) == 2


class OneWordState:
    """Nothing to remember."""

    def select(self, beams: Tensor) -> None:
        """Reorder nothing."""

    def allocate_like(self, sentences: int, *, max_steps: int) -> Self:
        del sentences, max_steps
        return self

    def copy_from(self, other: Self, sentences: Tensor, *, steps: int) -> None:
        """Take nothing."""


class OneWordModel:
    """Answers everything with one word, at once."""

    def encode(self, src: Tensor) -> Tensor:
        return src

    def start(self, memory: Tensor, *, hypotheses: int, max_steps: int) -> OneWordState:
        del memory, hypotheses, max_steps
        return OneWordState()

    def step(
        self, last_ids: Tensor, state: OneWordState, *, position: Tensor, reach: int
    ) -> Tensor:
        del state, reach
        logits = torch.zeros(*last_ids.shape, VOCAB_SIZE)
        logits[:, :, EOS_ID if position else 100] = 20.0
        return logits


def test_input_of_any_length_is_read_window_by_window() -> None:
    read = 0

    def line_of(number: int) -> str:
        return "" if number % 4 else f"{number % 10}"  # the model is spared most of them

    def lines() -> Iterator[str]:
        nonlocal read
        for read in range(1, 50_001):
            yield line_of(read)

    ahead = count = 0
    for found in translator(OneWordModel()).stream(lines(), Options(beam=1)):
        count += 1
        ahead = max(ahead, read - count)
        assert found.source == line_of(count)
    assert count == 50_000
    assert ahead <= 512


def test_a_window_of_long_lines_is_short() -> None:
    read = 0

    def lines() -> Iterator[str]:
        nonlocal read
        for _ in range(6):
            read += 1
            yield " " * 400_000

    found = translator(echo()).stream(lines())
    next(found)
    assert read == 3


def test_windows_that_are_read_ahead_give_the_same(nonsense: Translator) -> None:
    texts = [LONG, "", *sentences(20)]
    options = Options(beam=2)
    expected = list(nonsense.stream(texts, options, window=4))
    same(list(nonsense.stream(texts, options, window=4, read_ahead=True)), expected)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_windows_that_are_read_ahead_give_the_same_on_a_gpu(tmp_path: Path) -> None:
    """Steps are recorded in one thread, and attention is computed in another."""
    on_gpu = transduce.load(saved(tmp_path / "model", random_model(seed=3)), "cuda")
    texts = list(sentences(40))
    options = Options(beam=2, attention=True)
    expected = list(on_gpu.stream(texts, options, window=8))
    same(list(on_gpu.stream(texts, options, window=8, read_ahead=True)), expected)


def test_a_fault_that_is_read_ahead_comes_after_the_lines_before_it() -> None:
    lines: list[Any] = [*sentences(5), None]
    found = translator(echo()).stream(lines, window=1, read_ahead=True)
    assert [next(found).source for _ in range(5)] == lines[:5]
    with pytest.raises(InputError, match="line 6 is of type NoneType"):
        next(found)


def test_only_some_windows_are_read_ahead() -> None:
    read = 0

    def lines() -> Iterator[str]:
        nonlocal read
        for read in range(1, 1001):
            yield f"{read % 10}"

    options = Options(beam=1)
    found = translator(OneWordModel()).stream(lines(), options, window=2, read_ahead=True)
    ahead = max(read - count for count, _ in enumerate(found, start=1))
    assert read == 1000
    assert ahead <= 2 * (2 * (ITEMS_AHEAD + 2) + 1), "full queues, and a window in every hand"


def test_threads_that_read_ahead_end_where_the_rest_is_not_wanted() -> None:
    threads = active_count()
    found = translator(echo()).stream(sentences(100), window=1, read_ahead=True)
    next(found)
    assert active_count() == threads + 2
    found.close()  # type: ignore[attr-defined]
    assert active_count() == threads


def test_typed_lines_are_answered_one_by_one() -> None:
    read = []

    def lines() -> Iterator[str]:
        for text in sentences(3):
            read.append(text)
            yield text

    for count, found in enumerate(translator(echo()).stream(lines(), window=1), start=1):
        assert len(read) == count
        assert found.text == read[-1]


# Folders


def test_the_public_door(folder: Path) -> None:
    one = transduce.load(str(folder))
    assert isinstance(one, transduce.Translator)
    texts = list(sentences(2))
    same(transduce.load([folder], device="cpu").translate(texts), one.translate(texts))


def test_a_model_twice_is_the_model_and_two_are_neither(folder: Path, tmp_path: Path) -> None:
    other = saved(tmp_path / "other", random_model(seed=4))
    texts, options = list(sentences(3)), Options(beam=2)
    alone = transduce.load(folder).translate(texts, options)
    same(transduce.load([folder, folder]).translate(texts, options), alone)
    both = transduce.load([folder, other]).translate(texts, options)
    turned = transduce.load([other, folder]).translate(texts, options)
    assert [one.score for one in both] != [one.score for one in alone]
    same(turned, both)


def test_models_of_two_vocabularies_are_not_mixed(folder: Path, tmp_path: Path) -> None:
    one = random_model(seed=4)
    other = Tokenizer.learn(["other words"], vocab_size=VOCAB_SIZE)
    shape = one.config.model.model_copy(update={"vocab_size": len(other)})
    foreign = transduce.build_model(shape)
    config = one.config.model_copy(update={"model": shape})
    saved(tmp_path / "other", LoadedModel(foreign, config, other))
    with pytest.raises(InputError, match=r"other/tokenizer.json differs from .*one/tokenizer.json"):
        transduce.load([folder, tmp_path / "other"])


def test_half_precision_is_an_option(folder: Path) -> None:
    [found] = transduce.load(folder, precision="bf16").translate(["Yes."], Options(beam=1))
    assert math.isfinite(found.score)


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("gpu", "device=gpu: use auto, cpu"),
        ("meta", "device=meta: use auto, cpu"),
        ("cuda:99", "this machine has ([0-9]+|no) CUDA device"),
    ],
)
def test_a_device_that_is_not_there_is_refused(folder: Path, device: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        transduce.load(folder, device=device)


def test_what_cannot_be_loaded_is_refused(folder: Path, tmp_path: Path) -> None:
    odd: Any = "fp8"
    with pytest.raises(InputError, match="no model: give at least one folder"):
        transduce.load([])
    with pytest.raises(
        InputError, match=r"is an empty folder: a model is a folder of config\.yaml"
    ):
        transduce.load(tmp_path)
    with pytest.raises(InputError, match="use one of float32, bf16, int8"):
        transduce.load(folder, precision=odd)
    with pytest.raises(InputError, match="max_positions=1"):
        translator(echo(), max_positions=1)


def test_attention_is_shown_on_request() -> None:
    loaded = random_model(seed=3, max_positions=100)
    door = Translator(loaded.model, loaded.tokenizer, max_positions=100)
    [text, blank] = door.translate([*sentences(1), ""], Options(attention=True))
    [shown] = text.attention
    begin, end = loaded.tokenizer.tokens([BOS_ID, EOS_ID])
    model = loaded.model
    assert isinstance(model, Transformer)
    layers, heads = len(model.encoder), model.encoder[0].self_attention.h
    s, t = len(shown.source), len(shown.target)
    assert shown.encoder.shape == (layers, heads, s, s)
    assert shown.decoder.shape == (layers, heads, t, t)
    assert shown.cross.shape == (layers, heads, t, s)
    assert shown.cross.sum(axis=-1) == pytest.approx(1, rel=1e-5)
    assert (shown.source[-1], shown.read[0]) == (end, begin)
    assert shown.read[1:] == shown.target[:-1]
    assert (shown.target[-1] == end) == text.is_finished
    assert blank.attention == ()
    assert door.translate(sentences(1))[0].attention == ()


def test_attention_of_several_models_is_refused() -> None:
    loaded = random_model(seed=3)
    door = Translator(Ensemble([loaded.model] * 2), loaded.tokenizer, max_positions=24)
    with pytest.raises(InputError, match="for one model, not for an ensemble"):
        door.translate(sentences(1), Options(attention=True))


def test_a_line_of_several_sentences_is_translated_sentence_by_sentence() -> None:
    model = OneWordModel()
    door = translator(model, by_sentence=True)
    [word] = [found.text for found in door.translate(["Yes."])]
    line = "Yes. No! A dog (see Fig. 3) runs?"
    [split] = door.translate([line])
    assert split.text == " ".join([word] * 3)
    assert split.note == ""
    [whole] = door.translate([line], Options(whole_lines=True))
    assert whole.text == word
    assert translator(model).translate([line])[0].text == word


@pytest.mark.parametrize("space", ["  ", "\t", "\u00a0", "\u3000", " \u2003 "])
def test_any_space_between_words_is_one_space(space: str) -> None:
    loaded = random_model(seed=5, max_positions=100)
    door = Translator(loaded.model, loaded.tokenizer, max_positions=100)
    [text] = sentences(1)
    [expected] = door.translate([text])
    [found] = door.translate([f" {text.replace(' ', space)} "])
    assert (found.text, found.score) == (expected.text, expected.score)
