"""Which keys each query may attend to, as ranges: for sentences packed end to end in one row.

A query attends to the keys of one sentence. The ranges are in the order of the queries, so a kernel
reads only the keys from the first range of its block of queries to the last.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class KeyRanges:
    """For each query its first key and the end of its keys; for each key the same of its queries.

    All are int32, and no bound decreases from one query or key to the next.
    """

    first: Tensor  # [T]
    end: Tensor  # [T]
    seen_first: Tensor  # [S]
    seen_end: Tensor  # [S]

    def allowed(self) -> Tensor:
        """Return the same as a boolean mask; a query with an empty range may attend to all keys."""
        keys = torch.arange(self.seen_first.size(0), device=self.first.device)  # [S]
        within = (keys >= self.first[:, None]) & (keys < self.end[:, None])  # [T, S]
        return within | (self.first >= self.end)[:, None]  # [T, S]

    def positions(self) -> Tensor:
        """Return the position of each query in its sentence, [T]: for self-attention only."""
        columns = torch.arange(self.first.size(0), device=self.first.device)
        return (columns - self.first) * (self.first < self.end)
