"""The Transformer's settings, the columns of Table 3."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from transduce.config.schema import Count, ModelConfig, Names, Probability
from transduce.models.transformer.mixer_rules import (
    CrossMixer,
    broken_mixer_rule,
    mixers_of_layers,
)

Depth = Annotated[int, Field(ge=1, le=1_000)]
"""Layers of a stack, bounded so that a hostile settings file cannot ask for millions."""

SHALLOW = 3
"""Layers of a stack that learns with a short warm-up."""


def _n_layers(section: dict[str, Any]) -> int:
    n_layers: int = section["n_layers"]
    return n_layers


def _all_heads(section: dict[str, Any]) -> int:
    h: int = section["h"]
    return h


def _per_head(section: dict[str, Any]) -> int:
    width: int = section["d_model"] // section["h"]
    return width


def _last_but_one(section: dict[str, Any]) -> int:
    n_layers: int = section["n_decoder_layers"]
    return max(1, n_layers - 1)


def _max_distance(section: dict[str, Any]) -> int:
    return 128 if section["positions"] == "t5" else 16


class TransformerConfig(ModelConfig):
    """The model of §3; with the training section, the columns of Table 3."""

    separate_vocabularies: ClassVar[bool] = True

    kind: Literal["transformer"] = Field(
        default="transformer", description="the architecture: transformer (§3)"
    )
    n_layers: Depth = Field(
        default=6, description="N: encoder layers, and as many decoder layers (§3.1)"
    )
    n_encoder_layers: Depth = Field(
        default_factory=_n_layers, description="encoder layers; if not given, n_layers"
    )
    n_decoder_layers: Depth = Field(
        default_factory=_n_layers, description="decoder layers; if not given, n_layers"
    )
    d_ff: Count = Field(default=2048, description="inner width of the feed-forward network (§3.3)")
    h: Count = Field(default=8, description="attention heads (§3.2.2)")
    kv_heads: Count = Field(
        default_factory=_all_heads,
        description="heads of keys and values, which groups of the h heads share: fewer, or 1, are "
        "a deviation (Shazeer 2019; Ainslie et al. 2023); if not given, h",
    )
    d_k: Count = Field(
        default_factory=_per_head,
        description="width of a head's queries and keys; if not given, d_model / h (§3.2.2)",
    )
    d_v: Count = Field(
        default_factory=_per_head,
        description="width of a head's values; if not given, d_model / h (§3.2.2)",
    )
    attention_score: Literal["scaled", "unscaled", "additive"] = Field(
        default="scaled",
        description="how query and key are compared (§3.2.1): scaled, q·k / sqrt(d_k); deviations: "
        "unscaled, q·k; additive, v·tanh(q + k), as Bahdanau et al. (2015)",
    )
    p_drop_attention: Probability = Field(
        default=0.0, description="dropout on attention weights; a deviation above 0"
    )
    p_drop_ff: Probability = Field(
        default=0.0, description="dropout after the feed-forward ReLU; a deviation above 0"
    )
    attention_bias: bool = Field(
        default=False, description="biases in the attention projections; a deviation if true"
    )
    tied_output: bool = Field(
        default=True,
        description="the output has the matrix of the embeddings (§3.4); a deviation if false",
    )
    output_bias: bool = Field(
        default=False, description="a bias in the output projection; a deviation if true"
    )
    activation: Literal["relu", "swish", "relu2", "swiglu", "geglu"] = Field(
        default="relu",
        description="of the feed-forward network (eq. 2); deviations: swish, as in Marian; relu2, "
        "squared; swiglu and geglu, with a gate and a third matrix (Shazeer 2020)",
    )
    norm: Literal["post", "pre"] = Field(
        default="post",
        description="layer norm after the residual sum (§3.1); pre, before it, is a deviation",
    )
    norm_kind: Literal["layer", "rms"] = Field(
        default="layer",
        description="layer norm (§3.1); rms, without centring and bias, is a deviation",
    )
    qk_norm: bool = Field(
        default=False,
        description="an RMS norm on the queries and keys of each head; a deviation if true",
    )
    norm_epsilon: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=1e-6, description="ε of layer norm; models from Marian have 1e-5"
    )
    positions: Literal["sinusoidal", "learned", "relative", "t5", "alibi", "rotary", "none"] = (
        Field(
            default="sinusoidal",
            description="sinusoidal (§3.5) or learned (Table 3 row E), added to the embeddings; "
            "deviations, in self-attention: relative (Shaw et al. 2018), t5, alibi, rotary, none",
        )
    )
    max_distance: Count = Field(
        default_factory=_max_distance,
        description="the farthest distance that relative and t5 positions tell from others; if not "
        "given, 16 and 128",
    )
    max_positions: Count = Field(
        default=1024,
        description="longest sequence in tokens; it can be raised after training, unless positions "
        "are learned or a mixer is linformer",
    )
    encoder_mixers: Names = Field(
        default=("attention",),
        description="what mixes positions in the encoder: attention (§3.2), window (§4), "
        "longformer, linformer, performer, s4 or mamba; or a list by layer, repeated if it is "
        "shorter than the stack; all but attention are deviations",
    )
    decoder_mixers: Names = Field(
        default=("attention",),
        description="the same in the decoder; not longformer and linformer, which have no causal "
        "form",
    )
    cross_mixer: CrossMixer = Field(
        default="attention",
        description="how the decoder attends to the source: attention (§3.2.3), or linformer",
    )
    window: Annotated[int, Field(ge=2, le=1_000_000)] = Field(
        default=256, description="r: keys that a position sees with window and longformer (§4)"
    )
    global_tokens: Count = Field(
        default=8, description="first tokens of a source that see all and are seen, in longformer"
    )
    low_rank: Count = Field(
        default=256, description="sums of keys, and of values, that linformer attends to"
    )
    random_features: Annotated[int, Field(ge=1, le=65_536)] = Field(
        default=256, description="random features of each head of performer"
    )
    d_state: Count = Field(
        default=16, description="numbers that s4 and mamba keep for each channel"
    )
    experts: Annotated[int, Field(ge=0, le=10_000)] = Field(
        default=0,
        description="feed-forward networks of d_ff in a layer, of which each token uses some "
        "(Shazeer et al. 2017), a deviation above 0; 0: one, used by all (§3.3)",
    )
    experts_per_token: Count = Field(
        default=2, description="experts that each token goes through (Shazeer et al. 2017, eq. 5)"
    )
    experts_every: Count = Field(
        default=1, description="which layers have experts: 1, all; 2, every second one; and so on"
    )
    expert_capacity: Annotated[float, Field(gt=0, le=1_000)] = Field(
        default=1.25,
        description="tokens that an expert takes in training, as a multiple of its fair share; the "
        "others skip it (Lepikhin et al. 2021); in inference there is no limit",
    )
    balance_weight: Annotated[float, Field(ge=0, le=1_000)] = Field(
        default=0.01,
        description="weight in the loss of the squared variation of the experts' importance and "
        "load (Shazeer et al. 2017, §4 and appendix A)",
    )
    guided_alignment: Annotated[float, Field(ge=0, le=1_000)] = Field(
        default=0.0,
        description="weight in the loss of guided alignment (Garg et al. 2019), a deviation above "
        "0: a head learns to attend to the source token that a statistical aligner says",
    )
    alignment_layer: Depth = Field(
        default_factory=_last_but_one,
        description="the decoder layer, from 1, whose first head guided_alignment trains; if not "
        "given, the last but one",
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
    def _heads_are_shared_evenly(self) -> Self:
        if self.h % self.kv_heads:
            divisors = ", ".join(str(n) for n in range(1, self.h + 1) if self.h % n == 0)
            raise ValueError(
                f"model.kv_heads={self.kv_heads} does not divide model.h={self.h}; use one of "
                f"{divisors}"
            )
        return self

    @model_validator(mode="after")
    def _mixers_fit(self) -> Self:
        broken = broken_mixer_rule(self)
        if broken is not None:
            raise ValueError(broken)
        return self

    @model_validator(mode="after")
    def _rotations_turn_pairs(self) -> Self:
        if self.positions == "rotary" and self.d_k % 2:
            raise ValueError(
                f"model.d_k={self.d_k} is odd, but rotary positions turn pairs of components; use "
                "an even width or other positions"
            )
        return self

    @model_validator(mode="after")
    def _experts_have_no_gate(self) -> Self:
        if self.experts and self.activation in ("swiglu", "geglu"):
            raise ValueError(
                f"model.activation={self.activation} has a gate, but experts (model.experts="
                f"{self.experts}) have none; use relu, relu2 or swish"
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

    @model_validator(mode="after")
    def _a_head_can_be_guided(self) -> Self:
        if not self.guided_alignment:
            return self
        if self.cross_mixer != "attention" or self.attention_score == "additive":
            raise ValueError(
                f"model.guided_alignment={self.guided_alignment} trains the weights of a head, "
                "which model.cross_mixer=linformer and model.attention_score=additive do not "
                "have, or not as a product; leave one of them out"
            )
        if self.alignment_layer > self.n_decoder_layers:
            raise ValueError(
                f"model.alignment_layer={self.alignment_layer}: the decoder has layers 1 to "
                f"{self.n_decoder_layers}"
            )
        return self

    @model_validator(mode="after")
    def _there_are_enough_experts(self) -> Self:
        if 0 < self.experts < self.experts_per_token:
            raise ValueError(
                f"model.experts_per_token={self.experts_per_token} is more than "
                f"model.experts={self.experts}; lower it, or set model.experts=0 for none"
            )
        return self

    @property
    def needs_links(self) -> bool:
        """Whether training needs to know which tokens translate each other."""
        return self.guided_alignment > 0

    @property
    def max_length(self) -> int:
        """The longest source or target in tokens, EOS included."""
        return self.max_positions

    def reference_warmup(self) -> int:
        """Return the warm-up whose peak in §5.3 suits this depth: the paper's for 6 layers."""
        deepest = max(self.n_encoder_layers, self.n_decoder_layers)
        return max(870, round(4_000 * (deepest / 6) ** 2))

    def least_warmup(self) -> int:
        """Return half of that for a deep post-norm model: with less it may collapse."""
        is_deep = max(self.n_encoder_layers, self.n_decoder_layers) > SHALLOW
        is_delicate = is_deep and self.norm == "post"
        return self.reference_warmup() // 2 if is_delicate else super().least_warmup()

    def summary(self) -> str:
        """Describe the architecture and its sizes in one line."""
        score = "" if self.attention_score == "scaled" else f", {self.attention_score} attention"
        shared = "" if self.kv_heads == self.h else f" over {self.kv_heads} of keys and values"
        return (
            f"Transformer, {self.n_encoder_layers}+{self.n_decoder_layers} layers, "
            f"d_model {self.d_model}, d_ff {self.d_ff}{self._experts()}, h {self.h}{shared}, "
            f"d_k {self.d_k}, d_v {self.d_v}{score}, {self.norm}-norm{self._blocks()}, "
            f"{'no' if self.positions == 'none' else self.positions} positions, "
            f"dropout {self.p_drop}"
        )

    def _blocks(self) -> str:
        """Name what differs from the paper's layers."""
        different = {
            " by root mean square": self.norm_kind == "rms",
            ", normalised queries and keys": self.qk_norm,
            **self._other_mixers(),
            f", {self.activation}": self.activation not in ("relu", "swish"),
        }
        return "".join(name for name, holds in different.items() if holds)

    def _other_mixers(self) -> dict[str, bool]:
        """Name the mixers of stacks that have not attention alone."""
        found = {}
        for side, names, layers in (
            ("encoder", self.encoder_mixers, self.n_encoder_layers),
            ("decoder", self.decoder_mixers, self.n_decoder_layers),
        ):
            kinds = mixers_of_layers(names, layers)
            text = kinds[0] if len(set(kinds)) == 1 else " + ".join(kinds)
            found[f", {text} in the {side}"] = set(kinds) != {"attention"}
        return found | {", linformer to the source": self.cross_mixer == "linformer"}

    @property
    def has_linformer(self) -> bool:
        """Whether weights of some layer depend on max_positions."""
        return self.cross_mixer == "linformer" or "linformer" in self.encoder_mixers

    def _experts(self) -> str:
        if not self.experts:
            return ""
        where = {1: "", 2: " in every second layer"}.get(
            self.experts_every, f" in every {self.experts_every}th layer"
        )
        return f" ({self.experts} experts{where}, {self.experts_per_token} for each token)"

    def columns(self) -> dict[str, str]:
        """Return the columns of Table 3, by heading."""
        same_depth = self.n_encoder_layers == self.n_decoder_layers
        return {
            "N": str(self.n_encoder_layers)
            if same_depth
            else f"{self.n_encoder_layers}+{self.n_decoder_layers}",
            "d_model": f"{self.d_model:,}",
            "d_ff": f"{self.d_ff:,}" + (f"×{self.experts}" if self.experts else ""),
            "h": str(self.h) if self.kv_heads == self.h else f"{self.h}/{self.kv_heads}",
            "d_k": str(self.d_k),
            "d_v": str(self.d_v),
            "P_drop": str(self.p_drop),
            "PE": "sines" if self.positions == "sinusoidal" else self.positions,
        }

    def free_settings(self) -> frozenset[str]:
        """Return the names of the settings that fine-tuning may change."""
        dropouts = {"p_drop", "p_drop_attention", "p_drop_ff"}
        losses = {"expert_capacity", "balance_weight", "guided_alignment", "alignment_layer"}
        # A computed table can be longer.
        is_computed = self.positions != "learned" and not self.has_linformer
        return frozenset(dropouts | losses | ({"max_positions"} if is_computed else set()))
