"""Bad pairs planted in a corpus, to measure how many of them a filter finds."""

from collections.abc import Sequence

from transduce.data.corpus import Pair
from transduce.text.noise.draws import Draws

SHUFFLED, OTHER, TRUNCATED, COPIED = "shuffled", "other language", "truncated", "copied"
PLANTED = (SHUFFLED, OTHER, TRUNCATED, COPIED)


def plant(
    pairs: Sequence[Pair], *, share: float, seed: int, other: Sequence[str]
) -> tuple[list[Pair], dict[int, str]]:
    """Spoil the targets of a share of pairs, a quarter of them in each way.

    shuffled: the target of another pair; other language: one of the texts `other`; truncated: the
    first half of its words; copied: the source. Returns all pairs, and the kinds by number from 0.
    """
    draws = Draws(seed)
    found, kinds = list(pairs), dict[int, str]()
    while len(kinds) < round(share * len(pairs)):
        number = draws.below(len(pairs))
        if number in kinds:
            continue
        kind = PLANTED[len(kinds) % len(PLANTED)]
        spoilt = _spoilt(pairs, number, kind, other, draws)
        if spoilt != pairs[number].tgt:
            found[number] = Pair(pairs[number].src, spoilt)
            kinds[number] = kind
    return found, kinds


def _spoilt(
    pairs: Sequence[Pair], number: int, kind: str, other: Sequence[str], draws: Draws
) -> str:
    words = pairs[number].tgt.split()
    match kind:
        case "shuffled":
            return draws.one_of(pairs).tgt
        case "other language":
            return draws.one_of(other)
        case "truncated":
            return " ".join(words[: max(1, len(words) // 2)])
        case _:
            return pairs[number].src
