"""The presets of the memory network."""

from transduce.config.schema import Config, DataConfig, TrainingConfig
from transduce.models.memory_network.settings import MemoryNetworkConfig


def memory_network() -> Config:
    """For questions about stories, as `transduce data generate stories` writes them."""
    return Config(
        model=MemoryNetworkConfig(vocab_size=1_000, p_drop=0.0),
        data=DataConfig(task="answers", subwords="whitespace", clean=False, held_out_by="source"),
        training=TrainingConfig(
            batch_tokens=4_000,
            schedule="linear",
            warmup_steps=100,
            learning_rate=0.01,
            clip_norm=1.0,
            eps_ls=0.0,
            steps=1_500,
        ),
    )


PRESETS = (memory_network,)
