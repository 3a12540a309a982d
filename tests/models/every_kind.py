"""Small models of every kind of this package, for the properties that all of them have."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.drawing import model_configs, seeds
from transduce.config.schema import ModelConfig
from transduce.models.base import Seq2Seq
from transduce.models.build import build_model

DRAWN: dict[str, SearchStrategy[ModelConfig]] = {
    # Layer norm over two numbers leaves only signs, which may stay equal.
    "transformer": model_configs(d_model=8),
}
"""Settings of small models by kind, with `VOCAB_SIZE` entries and at least 32 positions."""


@st.composite
def any_model(draw: st.DrawFn, kind: str) -> Seq2Seq:
    """Build a model of a kind without dropout, in float64, so that only a real difference shows."""
    return build_model(draw(DRAWN[kind]), seed=draw(seeds)).double().eval()
