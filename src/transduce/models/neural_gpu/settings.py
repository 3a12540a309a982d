"""The settings of the Extended Neural GPU."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from transduce.config.schema import Count, ModelConfig


class NeuralGPUConfig(ModelConfig):
    """The mental image and what updates it (Kaiser and Bengio, 2016, §2)."""

    separate_vocabularies: ClassVar[bool] = True

    kind: Literal["neural_gpu"] = Field(
        default="neural_gpu",
        description="the architecture: Extended Neural GPU (Kaiser and Bengio, 2016)",
    )
    d_model: Count = Field(
        default=64, description="m: maps of the mental image, width of embeddings (their §2)"
    )
    image_width: Annotated[int, Field(ge=1, le=64)] = Field(
        default=2, description="w: columns of the mental image; text is in the first (their §2)"
    )
    n_layers: Annotated[int, Field(ge=1, le=100)] = Field(
        default=1, description="l: CGRU layers of a step, and as many with the tape (their §2)"
    )
    cells_per_token: Annotated[int, Field(ge=1, le=16)] = Field(
        default=1, description="rows of the mental image for each source token (their §2: 1)"
    )
    spare_cells: Annotated[int, Field(ge=0, le=1_000)] = Field(
        default=0, description="more rows, for targets that are longer than their sources"
    )

    def reference_warmup(self) -> int:
        """Return the warm-up whose peak in §5.3 suits it: 0.007 for 64 maps."""
        return 319

    def summary(self) -> str:
        """Describe the architecture and its sizes in one line."""
        return (
            f"Extended Neural GPU, {self.n_layers}+{self.n_layers} CGRU layers, "
            f"image {self.cells_per_token}·S+{self.spare_cells} × {self.image_width} × "
            f"{self.d_model}, dropout {self.p_drop}"
        )

    def columns(self) -> dict[str, str]:
        """Return the columns of the table of presets, by heading."""
        return {
            "l": str(self.n_layers),
            "w": str(self.image_width),
            "m": f"{self.d_model:,}",
            "rows": f"{self.cells_per_token}·S+{self.spare_cells}",
            "P_drop": str(self.p_drop),
        }
