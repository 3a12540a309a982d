"""Filters drop what they should, keep what they should, and report both."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.data import cleaning
from transduce.data.cleaning import CleaningReport, DuplicateFilter, Rules, clean
from transduce.data.corpus import Pair

ENGLISH_GERMAN = [
    Pair(f"The number of this sentence is {n}.", f"Die Nummer dieses Satzes lautet {n}.")
    for n in range(1000)
]


def faults(
    *pairs: Pair, beside: list[Pair] = ENGLISH_GERMAN, held_out: tuple[str, ...] = ()
) -> list[str]:
    """Return the filter that drops each pair among a thousand good ones, or 'kept'."""
    report = CleaningReport()
    kept = set(clean([*beside, *pairs], report, held_out=held_out))
    caught = {pair: fault for fault, rows in report.examples.items() for _, pair in rows}
    return ["kept" if pair in kept else caught[pair] for pair in pairs]


@pytest.mark.parametrize(
    ("src", "tgt", "fault"),
    [
        ("", "Ein Satz.", cleaning.EMPTY),
        ("A sentence.", " \t", cleaning.EMPTY),
        ("Copyright by the authors", "Copyright by the authors ", cleaning.IDENTICAL),
        ("long " * 300, "lang " * 300, cleaning.LONG),
        (
            "Short.",
            "Ein sehr langer Satz, der unmöglich eine Übersetzung sein kann.",
            cleaning.RATIO,
        ),
        ("Yes.", "Jawohl, gewiss.", "kept"),
        ("(1) 23.45 - 67/89 ... 10:30", "(1) 23,45 – 67/89 … 10.30", cleaning.NO_LETTERS),
        ("This is a sentence.", "Это русское предложение.", cleaning.SCRIPT),
        ("Это русское предложение.", "Das ist ein Satz.", cleaning.SCRIPT),
        ("1 - 2 - 3 - 4 - 5 - 6", "eins bis sechs, also sechs", cleaning.NO_LETTERS),
        ("kurz " * 100, "lang " * 201, cleaning.LONG),
        ("Dies ist ein Satz über Größe.", "Das ist ein Satz über Größe, ja.", "kept"),
        ("Moscow (Москва) is a city.", "Moskau (Москва) ist eine Stadt.", "kept"),
        ("A good sentence in 2024.", "Ein guter Satz in 2024.", "kept"),
    ],
)
def test_each_filter_drops_its_fault_and_keeps_good_pairs(src: str, tgt: str, fault: str) -> None:
    assert faults(Pair(src, tgt)) == [fault]


def test_what_is_typical_is_measured_on_the_corpus() -> None:
    japanese = [
        Pair(f"I have {n} books on the table today.", f"今日は机の上に本が{n}冊あります。")
        for n in range(1000)
    ]
    good, latin = (
        Pair("She went to the station.", "彼女は駅へ行きました。"),
        Pair("Who?", "Who is it?"),
    )
    assert faults(good, latin, beside=japanese) == ["kept", cleaning.SCRIPT]


def test_accents_written_apart_are_letters_of_any_script() -> None:
    assert faults(Pair("a\u0301e\u0301i\u0301 b", "a\u0301e\u0301i\u0301 c")) == ["kept"]


def test_spelling_in_code_points_and_outer_spaces_hide_no_duplicate() -> None:
    composed, apart = (
        Pair("A caf\u00e9.", "Ein Caf\u00e9."),
        Pair("A cafe\u0301. ", "Ein Cafe\u0301."),
    )
    assert faults(composed, apart) == ["kept", cleaning.DUPLICATE]


def test_held_out_sentences_are_dropped_whichever_side_they_are_on() -> None:
    pairs = (
        Pair("One two.", "Eins zwei."),
        Pair("Three four.", "Drei vier."),
        Pair("Five.", "Fünf."),
    )
    found = faults(*pairs, held_out=(" One two.", "Drei vier.\t"))
    assert found == [cleaning.HELD_OUT, cleaning.HELD_OUT, "kept"]


@given(order=st.lists(st.integers(0, 5), max_size=60))
def test_only_the_first_of_equal_pairs_is_kept(order: list[int]) -> None:
    pairs = [Pair(f"sentence {'abcdef'[n]}", f"Satz {'abcdef'[n]}") for n in order]
    report = CleaningReport()
    assert list(clean(pairs, report)) == list(dict.fromkeys(pairs))
    assert report.dropped[cleaning.DUPLICATE] == len(pairs) - len(set(pairs))


@given(
    calls=st.lists(st.lists(st.integers(0, 30) | st.integers(2**64 - 3, 2**64 - 1)), max_size=20)
)
def test_repeated_digests_are_those_that_a_set_finds(calls: list[list[int]]) -> None:
    seen, reference = DuplicateFilter(), set[int]()
    for digests in calls:
        expected = []
        for digest in digests:
            expected.append(digest in reference)
            reference.add(digest)
        assert seen.add(digests) == expected


@given(
    pairs=st.lists(st.builds(Pair, st.text(max_size=30), st.text(max_size=30)), max_size=30),
    rules=st.sampled_from([Rules(), Rules(max_chars=5), Rules(min_letters=0.9)]),
)
def test_every_pair_is_kept_or_counted_once(pairs: list[Pair], rules: Rules) -> None:
    report = CleaningReport()
    kept = list(clean(pairs, report, rules=rules))
    assert report.pairs == len(pairs)
    assert report.kept == len(kept)
    assert set(report.dropped) <= set(cleaning.FILTERS)
    for fault, rows in report.examples.items():
        assert len(rows) == min(report.dropped[fault], cleaning.EXAMPLES)
        assert all(pairs[number - 1] == pair for number, pair in rows)
