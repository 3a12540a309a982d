"""The presets of recurrent models."""

from transduce.config.schema import Config, TrainingConfig
from transduce.models.rnn.settings import RNNConfig


def rnn_tiny() -> Config:
    """For tests and first trials: trains in seconds on a CPU."""
    return Config(
        model=RNNConfig(vocab_size=4_000, d_model=128, n_layers=1, decoder="luong"),
        training=TrainingConfig(clip_norm=1.0),
    )


def rnn_small() -> Config:
    """For small corpora and for CPUs: no loop over time in Python."""
    return Config(
        model=RNNConfig(vocab_size=8_000, d_model=256, n_layers=2, decoder="gnmt", p_drop=0.3),
        training=TrainingConfig(clip_norm=1.0),
    )


def rnn_bahdanau() -> Config:
    """RNNsearch (Bahdanau et al. 2015): GRUs of 1,000, embeddings of 620, additive attention.

    As published, but for the output: a tanh layer and the shared embedding, where theirs was a
    maxout layer of 500 and a matrix of its own.
    """
    return Config(
        model=RNNConfig(
            vocab_size=30_000,
            d_model=620,
            d_hidden=1_000,
            cell="gru",
            n_layers=1,
            decoder="bahdanau",
        ),
        training=TrainingConfig(clip_norm=1.0, eps_ls=0.0),
    )


def gnmt() -> Config:
    """GNMT (Wu et al. 2016): 8+8 LSTM layers of 1,024, one of them bidirectional.

    As published, but for the output: a tanh layer and the shared embedding, where theirs was a
    matrix of its own.
    """
    return Config(
        model=RNNConfig(
            vocab_size=32_000,
            d_model=1_024,
            n_layers=8,
            bidirectional="first",
            decoder="gnmt",
            p_drop=0.2,
        ),
        training=TrainingConfig(clip_norm=5.0),
    )


PRESETS = (rnn_tiny, rnn_small, rnn_bahdanau, gnmt)
