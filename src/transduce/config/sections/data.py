"""`data`: the text of a run, and how it is encoded."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from transduce.config.sections.augment import AugmentConfig, Rate
from transduce.config.sections.languages import NamedCorpora, Stages, Weights
from transduce.config.sections.section import Count, Files, Numbers, Section

Subwords = Literal["bpe", "unigram", "wordpiece", "characters", "whitespace"]


def _as_rates(value: Any) -> Any:
    """Take false or null for no noise."""
    return {} if value is None or value is False else value


USUAL_SHARE = 0.1
"""The share of pairs with hints, or planted placeholders, where a setting is just `true`."""


def _as_share(value: Any) -> Any:
    """Take true for the usual share, false or null for none."""
    return {True: USUAL_SHARE, False: 0.0}[value] if isinstance(value, bool) else value or 0.0


class DataConfig(Section):
    """The training and development text, and how it is encoded (§5.1)."""

    task: str = Field(
        default="translation",
        description="what the model is for: translation; generic, any two files; answers, where "
        "only one is right; pronunciation; parsing, from sentences to trees (§6.3); or an "
        "installed task",
    )
    metric: Literal["exact", "wer", "cer", "bleu", "chrf", "rouge"] | None = Field(
        default=None,
        description="by which models are compared: exact answers, errors in words or characters, "
        "BLEU, chrF or ROUGE; if not given, the task's own",
    )
    src: Files = Field(
        default=(),
        description="source text: one or more files; or .tsv, .csv, .jsonl, .tmx, .po or .xlf with "
        "both sides, or trees in .mrg or .ptb",
    )
    tgt: Files = Field(default=(), description="target text, line by line the translation of src")
    corpora: NamedCorpora = Field(
        default={},
        description="instead of src and tgt, corpora by name, each with a file for every language: "
        "{train: {en: train.en, de: train.de, fr: train.fr}}; of a .tsv, .csv, .jsonl or .tmx, the "
        "column, field or language of that name",
    )
    dev_corpora: NamedCorpora = Field(
        default={},
        description="development sets in the same form; if not given, rows are held out",
    )
    directions: Files = Field(
        default=("all",), description="which to train, such as [en-de, de-en]; all: every one"
    )
    without_directions: Files = Field(
        default=(), description="directions that are not trained, to measure them zero-shot"
    )
    tag_on: Literal["source", "target"] = Field(
        default="source",
        description="where the tag of the target language is: before the source, or the first "
        "token of the target",
    )
    temperature: Annotated[float, Field(ge=1, le=1000)] = Field(
        default=1.0,
        description="above 1, small directions are used more often: their shares are in proportion "
        "to size^(1/temperature)",
    )
    mix: Weights = Field(
        default={},
        description="weights by the names of corpora, {europarl: 3, news: 1}; with src and tgt, "
        "the names of files without their endings",
    )
    stages: Stages = Field(
        default=(),
        description="weights that change: [{until: 0.7, mix: {news: 1}}, {mix: {news: 5}}]; "
        "until: a share of the budget, or a step",
    )
    fields: str = Field(
        default="src,tgt",
        description="source and target: columns of .tsv and .csv files by name or number, fields "
        "of .jsonl, languages of .tmx",
    )
    weights: Numbers = Field(
        default=(), description="times each corpus is used per epoch; if not given, once"
    )
    dev_src: Files = Field(
        default=(),
        description="development source: one or more files; if not given, pairs are held out",
    )
    dev_tgt: Files = Field(default=(), description="development target, line by line")
    dev_pairs: Count = Field(
        default=2000, description="pairs to hold out for development, at most 1/20 of the corpus"
    )
    held_out: Files = Field(
        default=(), description="texts whose sentences are never trained on, such as test sets"
    )
    held_out_by: Literal["sentence", "source"] = Field(
        default="sentence",
        description="drop training pairs with a held-out or development sentence on either side; "
        "source: on the source side alone, where many share a target, such as answers of a word",
    )
    lines: Literal["auto", "sentences", "texts"] = Field(
        default="auto",
        description="what a source line is: one sentence, or a text of several; auto: detected",
    )
    clean: bool = Field(default=True, description="drop pairs that are unfit for training")
    subwords: Subwords = Field(
        default="bpe",
        description="subword model (§5.1); characters: each is an entry; whitespace: the text is "
        "already segmented",
    )
    tgt_subwords: Subwords | None = Field(
        default=None,
        description="another one for the target, with shared_vocabulary=false; if not given, as "
        "subwords",
    )
    shared_vocabulary: bool = Field(
        default=True,
        description="one vocabulary and one embedding for source and target (§3.4, §5.1); false, "
        "one each, is a deviation",
    )
    tree_order: Literal["top-down", "in-order"] = Field(
        default="top-down",
        description="parsing: whether a bracket is written before its children or after the first",
    )
    tree_tags: Literal["predicted", "normalised"] = Field(
        default="predicted",
        description="parsing: whether the model writes the tag of each word, or XX for all words",
    )
    punctuation: Literal["auto", "kept", "plain"] = Field(
        default="auto",
        description="plain, a deviation: typographic quotes, apostrophes, dashes, dots and spaces "
        "are replaced by ASCII in source and target; auto: as in data.tokenizer, else kept",
    )
    tokenizer: str | None = Field(
        default=None, description="a tokenizer.json to use instead of learning subwords"
    )
    augment: Annotated[AugmentConfig, BeforeValidator(_as_rates)] = Field(
        default=AugmentConfig(),
        description="a deviation: noise in the training text, drawn anew each epoch; true: usual "
        "rates; or rates by name: " + ", ".join(AugmentConfig.rate_names()),
    )
    subword_dropout: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.0,
        description="a deviation: the chance of each merge of BPE to be left out in a training "
        "sentence, source or target, drawn anew each epoch (Provilkov et al. 2020: 0.1)",
    )
    terms: Annotated[Rate, BeforeValidator(_as_share)] = Field(
        default=0.0,
        description="a deviation: share of training pairs whose sources have hints how terms are "
        f"translated, for glossaries with --soft; true: {USUAL_SHARE}",
    )
    placeholders: Annotated[Rate, BeforeValidator(_as_share)] = Field(
        default=0.0,
        description="a deviation: placeholders (addresses, {name}, 5 km, emoji) are one token "
        "each, and are put back into translations; the share of training pairs in which more are "
        f"planted; true: {USUAL_SHARE}",
    )

    @model_validator(mode="after")
    def _one_form_of_text(self) -> Self:
        for ours, others in ((self.corpora, self.src), (self.dev_corpora, self.dev_src)):
            if ours and others:
                raise ValueError(
                    "data.src and data.corpora are two forms of the training text, and "
                    "data.dev_src and data.dev_corpora of the development text: give one of them"
                )
        if bool(self.dev_corpora) > bool(self.corpora):
            raise ValueError("data.dev_corpora is for runs with data.corpora: give these too")
        if self.weights and (self.mix or self.stages or self.corpora):
            raise ValueError(
                "data.weights is by the order of data.src: with data.corpora, data.mix or "
                "data.stages, name the corpora in data.mix instead"
            )
        if self.mix and self.stages:
            raise ValueError("data.mix and data.stages: write the weights into the stages alone")
        return self

    @property
    def has_text(self) -> bool:
        """Whether training text is named, in either form."""
        return bool(self.src or self.corpora)

    @property
    def kinds(self) -> str:
        """The kinds of vocabulary: of both sides, or `characters → whitespace`."""
        target = self.tgt_subwords or self.subwords
        return target if self.shared_vocabulary else f"{self.subwords} → {target}"
