"""The settings of ConvS2S (Gehring et al. 2017)."""

import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from transduce.config.schema import Count, ModelConfig

MAX_LAYERS, MAX_WIDTH, MAX_KERNEL = 1_000, 100_000, 255
"""Bounds, so that a hostile settings file cannot ask for millions."""


def parse_layers(text: str) -> list[tuple[int, int]]:
    """Read `10x512k3+2x2048k1`: (width, kernel) of each layer."""
    layers: list[tuple[int, int]] = []
    for group in text.split("+"):
        found = re.fullmatch(r"([0-9]{1,6})x([0-9]{1,6})k([0-9]{1,6})", group)
        if found is None:
            raise ValueError(
                f"{group!r} is not a group of layers: write 10x512k3 for 10 layers of width 512 "
                "with kernels of 3, and join groups by +"
            )
        count, width, kernel = map(int, found.groups())
        if not (1 <= count <= MAX_LAYERS and 1 <= width <= MAX_WIDTH and kernel <= MAX_KERNEL):
            raise ValueError(
                f"{group!r} is out of bounds: 1 to {MAX_LAYERS:,} layers of width 1 to "
                f"{MAX_WIDTH:,} with kernels of at most {MAX_KERNEL}"
            )
        if kernel % 2 == 0:
            raise ValueError(f"{group!r} has a kernel without a centre: use an odd number")
        layers += [(width, kernel)] * count
        if len(layers) > MAX_LAYERS:
            raise ValueError(f"{text!r} has more than {MAX_LAYERS:,} layers")
    return layers


def _check_layers(text: str) -> str:
    parse_layers(text)
    return text


Layers = Annotated[str, AfterValidator(_check_layers)]


def _as_layers(section: dict[str, Any]) -> str:
    layers: str = section["layers"]
    return layers


class ConvS2SConfig(ModelConfig):
    """Gehring et al. 2017; the defaults are theirs for WMT 2014 English-German (§4)."""

    separate_vocabularies: ClassVar[bool] = True

    kind: Literal["conv_s2s"] = Field(
        default="conv_s2s", description="the architecture: conv_s2s (Gehring et al. 2017)"
    )
    d_model: Count = Field(
        default=768, description="width of the embeddings and of the decoder's output (§3.1)"
    )
    layers: Layers = Field(
        default="10x512k3+3x768k3+2x2048k1",
        description="convolutions as COUNTxWIDTHkKERNEL, joined by + (Gehring et al. §4.2)",
    )
    encoder_layers: Layers = Field(
        default_factory=_as_layers, description="those of the encoder; if not given, layers"
    )
    decoder_layers: Layers = Field(
        default_factory=_as_layers, description="those of the decoder; if not given, layers"
    )
    max_positions: Count = Field(
        default=1024, description="longest sequence in tokens: positions are learned (§3.1)"
    )

    @property
    def max_length(self) -> int:
        """The longest source or target in tokens, EOS included."""
        return self.max_positions

    def summary(self) -> str:
        """Describe the architecture and its sizes in one line."""
        layers = self.encoder_layers
        if self.decoder_layers != layers:
            layers += f" and {self.decoder_layers}"
        return (
            f"ConvS2S, {self._depths()} layers ({layers}), d_model {self.d_model}, "
            f"dropout {self.p_drop}"
        )

    def columns(self) -> dict[str, str]:
        """Return the columns of the table of presets, by heading."""
        columns = {"layers": self._depths(), "encoder": self.encoder_layers}
        if self.decoder_layers != self.encoder_layers:
            columns["decoder"] = self.decoder_layers
        return columns | {"d_model": f"{self.d_model:,}", "P_drop": str(self.p_drop)}

    def _depths(self) -> str:
        return "+".join(
            str(len(parse_layers(layers))) for layers in (self.encoder_layers, self.decoder_layers)
        )
