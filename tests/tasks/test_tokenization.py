"""Scores count words where spaces separate them, else what the script or the language has."""

import pytest

from transduce.errors import InputError
from transduce.tasks import tokenization as module
from transduce.tasks.metrics import bleu
from transduce.tasks.tokenization import choose_tokenization, warnings_of
from transduce.tasks.writing import Writing, writing_of

ENGLISH = ["He read a book in the library yesterday.", "I am a student."]
JAPANESE = ["彼は昨日図書館で本を読んだ。", "私は学生です。"]
JAPANESE_CUT = ["彼 は 昨日 図書館 で 本 を 読ん だ 。", "私 は 学生 です 。"]
KANA = ["ありがとうございます"]
CHINESE = ["他昨天在图书馆看了一本书。", "我是学生。"]
KOREAN = ["그는 어제 도서관에서 책을 읽었다.", "나는 학생이다."]
KOREAN_UNSPACED = ["그는어제도서관에서재미있는책을한권읽었다."]
THAI = ["เมื่อวานนี้เขาอ่านหนังสือในห้องสมุด แล้วกลับบ้าน"]
THAI_CUT = ["เมื่อวาน นี้ เขา อ่าน หนังสือ ใน ห้องสมุด"]
LAO, KHMER, BURMESE = ["ຂ້ອຍເປັນນັກຮຽນ"], ["ខ្ញុំជាសិស្ស"], ["ကျွန်တော်ကျောင်းသားပါ"]
MECAB = {"ja-mecab": "sacrebleu[ja]", "ko-mecab": "sacrebleu[ko]"}


