"""The settings. Defaults are the paper's base model; presets and files state only what differs.

Each kind of model has its own class for the model section (`config.kinds`).

A setting that is not given may follow from others (`d_k` from `d_model` and `h`). Pydantic
remembers which were given, so a copy with changes computes the others again.
"""

import reprlib
from collections.abc import Iterator, Sequence
from itertools import islice
from textwrap import shorten
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    SerializeAsAny,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo

from transduce.config.augment import AugmentConfig, Rate
from transduce.config.kinds import DEFAULT_KIND, find_kind, kind_names
from transduce.config.languages import NamedCorpora, Stages, Weights
from transduce.config.renamed import OTHER_NAMES, with_current_names
from transduce.config.rules import broken_rule
from transduce.config.section import Count as Count  # the names of types are this module's too
from transduce.config.section import Files, Numbers
from transduce.config.section import LargeCount as LargeCount
from transduce.config.section import Names as Names
from transduce.config.section import Positive as Positive
from transduce.config.section import Probability as Probability
from transduce.config.section import Section as Section
from transduce.errors import ConfigError, did_you_mean

MAX_COMPLAINTS = 20
"""A message names at most this many mistakes."""

Tree = dict[str, Any]
"""Settings as plain nested mappings, as YAML is read."""


NO_LIMIT = 10**9
"""More steps than any run makes."""


class ModelConfig(Section):
    """The settings of every architecture; each kind of model adds its own in a subclass."""

    separate_vocabularies: ClassVar[bool] = False
    """Whether its models have an embedding of their own for the source if src_vocab_size is set."""

    kind: str = Field(
        default="transformer",
        description="the architecture: transformer (§3) or an installed kind",
    )
    vocab_size: int = Field(
        default=37_000,
        ge=4,
        le=10_000_000,
        description="vocabulary entries, shared by source and target (§3.4); of the target, with "
        "data.shared_vocabulary=false",
    )
    src_vocab_size: int | None = Field(
        default=None,
        ge=4,
        le=10_000_000,
        description="vocabulary entries of the source, with data.shared_vocabulary=false; if not "
        "given, vocab_size",
    )
    d_model: Count = Field(default=512, description="width of every layer's output (§3.1)")
    p_drop: Probability = Field(
        default=0.1, description="P_drop: dropout on sub-layer outputs and embeddings (§5.4)"
    )

    @model_validator(mode="after")
    def _mark_kind_as_given(self) -> Self:
        self.model_fields_set.add("kind")  # a copy with changes must know which class to build
        return self

    @property
    def max_length(self) -> int | None:
        """The longest source or target in tokens, EOS included; None: no limit."""
        return None

    @property
    def needs_links(self) -> bool:
        """Whether training needs to know which tokens translate each other."""
        return False

    def fitted_to(self, vocabulary: Sequence[str]) -> Tree:
        """Return the settings that follow from a vocabulary, given as the texts of its entries."""
        return {"vocab_size": len(vocabulary)}

    def sizes(self) -> str:
        """Return the size of the vocabulary, or those of source and target: `31 → 43`."""
        target = f"{self.vocab_size:,}"
        return target if self.src_vocab_size is None else f"{self.src_vocab_size:,} → {target}"

    def reference_warmup(self) -> int:
        """Return the warm-up whose peak in §5.3 suits this model, however long its own is."""
        return 4_000

    def summary(self) -> str:
        """Describe the architecture and its sizes in one line."""
        return f"{self.kind}, d_model {self.d_model}, dropout {self.p_drop}"

    def columns(self) -> dict[str, str]:
        """Return the columns of the table of presets, by heading."""
        return {
            name: str(getattr(self, name))
            for name in type(self).model_fields
            if name not in ("kind", "vocab_size", "src_vocab_size")
        }

    def free_settings(self) -> frozenset[str]:
        """Return the names of the settings that fine-tuning may change."""
        return frozenset({"p_drop"})


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


