"""The settings. Defaults are the paper's base model; presets and files state only what differs.

A setting that was not given may follow from others (`d_k` from `d_model` and `h`). Pydantic
remembers which were given, so a copy with changes works those out again.
"""

import difflib
import reprlib
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from transduce.errors import ConfigError

Tree = dict[str, Any]
"""Settings as plain nested mappings, the way YAML gives them."""


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


Count = Annotated[int, Field(ge=1, le=1_000_000)]
Share = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0, lt=1e12)]
Long = Annotated[int, Field(ge=1, le=10**12)]


def _several(value: Any) -> Any:
    """Take one value for a list of one, null for an empty one, and YAML's lists for our tuples."""
    if value is None:
        return ()
    return tuple(value) if isinstance(value, list | tuple) else (value,)


Files = Annotated[tuple[str, ...], BeforeValidator(_several)]
Numbers = Annotated[tuple[float, ...], BeforeValidator(_several)]


def _per_head(section: dict[str, Any]) -> int:
    width: int = section["d_model"] // section["h"]
    return width


class ModelConfig(_Section):
    """The model of §3; with the training section, the columns of Table 3."""

    vocab_size: int = Field(
        default=37_000,
        ge=4,
        le=10_000_000,
        description="vocabulary entries, shared by source and target (§3.4)",
    )
    n_layers: Count = Field(
        default=6, description="N: layers of the encoder; as many again of the decoder (§3.1)"
    )
    d_model: Count = Field(default=512, description="width of every layer's output (§3.1)")
    d_ff: Count = Field(default=2048, description="inner width of the feed-forward network (§3.3)")
    h: Count = Field(default=8, description="attention heads (§3.2.2)")
    d_k: Count = Field(
        default_factory=_per_head,
        description="width of a head's queries and keys; if not given, d_model / h (§3.2.2)",
    )
    d_v: Count = Field(
        default_factory=_per_head,
        description="width of a head's values; if not given, d_model / h (§3.2.2)",
    )
    p_drop: Share = Field(
        default=0.1, description="P_drop: dropout on sub-layer outputs and embeddings (§5.4)"
    )
    p_drop_attention: Share = Field(
        default=0.0, description="dropout on attention weights; a deviation above 0"
    )
    p_drop_ff: Share = Field(
        default=0.0, description="dropout after the feed-forward ReLU; a deviation above 0"
    )
    attention_bias: bool = Field(
        default=False, description="biases in the attention projections; a deviation if true"
    )
    output_bias: bool = Field(
        default=False, description="a bias for each vocabulary entry's score; a deviation if true"
    )
    activation: Literal["relu", "swish"] = Field(
        default="relu",
        description="within the feed-forward network (eq. 2); swish, Marian's, is a deviation",
    )
    norm: Literal["post", "pre"] = Field(
        default="post",
        description="layer norm after the residual sum (§3.1); pre, before it, is a deviation",
    )
    norm_epsilon: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=1e-6, description="added to the variance in layer norm; Marian's models have 1e-5"
    )
    positions: Literal["sinusoidal", "learned"] = Field(
        default="sinusoidal", description="position encodings (§3.5; Table 3 row E)"
    )
    max_positions: Count = Field(
        default=1024,
        description="longest sequence in tokens; sinusoidal models may change it after training",
    )

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> Self:
        following = {"d_k", "d_v"} - self.model_fields_set
        if following and self.d_model % self.h:
            divisors = ", ".join(str(n) for n in range(1, 65) if self.d_model % n == 0)
            raise ValueError(
                f"model.h={self.h} does not divide model.d_model={self.d_model}; "
                f"use one of {divisors}, or give model.d_k and model.d_v"
            )
        return self

    @model_validator(mode="after")
    def _sines_and_cosines_pair_up(self) -> Self:
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise ValueError(
                f"model.d_model={self.d_model} is odd, but sinusoidal positions come in pairs; "
                "use an even width or model.positions=learned"
            )
        return self


