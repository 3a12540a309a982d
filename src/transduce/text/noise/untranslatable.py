"""Strings that stay the same in every language: addresses, codes, numbers, tags, emoji."""

from transduce.text.noise.draws import Draws

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_CODE = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_DOMAINS = ("com", "org", "net", "eu", "io", "info")
_EMOJI = "😀😂😍🙂😉😎😢😡👍👎👏🙏💪🎉🔥✨⭐✅❌⚠➡❤🚀📌📎📞🏠🌍"


def untranslatable(draws: Draws) -> str:
    """Make up a string that a translation copies."""
    match draws.below(7):
        case 0:
            return f"https://www.{_name(draws)}.{draws.one_of(_DOMAINS)}/{_code(draws)}"
        case 1:
            return f"{_name(draws)}@{_name(draws)}.{draws.one_of(_DOMAINS)}"
        case 2:
            return f"#{_name(draws)}"
        case 3:
            return f"@{_name(draws)}{draws.below(100)}"
        case 4:
            return f"{_code(draws)}-{draws.below(10_000)}"
        case 5:
            return f"[{draws.below(1000)}]"
        case _:
            return draws.one_of(_EMOJI) * (1 + draws.below(3))


def _name(draws: Draws) -> str:
    return "".join(draws.one_of(_LETTERS) for _ in range(3 + draws.below(7)))


def _code(draws: Draws) -> str:
    return "".join(draws.one_of(_CODE) for _ in range(2 + draws.below(5)))
