"""Lists of translations are what counting links one by one gives, and hold known translations."""

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data.alignment.test_aligner import corpora, corpus_with_links, side
from transduce.data.alignment.aligner import train_aligner
from transduce.data.alignment.lexicon import LinkCounts

VOCAB_SIZE = 10


@settings(max_examples=25)
@given(corpus=corpora, count=st.integers(1, 4), cut=st.integers(0, 8))
def test_lists_are_the_links_counted_one_by_one(
    corpus: list[tuple[list[int], list[int]]], count: int, cut: int
) -> None:
    src, tgt = [one for one, _ in corpus], [other for _, other in corpus]
    aligner = train_aligner(side(src), side(tgt), iterations=2)
    chunks = [(src[:cut], tgt[:cut]), (src[cut:], tgt[cut:])]
    sides = [(side(one), side(other)) for one, other in chunks if one]
    counted = LinkCounts.of(aligner, sides, VOCAB_SIZE)
    links: Counter[tuple[int, int]] = Counter()
    for one, other in corpus:
        numbers = aligner.likeliest_sources(side([one]), side([other])).tolist()
        assert all(1 <= number <= len(one) for number in numbers)
        links.update((one[number - 1], token) for number, token in zip(numbers, other, strict=True))
    starts, ids = counted.most_linked(count, VOCAB_SIZE)
    for token in range(VOCAB_SIZE):
        partners = [(-n, other) for (one, other), n in links.items() if one == token]
        expected = [other for _, other in sorted(partners)[:count]]
        assert ids[starts[token] : starts[token + 1]].tolist() == expected
    often = Counter(token for row in tgt for token in row)
    ranked = sorted(often, key=lambda token: (-often[token], token))
    assert counted.most_frequent(count).tolist() == sorted(ranked[:count])


def test_known_translations_are_first_in_their_lists() -> None:
    src, tgt, links = corpus_with_links(1500, seed=1)
    aligner = train_aligner(side(src), side(tgt)).pruned()
    counted = LinkCounts.of(aligner, [(side(src), side(tgt))], 300)
    starts, ids = counted.most_linked(5, 300)
    known = {
        one[number - 1]: token
        for one, other, its in zip(src, tgt, links, strict=True)
        for number, token in zip(its, other, strict=True)
    }
    right = [ids[starts[one]] == other for one, other in known.items()]
    assert np.mean(right) > 0.98
