"""The presets of the Transformer. Each states what differs from the paper's base model.

Every row of Table 3 is one, named by what it changes; its docstring has the paper's label.
"""

from transduce.config.schema import Config, TrainingConfig, Tree
from transduce.models.transformer.settings import TransformerConfig


def tiny() -> Config:
    """For tests and first trials: trains in seconds on a CPU."""
    return Config(model=TransformerConfig(vocab_size=4_000, n_layers=2, d_model=128, d_ff=512, h=4))


def small() -> Config:
    """For small corpora and for CPUs."""
    return Config(
        model=TransformerConfig(vocab_size=8_000, n_layers=3, d_model=256, d_ff=1024, h=4)
    )


def base() -> Config:
    """The paper's base model (Table 3)."""
    return Config()


def big() -> Config:
    """The paper's big model (Table 3)."""
    return Config(
        model=TransformerConfig(d_model=1024, d_ff=4096, h=16, p_drop=0.3),
        training=TrainingConfig(steps=300_000),
    )


def base_h1() -> Config:
    """Table 3 (A): one head as wide as the model."""
    return Config(model=TransformerConfig(h=1))


def base_h4() -> Config:
    """Table 3 (A): 4 wider heads."""
    return Config(model=TransformerConfig(h=4))


def base_h16() -> Config:
    """Table 3 (A): 16 narrower heads."""
    return Config(model=TransformerConfig(h=16))


def base_h32() -> Config:
    """Table 3 (A): 32 narrower heads."""
    return Config(model=TransformerConfig(h=32))


def base_dk16() -> Config:
    """Table 3 (B): narrow keys, values as in base."""
    return Config(model=TransformerConfig(d_k=16))


def base_dk32() -> Config:
    """Table 3 (B): narrower keys, values as in base."""
    return Config(model=TransformerConfig(d_k=32))


def base_n2() -> Config:
    """Table 3 (C): 2 layers."""
    return Config(model=TransformerConfig(n_layers=2))


def base_n4() -> Config:
    """Table 3 (C): 4 layers."""
    return Config(model=TransformerConfig(n_layers=4))


def base_n8() -> Config:
    """Table 3 (C): 8 layers."""
    return Config(model=TransformerConfig(n_layers=8))


def base_d256() -> Config:
    """Table 3 (C): half the width."""
    return Config(model=TransformerConfig(d_model=256, d_k=32, d_v=32))


def base_d1024() -> Config:
    """Table 3 (C): twice the width."""
    return Config(model=TransformerConfig(d_model=1024, d_k=128, d_v=128))


def base_ff1024() -> Config:
    """Table 3 (C): half the feed-forward width."""
    return Config(model=TransformerConfig(d_ff=1024))


def base_ff4096() -> Config:
    """Table 3 (C): twice the feed-forward width."""
    return Config(model=TransformerConfig(d_ff=4096))


def base_drop0() -> Config:
    """Table 3 (D): no dropout."""
    return Config(model=TransformerConfig(p_drop=0.0))


def base_drop02() -> Config:
    """Table 3 (D): dropout 0.2."""
    return Config(model=TransformerConfig(p_drop=0.2))


def base_ls0() -> Config:
    """Table 3 (D): no label smoothing."""
    return Config(training=TrainingConfig(eps_ls=0.0))


def base_ls02() -> Config:
    """Table 3 (D): label smoothing 0.2."""
    return Config(training=TrainingConfig(eps_ls=0.2))


def base_learned() -> Config:
    """Table 3 (E): learned positions."""
    return Config(model=TransformerConfig(positions="learned"))


def moe_small() -> Config:
    """Shazeer et al. (2017) on the scale of small: 4 experts, of which each token uses 2."""
    return small().with_changes({"model": {"experts": 4}})


def moe() -> Config:
    """Shazeer et al. (2017) on the scale of base: 8 experts, of which each token uses 2."""
    return Config(model=TransformerConfig(experts=8))


def modern_tiny() -> Config:
    """The size of tiny, with what came after the paper: it learns as much in fewer steps."""
    return tiny().with_changes(
        {
            "model": {
                "norm": "pre",
                "norm_kind": "rms",
                "positions": "rotary",
                "activation": "swiglu",
                "d_ff": 344,  # three matrices as large as two of 512
            },
            "training": {"optimiser": "muon", "learning_rate": 0.01},
        }
    )


def student_6_2() -> Config:
    """A student with the base model's encoder and 2 decoder layers, for greedy search."""
    return _student({"n_decoder_layers": 2})


def student_6_1() -> Config:
    """A student with the base model's encoder and 1 decoder layer, for greedy search."""
    return _student({"n_decoder_layers": 1})


def student_12_1() -> Config:
    """A student with a deep encoder and 1 decoder layer (Kasai et al. 2021), for greedy search."""
    return _student({"n_encoder_layers": 12, "n_decoder_layers": 1})


def student_slim() -> Config:
    """A student of three quarters of the width, 6 + 2 layers, for greedy search."""
    return _student({"d_model": 384, "d_ff": 1536, "h": 6, "n_decoder_layers": 2})


def student_tiny() -> Config:
    """A student of the published tiny shape (Kim et al. 2019), 6 + 2 layers, for greedy search."""
    return _student({"d_model": 256, "d_ff": 1536, "h": 8, "n_decoder_layers": 2, "p_drop": 0.0})


def _student(shape: Tree) -> Config:
    """Return base with another shape, and a beam of 1 when it is used."""
    return Config().with_changes({"model": shape, "run": {"beam": 1}})


PRESETS = (
    tiny,
    small,
    base,
    big,
    base_h1,
    base_h4,
    base_h16,
    base_h32,
    base_dk16,
    base_dk32,
    base_n2,
    base_n4,
    base_n8,
    base_d256,
    base_d1024,
    base_ff1024,
    base_ff4096,
    base_drop0,
    base_drop02,
    base_ls0,
    base_ls02,
    base_learned,
    moe_small,
    moe,
    modern_tiny,
    student_6_2,
    student_6_1,
    student_12_1,
    student_slim,
    student_tiny,
)
