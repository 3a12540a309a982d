"""Texts of several languages are stored once, whatever the number of directions."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.data.preparing import PHASE
from tests.languages.toy_languages import write_texts
from transduce.config.schema import DataConfig
from transduce.data.batch import Batch
from transduce.data.batching import RowCapacity
from transduce.data.corpus import Pair
from transduce.data.languages.corpora import named_by_files, trained_directions
from transduce.data.languages.prepare import find_language_corpora, prepare_languages
from transduce.data.languages.weights import check_weights, stage_weights, tempered
from transduce.data.loader import Loader
from transduce.data.prepare import Prepared
from transduce.errors import ConfigError, InputError
from transduce.text.special_ids import BOS_ID, EOS_ID, PAD_ID
from transduce.text.tokenizer import Tokenizer


def made(folder: Path, processes: int = 1, **settings: object) -> Prepared:
    tree = {"clean": True, "dev_pairs": 5} | settings
    config = DataConfig.model_validate(tree)
    found = find_language_corpora(config, folder / "cache", seed=1, phase=PHASE)
    return prepare_languages(
        config, found, folder / "cache", vocab_size=330, processes=processes, phase=PHASE
    )


def named(paths: list[Path]) -> dict[str, str]:
    return {path.suffix[1:]: str(path) for path in paths}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("store")
    texts = named(write_texts(folder, "train", 120, seed=3))
    return made(folder, corpora={"train": texts}, without_directions=("bb-cc",))


def text_of(prepared: Prepared, side: str, pair: int) -> str:
    return prepared.tokenizer.decode_batch([getattr(prepared.train, side)[pair].tolist()])[0]


def test_each_direction_has_the_rows_of_its_languages(prepared: Prepared) -> None:
    store = prepared.train
    directions = [name for _, name in store.manifest["directions"]]
    assert directions == ["aa-bb", "aa-cc", "bb-aa", "cc-aa", "cc-bb"]
    ends = store.manifest["source_ends"]
    kept = ends[0]
    assert ends == [kept * number for number in range(1, 6)]
    first = {name: kept * place for place, name in enumerate(directions)}
    for pair in (0, 7, kept - 1):
        assert text_of(prepared, "src", first["aa-bb"] + pair) == text_of(
            prepared, "tgt", first["bb-aa"] + pair
        )
        assert text_of(prepared, "tgt", first["cc-bb"] + pair) == text_of(
            prepared, "src", first["bb-aa"] + pair
        )


def test_the_ids_of_a_text_are_stored_once(prepared: Prepared) -> None:
    sentences = len(prepared.train.src.ends)
    assert sentences == 3 * 120
    assert prepared.train.src.ids is prepared.train.tgt.ids
    assert len(prepared.train) > sentences


def test_held_out_rows_are_trained_on_in_no_language(prepared: Prepared) -> None:
    hidden = {text for pair in prepared.dev_pairs for text in pair}
    for pair in range(len(prepared.train)):
        assert text_of(prepared, "src", pair) not in hidden


@pytest.mark.parametrize("tag_on", ["source", "target"])
def test_a_batch_has_the_tag_of_the_target_language(tmp_path: Path, tag_on: str) -> None:
    texts = named(write_texts(tmp_path, "train", 60, seed=3))
    found = made(tmp_path, corpora={"train": texts}, tag_on=tag_on)
    tags = found.tokenizer.target.tags
    store = found.train
    pairs = np.arange(0, len(store), 7)
    batch = Batch.padded(store, pairs)
    packed = Batch.packed(store, pairs, RowCapacity(4000, 4000))
    side, other = (batch.src, batch.tgt_out) if tag_on == "source" else (batch.tgt_out, batch.src)
    ends = store.manifest["source_ends"]
    for row, pair in enumerate(pairs.tolist()):
        direction = store.manifest["directions"][np.searchsorted(ends, pair, side="right")][1]
        ids = [one for one in side[row].tolist() if one != PAD_ID]
        assert ids[0] == tags[direction.partition("-")[2]]
        text = store.src if tag_on == "source" else store.tgt
        assert ids[1:] == [*text[pair].tolist(), EOS_ID]
        assert not set(other[row].tolist()) & set(tags.values())
    one_row = (packed.src if tag_on == "source" else packed.tgt_out)[0].tolist()
    flat = [one for row in side.tolist() for one in row if one != PAD_ID]
    assert one_row[: len(flat)] == flat
    assert packed.tgt_in[0, 0] == BOS_ID


def test_a_store_is_the_same_from_several_processes(tmp_path: Path, prepared: Prepared) -> None:
    texts = named(write_texts(tmp_path, "train", 120, seed=3))
    again = made(tmp_path, 2, corpora={"train": texts}, without_directions=("bb-cc",))
    assert again.train.manifest["files"] == prepared.train.manifest["files"]


def test_every_pair_of_languages_is_cleaned_by_itself(tmp_path: Path) -> None:
    paths = write_texts(tmp_path, "train", 100, seed=3)
    lines = paths[1].read_text(encoding="utf-8").splitlines()
    lines[4] = ""
    paths[1].write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    found = made(tmp_path, corpora={"train": named(paths)})
    ends = found.train.manifest["source_ends"]
    sizes = dict(
        zip(
            [name for _, name in found.train.manifest["directions"]],
            np.diff(ends, prepend=0).tolist(),
            strict=True,
        )
    )
    assert sizes["aa-cc"] == sizes["cc-aa"] == sizes["aa-bb"] + 1 == sizes["bb-cc"] + 1


def test_columns_of_one_file_are_languages_too(tmp_path: Path) -> None:
    paths = write_texts(tmp_path, "train", 80, seed=3)
    columns = [path.read_text(encoding="utf-8").splitlines() for path in paths]
    table = ["aa\tbb\tcc", *("\t".join(row) for row in zip(*columns, strict=True))]
    (tmp_path / "all.tsv").write_text("".join(f"{row}\n" for row in table), encoding="utf-8")
    one = {code: str(tmp_path / "all.tsv") for code in ("aa", "bb", "cc")}
    of_table = made(tmp_path / "a", corpora={"train": one})
    of_files = made(tmp_path / "b", corpora={"train": named(paths)})
    assert of_table.train.manifest["source_ends"] == of_files.train.manifest["source_ends"]
    assert of_table.dev_pairs == of_files.dev_pairs


def test_texts_of_different_lengths_are_refused(tmp_path: Path) -> None:
    paths = write_texts(tmp_path, "train", 30, seed=3)
    with paths[2].open("a", encoding="utf-8") as file:
        file.write("one more\n")
    with pytest.raises(InputError, match=r"train\.cc has 31 lines but .*train\.aa has 30"):
        made(tmp_path, corpora={"train": named(paths)})


def test_files_are_named_after_their_languages() -> None:
    given = ["d/b=x.aa", "d/b=x.bb.gz", "cc=d/b=x.txt"]
    texts = {"aa": "d/b=x.aa", "bb": "d/b=x.bb.gz", "cc": "d/b=x.txt"}
    assert named_by_files(given) == {"b-x": texts}


def test_directions_that_no_corpus_has_are_refused() -> None:
    texts = {"train": {"aa": "x.aa", "bb": "x.bb"}}
    for wrong, message in (
        ({"directions": ("aa-zz",)}, "no corpus has texts for 'aa-zz'.*there are aa-bb, bb-aa"),
        ({"without_directions": ("aa-bb", "bb-aa")}, "no direction is left"),
    ):
        config = DataConfig.model_validate({"corpora": texts} | wrong)
        with pytest.raises(ConfigError, match=message):
            trained_directions(config)


def test_dev_pairs_are_in_the_order_of_their_store(prepared: Prepared) -> None:
    for place, pair in enumerate(prepared.dev_pairs):
        ids = prepared.dev.src[place].tolist(), prepared.dev.tgt[place].tolist()
        assert Pair(*prepared.tokenizer.decode_batch(ids)) == pair
    assert [part.name for part in prepared.dev_parts][:2] == ["aa-bb", "aa-cc"]
    sampled = prepared.parts_of(10)
    assert [(part.start, part.end) for part in sampled] == [
        (2 * number, 2 * number + 2) for number in range(5)
    ]


def test_temperature_raises_small_directions_and_keeps_the_total() -> None:
    sizes = [900.0, 90.0, 10.0]
    assert tempered("abc", sizes, temperature=1) == pytest.approx([1, 1, 1])
    factors = tempered("abc", sizes, temperature=5)
    used = [size * factor for size, factor in zip(sizes, factors, strict=True)]
    assert sum(used) == pytest.approx(1000)
    roots = [size ** (1 / 5) for size in sizes]
    assert used == pytest.approx([1000 * root / sum(roots) for root in roots])
    both = tempered(["a", "a", "b"], sizes, temperature=3)
    assert both[0] == both[1], "corpora of one direction keep their proportion"


def test_an_epoch_has_directions_in_proportion_to_their_weights(prepared: Prepared) -> None:
    ends = prepared.train.manifest["source_ends"]
    loader = Loader(prepared.train, max_tokens=500, weights=(2.0, 1.0, 0.5, 0.0, 1.0), seed=4)
    counts = np.zeros(5)
    for epoch in range(20):
        taken = loader.plan(epoch).sentences
        counts += np.bincount(np.searchsorted(ends, taken, side="right"), minlength=5) / ends[0]
    assert counts[[0, 1, 3, 4]].tolist() == [40, 20, 0, 20]
    assert counts[2] == pytest.approx(10, abs=1)


def test_a_stage_without_a_pair_is_refused(tmp_path: Path) -> None:
    """Its epochs would have no steps, and the run would never end."""
    corpora = {}
    for name in ("train", "copied"):
        corpora[name] = named(write_texts(tmp_path, name, 60, seed=3, languages=("aa", "bb")))
    Path(corpora["copied"]["bb"]).write_bytes(Path(corpora["copied"]["aa"]).read_bytes())
    settings: dict[str, object] = {
        "corpora": corpora,
        "dev_corpora": {"dev": named(write_texts(tmp_path, "dev", 4, seed=9))},
        "stages": ({"until": 0.5, "mix": {}}, {"mix": {"train": 0}}),
    }
    found = made(tmp_path, 1, **settings)
    with pytest.raises(ConfigError, match=r"stage 2 of data\.stages: no pair is left"):
        stage_weights(DataConfig.model_validate(settings), found.train)


def test_a_mix_weighs_corpora_by_name(prepared: Prepared) -> None:
    config = DataConfig.model_validate(
        {"src": ("a/news.en", "b/law.en.gz"), "tgt": ("a/news.de", "b/law.de.gz")}
        | {"stages": ({"until": 0.5, "mix": {"news": 2}}, {"mix": {"law": 0}})}
    )
    check_weights(config)
    store = replace(prepared.train, manifest={"source_ends": [10, 30]})
    assert stage_weights(config, store) == [(2.0, 1.0), (1.0, 0.0)]
    wrong = config.model_copy(update={"stages": (), "mix": {"new": 1.0}})
    with pytest.raises(ConfigError, match=r"named 'new' \(did you mean news\?\); there are news"):
        check_weights(wrong)


def test_a_row_is_repeated_only_in_the_same_languages(tmp_path: Path) -> None:
    """Text that is the same in other languages, as names and numbers are, is no duplicate."""
    lines = {
        code: "".join(f"{word} {number}\n" for number in range(60))
        for code, word in (("aa", "number"), ("bb", "nombre"), ("cc", "nombre"))
    }
    corpora = {}
    for name, languages in (("one", "aa bb"), ("two", "aa cc"), ("again", "bb aa")):
        paths = [tmp_path / f"{name}.{language}" for language in languages.split()]
        for path in paths:
            path.write_text(lines[path.suffix[1:]], encoding="utf-8")
        corpora[name] = named(paths)
    found = made(tmp_path, corpora=corpora)
    ends = found.train.manifest["source_ends"]
    sizes = np.diff(ends, prepend=0).tolist()
    kept = dict(zip(map(tuple, found.train.manifest["directions"]), sizes, strict=True))
    assert kept["one", "aa-bb"] == kept["two", "aa-cc"] > 0
    assert kept["again", "aa-bb"] == kept["again", "bb-aa"] == 0


def test_a_tokenizer_with_a_tag_on_one_side_alone_is_refused(prepared: Prepared) -> None:
    tagged = prepared.tokenizer.target
    plain = Tokenizer.learn(["red cat"], kind="bpe", vocab_size=300).source
    tree = {"source": plain, "target": tagged}
    written = {side: json.loads(one.to_json()) for side, one in tree.items()}
    text = json.dumps(written | {"separate_vocabularies": True})
    with pytest.raises(InputError, match="differ in the tags of languages"):
        Tokenizer.parse(text)