class DataConfig(_Section):
    """What is learnt from, and how it becomes numbers (§5.1)."""

    src: Files = Field(
        default=(),
        description="source text, one file or several; or .tsv or .jsonl with both sides",
    )
    tgt: Files = Field(default=(), description="target text, line by line its translation")
    fields: str = Field(default="src,tgt", description="names of the two fields of a .jsonl")
    weights: Numbers = Field(
        default=(), description="how often an epoch takes each corpus; if not given, once"
    )
    dev_src: Files = Field(
        default=(),
        description="development source, one file or several; if not given, pairs are held out",
    )
    dev_tgt: Files = Field(default=(), description="development target")
    dev_pairs: Count = Field(
        default=2000, description="pairs to hold out; never more than a twentieth of the corpus"
    )
    held_out: Files = Field(
        default=(), description="texts whose sentences must not be learnt from, such as test sets"
    )
    lines: Literal["auto", "sentences", "texts"] = Field(
        default="auto",
        description="what a source line is: one sentence, or a text of several; auto: as they are",
    )
    clean: bool = Field(default=True, description="drop pairs that are unfit to learn from")
    subwords: Literal["bpe", "unigram", "wordpiece", "whitespace"] = Field(
        default="bpe", description="how words are cut (§5.1); whitespace for text already cut"
    )
    punctuation: Literal["auto", "kept", "plain"] = Field(
        default="auto",
        description="plain, a deviation: typographic quotes, apostrophes, dashes, dots and spaces "
        "are those of a keyboard to the model, in what it reads and in what it writes; auto: as "
        "data.tokenizer has it, and kept without one",
    )
    tokenizer: str | None = Field(
        default=None, description="a tokenizer.json to use instead of learning one"
    )


class TrainingConfig(_Section):
    """The training of §5: batches, optimiser, schedule, regularisation, and when it ends."""

    batch_tokens: Long = Field(
        default=25_000, description="tokens a step on either side, of all processes together (§5.1)"
    )
    accumulate: Count = Field(
        default=1, description="batches a step: each has batch_tokens / accumulate tokens"
    )
    schedule: Literal["paper", "linear"] = Field(
        default="paper",
        description="learning rate after warm-up: by step^-0.5 (§5.3); linear, to 0 at the end of "
        "the budget, is a deviation",
    )
    warmup_steps: Long = Field(
        default=4000, description="steps over which the learning rate rises (§5.3)"
    )
    learning_rate: Positive | None = Field(
        default=None, description="its peak; if not given, (d_model · warmup_steps)^-0.5 (§5.3)"
    )
    beta_1: Share = Field(default=0.9, description="β1 of Adam (§5.3)")
    beta_2: Share = Field(default=0.98, description="β2 of Adam (§5.3)")
    epsilon: Positive = Field(default=1e-9, description="ε of Adam (§5.3)")
    clip_norm: Positive | None = Field(
        default=None, description="longest gradient; longer ones are scaled down; a deviation"
    )
    eps_ls: Share = Field(default=0.1, description="ε_ls: label smoothing (§5.4)")
    steps: Long = Field(default=100_000, description="the run ends after so many steps (§5.2)")
    epochs: Positive | None = Field(
        default=None, description="or after so many times through the data"
    )
    minutes: Positive | None = Field(default=None, description="or after so much time")
    patience: Count | None = Field(
        default=None, description="or when so many scorings in a row have not improved the dev loss"
    )