Schedule = Literal["paper", "linear", "constant"]


def _schedule(section: dict[str, Any]) -> Schedule:
    return "constant" if section.get("optimiser") == "schedule_free" else "paper"


class TrainingConfig(Section):
    """The training of §5: batches, optimiser, schedule, regularisation, and when to stop."""

    batch_tokens: LargeCount = Field(
        default=25_000, description="tokens per step on each side, over all processes (§5.1)"
    )
    accumulate: Count = Field(
        default=1, description="batches per step, each of batch_tokens / accumulate tokens"
    )
    optimiser: Literal["adam", "muon", "schedule_free"] = Field(
        default="adam",
        description="adam (§5.3); deviations: muon, orthogonal updates of matrices (Jordan et al. "
        "2024); schedule_free, Adam that scores an average of its weights (Defazio et al. 2024)",
    )
    schedule: Schedule = Field(
        default_factory=_schedule,
        description="learning rate after warm-up: paper, as step^-0.5 (§5.3); deviations: linear, "
        "down to 0 at the end of the budget; constant, which schedule_free needs",
    )
    warmup_steps: LargeCount = Field(
        default=4000, description="steps over which the learning rate rises (§5.3)"
    )
    learning_rate: Positive | None = Field(
        default=None,
        description="peak of the rate; if not given, (d_model · warmup_steps)^-0.5 (§5.3)",
    )
    beta_1: Probability = Field(default=0.9, description="Adam's β1 (§5.3)")
    beta_2: Probability = Field(default=0.98, description="Adam's β2 (§5.3)")
    epsilon: Positive = Field(default=1e-9, description="Adam's ε (§5.3)")
    clip_norm: Positive | None = Field(
        default=None, description="maximum gradient norm; larger ones are scaled down; a deviation"
    )
    eps_ls: Probability = Field(default=0.1, description="ε_ls: label smoothing (§5.4)")
    steps: LargeCount = Field(default=100_000, description="maximum steps (§5.2)")
    epochs: Positive | None = Field(default=None, description="maximum epochs")
    minutes: Positive | None = Field(default=None, description="maximum minutes of training")
    patience: Count | None = Field(
        default=None,
        description="stop after this many scores in a row without improvement (run.choose_by)",
    )

    @model_validator(mode="after")
    def _free_of_schedules(self) -> Self:
        if self.optimiser == "schedule_free" and self.schedule != "constant":
            raise ValueError(
                f"training.schedule={self.schedule} lowers the rate, but the average that "
                "training.optimiser=schedule_free keeps takes its place; leave it out"
            )
        return self


class RunConfig(Section):
    """How the run is carried out: device, checkpoints, scores."""

    init: str | None = Field(
        default=None, description="model folder to fine-tune: its weights, sizes and vocabulary"
    )
    seed: int = Field(default=1, ge=0, le=2**63 - 1, description="random seed")
    device: str = Field(
        default="auto",
        pattern=r"^(auto|cpu|mps|cuda(:\d{1,3})?)$",
        description="cpu, cuda, cuda:N or mps; auto: a GPU if there is one",
    )
    precision: Literal["auto", "float32", "bf16"] = Field(
        default="auto",
        description="of products; auto: bf16 on GPUs that support it; weights are float32",
    )
    compile: bool = Field(
        default=True, description="compile the layers and record the steps, on a CUDA device"
    )
    checkpoint_steps: LargeCount = Field(
        default=1000, description="steps between checkpoints, which are scored (§6.1)"
    )
    first_score_steps: Count | None = Field(
        default=None,
        description="also score at this step and, doubling, up to checkpoint_steps",
    )
    scoring_share: Annotated[float, Field(gt=0, le=1)] = Field(
        default=1.0, description="the most of a budget in minutes that scoring may take"
    )
    save_minutes: Positive = Field(default=10.0, description="maximum minutes between checkpoints")
    average: Count = Field(default=5, description="number of last checkpoints to average (§6.1)")
    keep_best: Count = Field(default=1, description="number of best checkpoints to keep too")
    choose_by: Literal["loss", "metric"] = Field(
        default="loss",
        description="how the best weights are chosen, for patience, keep_best and at the end: by "
        "dev loss, or by the task's metric (BLEU for translation), at the end on the whole dev set",
    )
    ema_decay: Probability = Field(
        default=0.0, description="decay of a moving average of the weights; a deviation above 0"
    )
    score_sentences: int = Field(
        default=500,
        ge=0,
        le=10**6,
        description="dev sentences to translate for the task's metric at each score; 0: none",
    )
    beam: Count | None = Field(
        default=None,
        description="hypotheses kept when the model is used and no beam is given; 1 is greedy "
        "search; if not given, as the task wants it",
    )
    timeout_s: Positive = Field(
        default=1800.0, description="seconds that processes wait for each other before giving up"
    )


