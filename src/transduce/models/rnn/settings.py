"""The settings of recurrent models with attention."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from transduce.config.schema import Count, ModelConfig

Depth = Annotated[int, Field(ge=1, le=8)]
"""Layers of a stack; GNMT's are the deepest that were published."""


def _n_layers(section: dict[str, Any]) -> int:
    n_layers: int = section["n_layers"]
    return n_layers


def _d_model(section: dict[str, Any]) -> int:
    d_model: int = section["d_model"]
    return d_model


class RNNConfig(ModelConfig):
    """A recurrent encoder and decoder, joined by attention."""

    separate_vocabularies: ClassVar[bool] = True

    kind: Literal["rnn"] = Field(
        default="rnn", description="the architecture: rnn, recurrent with attention"
    )
    d_model: Count = Field(
        default=512, description="width of embeddings and of the states that are projected (§3.4)"
    )
    d_hidden: Count = Field(
        default_factory=_d_model,
        description="width of recurrent states, in each direction; if not given, d_model",
    )
    cell: Literal["lstm", "gru"] = Field(
        default="lstm",
        description="lstm (Hochreiter and Schmidhuber 1997) or gru (Cho et al. 2014)",
    )
    n_layers: Depth = Field(default=2, description="encoder layers, and as many decoder layers")
    n_encoder_layers: Depth = Field(
        default_factory=_n_layers, description="encoder layers; if not given, n_layers"
    )
    n_decoder_layers: Depth = Field(
        default_factory=_n_layers, description="decoder layers; if not given, n_layers"
    )
    bidirectional: Literal["all", "first", "none"] = Field(
        default="all",
        description="encoder layers that read both ways: all (Bahdanau et al. 2015), the first "
        "(Wu et al. 2016, §3.2) or none",
    )
    residual: bool = Field(
        default=True,
        description="add the input of a layer to its output, from the third layer on (Wu et al. "
        "2016, §3.1)",
    )
    attention: Literal["additive", "dot", "scaled_dot", "general"] = Field(
        default="additive",
        description="score of source state h and decoder state s: additive, v·tanh(W₁h + W₂s) "
        "(Bahdanau et al. 2015); dot or general (Luong et al. 2015, §3.1); scaled_dot (§3.2.1)",
    )
    decoder: Literal["bahdanau", "input_feeding", "luong", "gnmt"] = Field(
        default="gnmt",
        description="who attends, and where the context goes: bahdanau, the last state, into this "
        "step (2015); input_feeding, this state, into the next step too, or luong, not (Luong et "
        "al. 2015, §3.3); gnmt, the first layer, into all others (Wu et al. 2016, §3)",
    )

    @model_validator(mode="after")
    def _dot_products_need_equal_widths(self) -> Self:
        if self.attention in ("dot", "scaled_dot") and self.d_source != self.d_hidden:
            raise ValueError(
                f"model.attention={self.attention} multiplies source states of width "
                f"{self.d_source} by decoder states of width {self.d_hidden}; use "
                "model.attention=general, or model.bidirectional=first with two encoder layers"
            )
        return self

    @property
    def d_source(self) -> int:
        """The width of the encoder's last layer, both directions together."""
        last_is_both = self.bidirectional == "all" or (
            self.bidirectional == "first" and self.n_encoder_layers == 1
        )
        return 2 * self.d_hidden if last_is_both else self.d_hidden

    def reference_warmup(self) -> int:
        """Return the warm-up whose peak in §5.3 is 0.001 for two layers, less for more."""
        deepest = max(self.n_encoder_layers, self.n_decoder_layers)
        return max(1, round(1_000_000 / self.d_model * max(1, deepest / 2)))

    def summary(self) -> str:
        """Describe the architecture and its sizes in one line."""
        both = {"all": "bidirectional encoder, ", "first": "first layer bidirectional, "}
        return (
            f"{self.cell.upper()}, {self.n_encoder_layers}+{self.n_decoder_layers} layers, "
            f"d_model {self.d_model}, d_hidden {self.d_hidden}, {both.get(self.bidirectional, '')}"
            f"{self.attention.replace('_', ' ')} attention, "
            f"{self.decoder.replace('_', ' ')} decoder, dropout {self.p_drop}"
        )

    def columns(self) -> dict[str, str]:
        """Return the columns of the table of presets, by heading."""
        return {
            "layers": f"{self.n_encoder_layers}+{self.n_decoder_layers}",
            "d_model": f"{self.d_model:,}",
            "d_hidden": f"{self.d_hidden:,}",
            "cell": self.cell,
            "decoder": self.decoder,
            "P_drop": str(self.p_drop),
        }
