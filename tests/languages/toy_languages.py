"""Toy languages: one sentence in each, whose words are ciphers of one another."""

import random
from pathlib import Path

WORDS = tuple("cat dog sees big small red old house tree runs loves bird".split())  # noqa: SIM905
LANGUAGES = ("aa", "bb", "cc")


def in_language(language: str, word: str) -> str:
    """Write a word: as it is, backwards, or with other letters."""
    match language:
        case "aa":
            return word
        case "bb":
            return f"{word[::-1]}o"
        case "cc":
            return "".join(chr((ord(letter) - 97 + 5) % 26 + 97) for letter in word)
        case _:
            return f"z{word}"


def rows(count: int, *, seed: int, most_words: int = 3) -> list[list[str]]:
    """Draw sentences, as lists of words."""
    draws = random.Random(seed)  # noqa: S311 - no secret
    return [draws.sample(WORDS, draws.randint(2, most_words)) for _ in range(count)]


def write_texts(
    folder: Path,
    name: str,
    count: int,
    *,
    seed: int,
    languages: tuple[str, ...] = LANGUAGES,
    most_words: int = 3,
) -> list[Path]:
    """Write a text for each language: `name.aa`, `name.bb` and so on."""
    folder.mkdir(parents=True, exist_ok=True)
    sentences, paths = rows(count, seed=seed, most_words=most_words), []
    for language in languages:
        lines = (" ".join(in_language(language, word) for word in words) for words in sentences)
        paths.append(folder / f"{name}.{language}")
        paths[-1].write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return paths


SETTINGS: dict[str, object] = {
    "model.vocab_size": 330,
    "model.max_positions": 40,
    "model.n_layers": 1,
    "model.d_model": 32,
    "model.d_ff": 64,
    "model.h": 2,
    "model.p_drop": 0,
    "data.clean": False,
    "training.batch_tokens": 600,
    "training.schedule": "linear",
    "training.learning_rate": 0.01,
    "training.warmup_steps": 20,
    "training.steps": 12,
    "run.checkpoint_steps": 6,
    "run.average": 2,
    "run.score_sentences": 12,
    "run.device": "cpu",
}


def changes(**settings: object) -> list[str]:
    """Write settings as `--set` takes them; `training__steps` is `training.steps`."""
    given = SETTINGS | {name.replace("__", "."): value for name, value in settings.items()}
    return [f"{name}={value}" for name, value in given.items() if value is not None]


LEARNING: dict[str, object] = {
    "training__steps": 260,
    "run__checkpoint_steps": 260,
    "training__batch_tokens": 500,
    "training__learning_rate": 0.004,
    "training__eps_ls": 0,
    "model__d_model": 64,
    "model__n_layers": 2,
    "model__norm": "pre",
}
"""Enough to learn the words of toy languages without a fault."""
