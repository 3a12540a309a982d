"""Where the sentences lie in rows of packed sequences."""

from dataclasses import dataclass

from torch import Tensor

from transduce.nn.mixers.key_ranges import KeyRanges


@dataclass(frozen=True)
class PackedLayout:
    """Where each sentence of a source row and a target row of packed sequences lies.

    For each token, in int32: start and end of its sentence in its own row, then start and end of
    that sentence's counterpart in the other row. Padding belongs to an empty sentence.
    """

    src: Tensor  # [4, S]
    tgt: Tensor  # [4, T]

    @property
    def src_positions(self) -> Tensor:
        """The position of each source token in its sentence."""
        return self.src_to_src.positions()

    @property
    def tgt_positions(self) -> Tensor:
        """The position of each target token in its sentence."""
        return self.tgt_to_tgt.positions()

    @property
    def src_to_src(self) -> KeyRanges:
        """Keys for the encoder's self-attention: a source token attends to its sentence."""
        return KeyRanges(self.src[0], self.src[1], self.src[0], self.src[1])

    @property
    def tgt_to_tgt(self) -> KeyRanges:
        """Keys for the decoder's self-attention: a target token attends to its sentence."""
        return KeyRanges(self.tgt[0], self.tgt[1], self.tgt[0], self.tgt[1])

    @property
    def tgt_to_src(self) -> KeyRanges:
        """Keys for cross-attention: a target token attends to the source of its sentence."""
        return KeyRanges(self.tgt[2], self.tgt[3], self.src[2], self.src[3])
