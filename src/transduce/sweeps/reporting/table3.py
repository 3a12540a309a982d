"""The results of the paper's Table 3: English–German, newstest2013, no checkpoint averaging.

Rows have the names of the presets. Perplexity is per subword.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class PaperRow:
    """A row of Table 3 as it is printed."""

    group: str  # A to E; '' for base and big
    perplexity: float
    bleu: float
    parameters: float | None = None  # in millions; None: not printed, because as in base


TABLE_3: dict[str, PaperRow] = {
    "base": PaperRow("", 4.92, 25.8, 65),
    "base_h1": PaperRow("A", 5.29, 24.9),
    "base_h4": PaperRow("A", 5.00, 25.5),
    "base_h16": PaperRow("A", 4.91, 25.8),
    "base_h32": PaperRow("A", 5.01, 25.4),
    "base_dk16": PaperRow("B", 5.16, 25.1, 58),
    "base_dk32": PaperRow("B", 5.01, 25.4, 60),
    "base_n2": PaperRow("C", 6.11, 23.7, 36),
    "base_n4": PaperRow("C", 5.19, 25.3, 50),
    "base_n8": PaperRow("C", 4.88, 25.5, 80),
    "base_d256": PaperRow("C", 5.75, 24.5, 28),
    "base_d1024": PaperRow("C", 4.66, 26.0, 168),
    "base_ff1024": PaperRow("C", 5.12, 25.4, 53),
    "base_ff4096": PaperRow("C", 4.75, 26.2, 90),
    "base_drop0": PaperRow("D", 5.77, 24.6),
    "base_drop02": PaperRow("D", 4.95, 25.5),
    "base_ls0": PaperRow("D", 4.67, 25.3),
    "base_ls02": PaperRow("D", 5.47, 25.7),
    "base_learned": PaperRow("E", 4.92, 25.7),
    "big": PaperRow("", 4.33, 26.4, 213),
}