@pytest.fixture(params=["with MeCab", "without MeCab"])
def has_mecab(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether MeCab seems to be installed."""
    installed: bool = request.param == "with MeCab"

    def made(name: str) -> object:
        if name in MECAB and not installed:
            raise InputError(f"the tokenizer {name} cannot be used")
        return None

    monkeypatch.setattr(module, "sacrebleu_bleu", made)
    return installed


@pytest.mark.parametrize(
    ("texts", "writing"),
    [
        (ENGLISH, Writing("spaced", "words")),
        (KOREAN, Writing("spaced", "words")),
        (KOREAN_UNSPACED, Writing("spaced", "none")),
        (JAPANESE, Writing("Japanese", "none")),
        (KANA, Writing("Japanese", "none")),
        (JAPANESE_CUT, Writing("Japanese", "cut")),
        (CHINESE, Writing("Chinese", "none")),
        ([" ".join(text) for text in CHINESE], Writing("Chinese", "cut")),
        (["白日依山尽，黄河入海流。 欲穷千里目，更上一层楼。"], Writing("Chinese", "none")),
        (THAI, Writing("other unspaced", "none")),
        (THAI_CUT, Writing("other unspaced", "cut")),
        (LAO, Writing("other unspaced", "none")),
        (KHMER, Writing("other unspaced", "none")),
        (BURMESE, Writing("other unspaced", "none")),
        ([*ENGLISH * 9, *JAPANESE], Writing("spaced", "words")),
        (["Windows 10のPCでWordを使う方法を教えてください。"], Writing("Japanese", "none")),
        (["", "12 34"], Writing("spaced", "words")),
        ([], Writing("spaced", "words")),
    ],
)
def test_how_a_text_is_written(texts: list[str], writing: Writing) -> None:
    assert writing_of(texts) == writing


@pytest.mark.parametrize(
    ("texts", "bleu_by", "ter_by"),
    [
        (ENGLISH, "13a", "words"),
        (KOREAN, "13a", "words"),
        (KOREAN_UNSPACED, "char", None),
        (JAPANESE, "char", "asian"),
        (CHINESE, "zh", "asian"),
        (THAI, "char", None),
        (BURMESE, "char", None),
    ],
)
@pytest.mark.usefixtures("has_mecab")
def test_without_a_language_the_script_decides_whatever_is_installed(
    texts: list[str], bleu_by: str, ter_by: str | None
) -> None:
    chosen = choose_tokenization(texts)
    assert (chosen.bleu, chosen.ter, chosen.notes) == (bleu_by, ter_by, ())


@pytest.mark.parametrize(
    ("language", "texts", "installed", "missing"),
    [
        ("ja", JAPANESE, "ja-mecab", "char"),
        ("jpn", ["東京都知事選挙"], "ja-mecab", "char"),
        ("ko", KOREAN, "ko-mecab", "13a"),
        ("ko", KOREAN_UNSPACED, "ko-mecab", "char"),
        ("zh", CHINESE, "zh", "zh"),
        ("zh-Hans", CHINESE, "zh", "zh"),
        ("th", THAI, "char", "char"),
        ("my", BURMESE, "char", "char"),
        ("de", ENGLISH, "13a", "13a"),
        ("en", JAPANESE, "char", "char"),
    ],
)
def test_a_language_chooses_its_tokenizer_or_says_what_to_install(
    language: str, texts: list[str], installed: str, missing: str, has_mecab: bool
) -> None:
    chosen = choose_tokenization(texts, language=language)
    assert chosen.bleu == (installed if has_mecab else missing)
    if has_mecab or installed == missing:
        assert chosen.notes == ()
    else:
        [note] = chosen.notes
        assert f"pip install '{MECAB[installed]}'" in note
        counted = "words between spaces" if missing == "13a" else "characters"
        assert f"BLEU counts {counted}, because {installed} is not installed" in note


@pytest.mark.parametrize("language", [None, "ja"])
@pytest.mark.usefixtures("has_mecab")
def test_text_that_was_cut_into_words_is_scored_wherever_it_was_cut(language: str | None) -> None:
    chosen = choose_tokenization(JAPANESE_CUT, language=language)
    assert (chosen.bleu, chosen.ter) == ("char", None)
    [note] = chosen.notes
    assert "--tokenize none counts the words as they are cut" in note
    assert choose_tokenization(JAPANESE_CUT, language=language, tokenizer="none").ter == "words"
    assert bleu(JAPANESE, JAPANESE_CUT, tokenize=chosen.bleu).score == pytest.approx(100)
    assert bleu(JAPANESE, JAPANESE_CUT).score < 1  # by words


def test_a_tokenizer_that_was_asked_for_is_used() -> None:
    assert choose_tokenization(JAPANESE, language="ja", tokenizer="13a").bleu == "13a"
    assert choose_tokenization(JAPANESE, tokenizer="13a").ter == "asian"
    with pytest.raises(InputError, match="no tokenizer named '13b'"):
        choose_tokenization(ENGLISH, tokenizer="13b")


@pytest.mark.parametrize("tokenizer", ["13a", "intl", "none"])
def test_words_where_there_are_none_are_warned_of(tokenizer: str) -> None:
    chosen = choose_tokenization(JAPANESE, tokenizer=tokenizer)
    [warning] = warnings_of(chosen, JAPANESE, {"a.ja": JAPANESE, "b.ja": JAPANESE_CUT})
    assert f"the tokenizer {tokenizer} says nothing here" in warning
    assert warning.endswith("there are none in the references and a.ja; use --tokenize char")


def test_there_is_no_warning_where_words_can_be_counted() -> None:
    words = choose_tokenization(JAPANESE_CUT, tokenizer="none")
    assert warnings_of(words, JAPANESE_CUT, {"a": JAPANESE_CUT}) == ()
    [warning] = warnings_of(words, JAPANESE_CUT, {"a": JAPANESE})
    assert "there are none in a;" in warning
    characters = choose_tokenization(JAPANESE)
    assert warnings_of(characters, JAPANESE, {"a": JAPANESE}) == ()
    english = choose_tokenization(ENGLISH)
    assert warnings_of(english, ENGLISH, {"bad": ["x" * 99] * 2}) == ()
