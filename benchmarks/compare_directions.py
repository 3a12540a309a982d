"""A model of several languages beside models of single directions, as a table.

    python benchmarks/compare_directions.py many.json single-*.json

The files are those of `benchmarks/many_languages.py --json`: first the model of several languages,
scored in all directions, then models of one direction each. It prints a table of the directions
that both have, the means, and whether the claims hold: mean BLEU is at least that of the single
models less 1, and of the translations in zero-shot directions 95 % are in the right language. The
exit code is 1 if one fails.
"""

import argparse
import json
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

MARGIN, IN_LANGUAGE = 1.0, 0.95
ZERO_SHOT = "zero-shot"


def main() -> None:
    """Print the table and the claims."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("many", type=Path)
    parser.add_argument("single", type=Path, nargs="+")
    given = parser.parse_args()
    many = json.loads(given.many.read_text(encoding="utf-8"))
    single: dict[str, Any] = {}
    for path in given.single:
        single |= json.loads(path.read_text(encoding="utf-8"))["directions"]
    claims = compare(many["directions"], single) | show_groups(many["means"])
    for text, holds in claims.items():
        print(f"{'holds' if holds else 'FAILS'}: {text}")
    sys.exit(not all(claims.values()))


def compare(many: dict[str, Any], single: dict[str, Any]) -> dict[str, bool]:
    """Print both models' scores of the directions that they share; return the claim."""
    print("| direction | BLEU of many | of one | chrF of many | of one |")
    print("|---|--:|--:|--:|--:|")
    rows = {
        name: [many[name]["BLEU"], one["BLEU"], many[name]["chrF"], one["chrF"]]
        for name, one in single.items()
    }
    rows["mean"] = [fmean(column) for column in zip(*rows.values(), strict=True)]
    for name, numbers in rows.items():
        print(f"| {name} | {' | '.join(f'{number:.2f}' for number in numbers)} |")
    ours, theirs, *_ = rows["mean"]
    text = (
        f"mean BLEU {ours:.2f} is at least {theirs:.2f} - {MARGIN:g}, that of {len(single)} pairs"
    )
    return {text: ours >= theirs - MARGIN}


def show_groups(means: dict[str, Any]) -> dict[str, bool]:
    """Print the means of trained and zero-shot directions; return the claim about these."""
    for group, found in means.items():
        print(f"{group}: {found}" if found else f"{group}: none")
    share = (means[ZERO_SHOT] or {}).get("in_target_language")
    if share is None:
        return {}
    return {f"{share:.1%} of zero-shot translations are in the language": share >= IN_LANGUAGE}


if __name__ == "__main__":
    main()