class Config(Section):
    """Everything that decides what a run computes."""

    model: SerializeAsAny[ModelConfig] = Field(
        default_factory=lambda: find_kind(DEFAULT_KIND).config(),
        description="the architecture (§3)",
    )
    data: DataConfig = Field(
        default_factory=lambda: DataConfig(), description="the text and how it is encoded (§5.1)"
    )
    training: TrainingConfig = Field(
        default_factory=lambda: TrainingConfig(), description="optimisation (§5)"
    )
    run: RunConfig = Field(
        default_factory=lambda: RunConfig(), description="device, checkpoints and scores"
    )

    @field_validator("model", mode="before")
    @classmethod
    def _validate_by_kind(cls, section: Any) -> Any:
        if not isinstance(section, dict):
            return section
        kind = section.get("kind", DEFAULT_KIND)
        if not isinstance(kind, str):
            raise ValueError(f"model.kind={kind!r}: must be the name of a kind of model")
        return find_kind(kind).config.model_validate(section)

    @model_validator(mode="after")
    def _one_average_is_kept(self) -> Self:
        if self.training.optimiser == "schedule_free" and self.run.ema_decay > 0:
            raise ValueError(
                f"run.ema_decay={self.run.ema_decay} averages the weights, which "
                "training.optimiser=schedule_free does itself; set it to 0"
            )
        return self

    @model_validator(mode="after")
    def _terms_can_be_written_in_the_source(self) -> Self:
        if self.data.terms and not self.data.shared_vocabulary:
            raise ValueError(
                "data.terms writes translations into sources: it needs data.shared_vocabulary=true"
            )
        if self.data.terms and self.data.subwords == "whitespace":
            raise ValueError(
                "data.terms: data.subwords=whitespace does not keep the spaces of the text; use "
                "bpe, unigram, wordpiece or characters"
            )
        return self

    @model_validator(mode="after")
    def _placeholders_are_tokens(self) -> Self:
        if self.data.placeholders and "whitespace" in (self.data.subwords, self.data.tgt_subwords):
            raise ValueError(
                "data.placeholders: data.subwords=whitespace does not keep the spaces of the text; "
                "use bpe, unigram, wordpiece or characters"
            )
        if self.data.placeholders and (self.data.corpora or self.data.subword_dropout):
            raise ValueError(
                "data.placeholders: a pair of one direction has the same on both sides, as one "
                "token each; leave out data.corpora and data.subword_dropout, or data.placeholders"
            )
        return self

    @model_validator(mode="after")
    def _sides_have_vocabularies_of_their_own(self) -> Self:
        if not self.data.shared_vocabulary:
            if not self.model.separate_vocabularies:
                raise ValueError(
                    f"data.shared_vocabulary=false: a model of the kind {self.model.kind} has one "
                    "vocabulary for source and target"
                )
            return self
        for name, value in (
            ("data.tgt_subwords", self.data.tgt_subwords),
            ("model.src_vocab_size", self.model.src_vocab_size),
        ):
            if value is not None:
                raise ValueError(
                    f"{name}={value} is for a vocabulary of each side: set "
                    "data.shared_vocabulary=false too, or leave it out"
                )
        return self

    @classmethod
    def from_tree(cls, tree: Any) -> Self:
        """Validate nested mappings; all that is wrong is reported in one line, as a ConfigError."""
        tree = with_current_names(tree)
        try:
            return cls.model_validate(tree)
        except ValidationError as invalid:
            found = list(islice(_complaints(invalid, _model_class(tree)), MAX_COMPLAINTS + 1))
            shown = [shorten(complaint, 500) for complaint in found[:MAX_COMPLAINTS]]
            more = ["and more"] if len(found) > MAX_COMPLAINTS else []
            raise ConfigError("; ".join(shown + more)) from invalid

    def with_changes(self, changes: Tree) -> Self:
        """Copy with changes; settings that were not given are computed again."""
        stated = self.model_dump(exclude_unset=True)
        return self.from_tree(merge(stated, with_current_names(changes)))


