"""The settings of the memory network."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from transduce.config.schema import Count, ModelConfig, Tree

EntryId = Annotated[int, Field(ge=0)]


class MemoryNetworkConfig(ModelConfig):
    """The memory and the hops over it (Sukhbaatar et al., 2015, §2)."""

    kind: Literal["memory_network"] = Field(
        default="memory_network",
        description="the architecture: end-to-end memory network (Sukhbaatar et al., 2015)",
    )
    d_model: Count = Field(default=32, description="d: width of memories and queries (their §2.1)")
    hops: Annotated[int, Field(ge=1, le=100)] = Field(
        default=3, description="K: how often the memory is read, one after the other (their §2.2)"
    )
    memory_size: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=50, description="memories that are kept, the latest ones (their §4.2)"
    )
    sentence_end: str = Field(
        default=".",
        description="the token that ends a sentence, which is one memory; the last sentence is the "
        "question. Where a source has no such sentences, every token is a memory (their §5)",
    )
    sentence_end_ids: tuple[EntryId, ...] = Field(
        default=(), description="the ids of sentence_end; found in the vocabulary when a run begins"
    )

    def fitted_to(self, vocabulary: Sequence[str]) -> Tree:
        """Find the entries that end a sentence; with subwords, there is one with a space too."""
        ids = [n for n, text in enumerate(vocabulary) if text.strip() == self.sentence_end]
        found: dict[str, Any] = {"sentence_end_ids": ids if self.sentence_end else []}
        return super().fitted_to(vocabulary) | found

    def reference_warmup(self) -> int:
        """Return the warm-up whose peak in §5.3 suits it: 0.01 for a width of 32."""
        return 320

    def summary(self) -> str:
        """Describe the architecture and its sizes in one line."""
        return (
            f"memory network, {self.hops} hop{'s' * (self.hops > 1)}, d_model {self.d_model}, "
            f"{self.memory_size} memories, dropout {self.p_drop}"
        )

    def columns(self) -> dict[str, str]:
        """Return the columns of the table of presets, by heading."""
        return {
            "K": str(self.hops),
            "d": f"{self.d_model:,}",
            "memories": f"{self.memory_size:,}",
            "P_drop": str(self.p_drop),
        }
