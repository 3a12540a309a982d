"""The presets of the Extended Neural GPU."""

from transduce.config.schema import Config, DataConfig, TrainingConfig
from transduce.models.neural_gpu.settings import NeuralGPUConfig


def neural_gpu() -> Config:
    """For copying, reversal and addition, as `transduce data generate` writes them."""
    return Config(
        model=NeuralGPUConfig(vocab_size=1_000, p_drop=0.0),
        data=DataConfig(task="answers", subwords="whitespace", clean=False, held_out_by="source"),
        training=TrainingConfig(
            batch_tokens=512,
            schedule="linear",
            warmup_steps=100,
            learning_rate=0.007,
            clip_norm=1.0,
            eps_ls=0.0,
            steps=3_000,
        ),
    )


PRESETS = (neural_gpu,)
