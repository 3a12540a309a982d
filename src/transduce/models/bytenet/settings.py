"""The settings of ByteNet (Kalchbrenner et al. 2016)."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from transduce.config.schema import Count, ModelConfig

Sets = Annotated[int, Field(ge=1, le=200)]
DilationsOfASet = Annotated[int, Field(ge=1, le=12)]
Kernel = Annotated[int, Field(ge=1, le=255)]


class ByteNetConfig(ModelConfig):
    """Kalchbrenner et al. 2016; the defaults are theirs for WMT English-German (§5)."""

    separate_vocabularies: ClassVar[bool] = True

    kind: Literal["bytenet"] = Field(
        default="bytenet", description="the architecture: bytenet (Kalchbrenner et al. 2016)"
    )
    d_model: Count = Field(
        default=1600, description="2d: width between the blocks, which compute in d (§3.6)"
    )
    n_sets: Sets = Field(
        default=6, description="sets of blocks in the encoder, and as many in the decoder (§5)"
    )
    n_dilations: DilationsOfASet = Field(
        default=5, description="blocks of a set, with dilations 1, 2, 4, … (§3.5)"
    )
    kernel: Kernel = Field(default=3, description="inputs of a convolution (§3.5)")
    unfold_a: Annotated[float, Field(ge=1, le=100)] = Field(
        default=1.2, description="a: the source is encoded to a · length + b positions (§3.2)"
    )
    unfold_b: Annotated[float, Field(ge=0, le=100_000)] = Field(
        default=8.0, description="b of the same; the paper's is 0, short subword texts need more"
    )

    @model_validator(mode="after")
    def _sizes_are_halved_and_centred(self) -> Self:
        if self.d_model % 2:
            raise ValueError(
                f"model.d_model={self.d_model} is odd, but blocks compute in half of it; "
                "use an even width"
            )
        if self.kernel % 2 == 0:
            raise ValueError(
                f"model.kernel={self.kernel} is even, but the encoder's convolutions have a "
                "centre; use an odd number"
            )
        return self

    @property
    def dilations(self) -> list[int]:
        """The dilation of each block of the encoder or decoder."""
        return [2**i for i in range(self.n_dilations)] * self.n_sets

    def summary(self) -> str:
        """Describe the architecture and its sizes in one line."""
        blocks = len(self.dilations)
        return (
            f"ByteNet, {blocks}+{blocks} blocks, d_model {self.d_model}, kernel {self.kernel}, "
            f"dilations to {max(self.dilations)}, source unfolded to {self.unfold_a:g} · length + "
            f"{self.unfold_b:g}, dropout {self.p_drop}"
        )

    def columns(self) -> dict[str, str]:
        """Return the columns of the table of presets, by heading."""
        return {
            "blocks": str(len(self.dilations)),
            "dilations": f"1 to {max(self.dilations)}",
            "kernel": str(self.kernel),
            "d_model": f"{self.d_model:,}",
            "a": f"{self.unfold_a:g}",
            "b": f"{self.unfold_b:g}",
            "P_drop": str(self.p_drop),
        }
