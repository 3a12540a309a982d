"""The presets of ConvS2S. Each states what differs from the published English-German model."""

from transduce.config.schema import Config, TrainingConfig
from transduce.models.conv_s2s.settings import ConvS2SConfig

CLIP_NORM = 0.1
"""Gehring et al. §4.2: gradients with a larger norm are scaled down to it."""


def conv_s2s_small() -> Config:
    """For small corpora: layers as wide as the authors' for IWSLT."""
    return Config(
        model=ConvS2SConfig(vocab_size=8_000, d_model=256, layers="6x256k3", p_drop=0.2),
        training=TrainingConfig(clip_norm=CLIP_NORM),
    )


def conv_s2s() -> Config:
    """Gehring et al. 2017, WMT 2014 English-German."""
    return Config(model=ConvS2SConfig(), training=TrainingConfig(clip_norm=CLIP_NORM))


PRESETS = (conv_s2s_small, conv_s2s)