def _model_class(tree: Any) -> type[ModelConfig]:
    """Return the class of the model section of a tree that may be invalid."""
    section = tree.get("model") if isinstance(tree, dict) else None
    kind = section.get("kind") if isinstance(section, dict) else None
    return find_kind(kind if kind in kind_names() else DEFAULT_KIND).config


def merge(tree: Tree, changes: Tree) -> Tree:
    """Return the tree with the leaves that `changes` has replaced or added."""
    merged = dict(tree)
    for key, value in changes.items():
        below = merged.get(key)
        merged[key] = (
            merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
        )
    return merged


def setting_names(model: type[ModelConfig]) -> list[str]:
    """Return every setting as written after `--set`, for one kind of model: `model.d_model`, …"""
    return [
        f"{section}.{name}"
        for section, field in Config.model_fields.items()
        for name in (model if section == "model" else _section_class(field)).model_fields
    ]


def _section_class(field: FieldInfo) -> type[Section]:
    annotation = field.annotation
    assert isinstance(annotation, type), annotation
    assert issubclass(annotation, Section), annotation
    return annotation


def _complaints(invalid: ValidationError, model: type[ModelConfig]) -> Iterator[str]:
    for error in invalid.errors(include_url=False):
        name = ".".join(part for part in error["loc"] if isinstance(part, str))
        found = reprlib.repr(error["input"])
        match error["type"]:
            case "default_factory_not_called":
                pass  # it follows from a setting that has its own complaint
            case "extra_forbidden":
                yield from _unknown(name, error["input"], setting_names(model))
            case "value_error":
                yield str(error["ctx"]["error"])
            case "model_type":
                section = name or "the settings"
                yield f"{section} must be a mapping of names to values: found {found}"
            case _:
                yield f"{name}={found}: {broken_rule(error, description=_description(name, model))}"


def _unknown(name: str, value: Any, known: list[str]) -> Iterator[str]:
    """Say that a setting is unknown, or all settings of a section, and which may be meant."""
    is_section = "." not in name and isinstance(value, dict) and value
    if is_section and not did_you_mean(name, Config.model_fields):
        for below in value:
            yield from _unknown(f"{name}.{below}", None, known)
        return
    meant = OTHER_NAMES.get(name.rpartition(".")[2])
    if meant in known:
        hint = f" (did you mean {meant}?)"
    else:
        rates = (f"data.augment.{rate}" for rate in AugmentConfig.model_fields)
        hint = did_you_mean(name, [*Config.model_fields, *known, *rates])
    yield f"unknown setting {name}{hint or '; transduce describe PRESET --yaml lists all'}"


def _description(name: str, model: type[ModelConfig]) -> str:
    """Return what a setting means, or '' if there is none of this name."""
    section, _, setting = name.partition(".")
    if section not in Config.model_fields:
        return ""
    kind = model if section == "model" else _section_class(Config.model_fields[section])
    field = kind.model_fields.get(setting)
    return (field.description or "") if field else ""
