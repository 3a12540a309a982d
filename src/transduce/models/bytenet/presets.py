"""The presets of ByteNet. Each states what differs from the published English-German model."""

from transduce.config.schema import Config
from transduce.models.bytenet.settings import ByteNetConfig


def bytenet_small() -> Config:
    """For small corpora."""
    return Config(
        model=ByteNetConfig(vocab_size=8_000, d_model=512, n_sets=2, n_dilations=4, p_drop=0.2)
    )


def bytenet() -> Config:
    """Kalchbrenner et al. 2016, WMT English-German: on the bytes of UTF-8, not subwords."""
    return Config(model=ByteNetConfig(vocab_size=260, unfold_b=0.0))


PRESETS = (bytenet_small, bytenet)