class RunConfig(_Section):
    """How the run goes about it: on what, how carefully, and what it keeps."""

    init: str | None = Field(
        default=None, description="a model folder to start from, with its shape and vocabulary"
    )
    seed: int = Field(default=1, ge=0, le=2**63 - 1, description="decides all that is random")
    device: str = Field(
        default="auto",
        pattern=r"^(auto|cpu|mps|cuda(:\d{1,3})?)$",
        description="auto: a GPU if there is one",
    )
    precision: Literal["auto", "float32", "bf16"] = Field(
        default="auto", description="auto: bf16 on GPUs that have it; weights stay in float32"
    )
    compile: bool = Field(
        default=True, description="on a CUDA device, compile and record what a step does"
    )
    checkpoint_steps: Long = Field(
        default=1000, description="score and write a checkpoint every so many steps (§6.1)"
    )
    save_minutes: Positive = Field(
        default=10.0, description="and write one, to go on from, at least so often"
    )
    average: Count = Field(
        default=5, description="average the weights of the last so many checkpoints (§6.1)"
    )
    keep_best: Count = Field(default=1, description="also keep the best so many checkpoints")
    choose_by: Literal["loss", "bleu"] = Field(
        default="loss",
        description="which weights a run gives at its end: those with the lowest dev loss, or the "
        "highest BLEU on the whole development set",
    )
    ema_decay: Share = Field(
        default=0.0, description="keep a moving average of the weights; a deviation above 0"
    )
    bleu_sentences: int = Field(
        default=500,
        ge=0,
        le=10**6,
        description="dev sentences to translate at a scoring, from all of the set",
    )
    timeout_s: Positive = Field(
        default=1800.0, description="how long processes wait for one of them before giving up"
    )


class Config(_Section):
    """Everything that decides what a run computes."""

    model: ModelConfig = Field(
        default_factory=lambda: ModelConfig(), description="the architecture (§3)"
    )
    data: DataConfig = Field(
        default_factory=lambda: DataConfig(), description="what is learnt from (§5.1)"
    )
    training: TrainingConfig = Field(
        default_factory=lambda: TrainingConfig(), description="how it is trained (§5)"
    )
    run: RunConfig = Field(
        default_factory=lambda: RunConfig(), description="on what it runs and what it keeps"
    )

    @classmethod
    def from_tree(cls, tree: Any) -> Self:
        """Validate plain nested mappings; whatever is wrong becomes one ConfigError of one line."""
        try:
            return cls.model_validate(tree)
        except ValidationError as invalid:
            raise ConfigError("; ".join(_complaints(invalid))) from invalid

    def with_changes(self, changes: Tree) -> Self:
        """Copy with changes; settings that nobody gave are worked out again."""
        return self.from_tree(merge(self.model_dump(exclude_unset=True), changes))


def merge(tree: Tree, changes: Tree) -> Tree:
    """Return the tree with the leaves of `changes` laid over it."""
    merged = dict(tree)
    for key, value in changes.items():
        below = merged.get(key)
        merged[key] = (
            merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
        )
    return merged


def setting_names() -> list[str]:
    """Every setting as it is written after `--set`: `model.d_model`, …"""
    return [
        f"{section}.{name}"
        for section, field in Config.model_fields.items()
        for name in _section_class(field.annotation).model_fields
    ]


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ` (did you mean …?)` for the known name whose last part is closest, or nothing."""
    by_last_part = {candidate.rpartition(".")[2]: candidate for candidate in known}
    close = difflib.get_close_matches(name.rpartition(".")[2], by_last_part, n=1)
    return f" (did you mean {by_last_part[close[0]]}?)" if close else ""


def _section_class(annotation: Any) -> type[_Section]:
    assert isinstance(annotation, type), annotation
    assert issubclass(annotation, _Section), annotation
    return annotation


def _complaints(invalid: ValidationError) -> Iterator[str]:
    for error in invalid.errors(include_url=False):
        name = ".".join(str(part) for part in error["loc"])
        found = reprlib.repr(error["input"])
        match error["type"]:
            case "default_factory_not_called":
                pass  # follows from a setting that is complained about already
            case "extra_forbidden":
                known = [*Config.model_fields, *setting_names()]
                yield f"unknown setting {name}{nearest(name, known)}"
            case "value_error":
                yield str(error["ctx"]["error"])
            case "model_type":
                section = name or "the settings"
                yield f"{section} must be names with values below them: found {found}"
            case _:
                rule = error["msg"].replace("Input should be", "must be")
                yield f"{name}={found}: {rule}"
