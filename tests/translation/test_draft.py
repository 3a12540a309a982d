"""`--draft` and `load(draft=...)`: the same translations, and one clear line where it cannot be."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import transduce
from tests.command import Command
from tests.translation.likely import VOCAB_SIZE, learnt_tokenizer, random_model, saved, sentences
from transduce.config.schema import Config
from transduce.errors import InputError
from transduce.models.build import build_model
from transduce.models.folder import LoadedModel
from transduce.models.transformer.model import Transformer
from transduce.search.sample import Sampling
from transduce.translation.options import Options
from transduce.translation.wording.read import wording

TEXTS = list(sentences(6))
GREEDY = Options(beam=1, second_try=False)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Write model folders; return where the one of a name is."""
    root = tmp_path_factory.mktemp("models")
    saved(root / "model", random_model(seed=5))
    saved(root / "draft", random_model(seed=6))
    saved(root / "short", random_model(seed=6, max_positions=20))
    other = random_model(seed=6)
    saved(root / "other", LoadedModel(other.model, other.config, learnt_tokenizer(seed=2)))
    config = Config.model_validate(
        {"model": {"kind": "rnn", "vocab_size": VOCAB_SIZE, "d_model": 8, "d_hidden": 8}}
    )
    saved(
        root / "rnn",
        LoadedModel(build_model(config.model, seed=1).eval(), config, learnt_tokenizer()),
    )
    return lambda name: root / name


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the tokens of each pass of any model that reads several at once."""
    found: list[int] = []
    step = Transformer.multi_token_step

    def counting(self: Transformer, ids: torch.Tensor, *given: Any, **named: Any) -> torch.Tensor:
        found.append(ids.size(1))
        return step(self, ids, *given, **named)

    monkeypatch.setattr(Transformer, "multi_token_step", counting)
    return found


@pytest.mark.parametrize("draft", ["draft", "model", "ngrams"])
def test_a_draft_changes_no_translation(
    folders: Callable[[str], Path], sizes: list[int], draft: str
) -> None:
    plain = transduce.load(folders("model"), "cpu")
    drafting = transduce.load(
        folders("model"), "cpu", draft=draft if draft == "ngrams" else folders(draft)
    )
    expected = plain.translate(TEXTS, GREEDY)
    assert not sizes
    alone = [drafting.translate([text], GREEDY)[0] for text in TEXTS]
    assert max(sizes) > 1
    assert [one.text for one in alone] == [one.text for one in expected]
    assert [one.score for one in alone] == pytest.approx([one.score for one in expected], abs=1e-4)


def test_several_sentences_are_searched_as_a_batch(
    folders: Callable[[str], Path], sizes: list[int]
) -> None:
    drafting = transduce.load(folders("model"), "cpu", draft=folders("draft"))
    text = min(TEXTS, key=len)  # one piece: a longer line would be a batch by itself
    found = drafting.translate([text] * 3, GREEDY)
    assert not sizes
    assert found[0].text == drafting.translate([text], GREEDY)[0].text
    assert sizes


def test_a_second_search_has_a_wider_beam_and_no_draft(folders: Callable[[str], Path]) -> None:
    [plain] = transduce.load(folders("model"), "cpu").translate(TEXTS[:1], Options(beam=1))
    drafting = transduce.load(folders("model"), "cpu", draft=folders("draft"))
    [found] = drafting.translate(TEXTS[:1], Options(beam=1))
    assert found.note == plain.note != ""  # the model writes nonsense without an end
    assert found.text == plain.text


def test_the_command_translates_with_a_draft(
    folders: Callable[[str], Path], command: Command, tmp_path: Path
) -> None:
    text = tmp_path / "text"
    text.write_text("".join(f"{line}\n" for line in TEXTS), encoding="utf-8")
    given = (folders("model"), text, "--beam", "1", "--window", "1", "--device", "cpu")
    plain = command("translate", *given)
    drafted = command("translate", *given, "--draft", folders("draft"))
    assert (drafted.code, drafted.out) == (0, plain.out)
    assert len(plain.out.splitlines()) == len(TEXTS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "a draft is for greedy search, and this is a beam of 4: use a beam of 1, or no draft"),
        (("--beam", "1", "--sample"), "a draft is for greedy search, not for sampling"),
        (("--beam", "1", "--prefix-text", "a"), "a draft is for greedy search without prefixes"),
        (("--beam", "1", "--keep-placeholders"), "a draft is for greedy search without terms"),
        (("--beam", "1", "--ensemble", "model"), "a draft is for one model, not for an ensemble"),
        (("--beam", "1", "--engine", "ctranslate2"), "CTranslate2 takes no draft"),
    ],
)
def test_the_command_refuses_all_but_greedy_search(
    folders: Callable[[str], Path], command: Command, arguments: tuple[str, ...], message: str
) -> None:
    named = [folders(one) if one == "model" else one for one in arguments]
    given = ("translate", folders("model"), "--device", "cpu", "--draft", folders("draft"))
    assert command(*given, *named).mistake().startswith(message)


@pytest.mark.parametrize(
    ("model", "draft", "message"),
    [
        ("rnn", "draft", "a model of the kind rnn cannot read several tokens at once"),
        ("model", "rnn", "a model of the kind rnn cannot read several tokens at once"),
        ("model", "other", "a draft needs the vocabulary of the model; train it with"),
        ("model", "short", "model.max_positions=20 is less than the 24 of"),
        ("model", "missing", "missing does not exist"),
    ],
)
def test_models_that_do_not_go_together_are_refused(
    folders: Callable[[str], Path], model: str, draft: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        transduce.load(folders(model), "cpu", draft=folders(draft))


@pytest.mark.parametrize(
    "options",
    [Options(), Options(beam=1, sampling=Sampling()), Options(beam=1, wording=wording({"a": "b"}))],
)
def test_options_that_are_not_greedy_search_are_refused(
    folders: Callable[[str], Path], options: Options
) -> None:
    drafting = transduce.load(folders("model"), "cpu", draft="ngrams")
    with pytest.raises(InputError, match="a draft is for greedy search"):
        drafting.translate(TEXTS, options)
    with pytest.raises(InputError, match="without prefixes"):
        drafting.translate(TEXTS[:1], GREEDY, prefixes=["a"])
