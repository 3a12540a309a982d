"""Settings with which a small model of each kind learns to copy and to reverse in seconds."""

_TRANSFORMER = [
    "model.n_layers=2",
    "model.d_model=64",
    "model.d_ff=64",
    "model.h=4",
    "model.p_drop=0",
    "training.steps=400",
    "training.batch_tokens=512",
    "training.schedule=linear",
    "training.warmup_steps=100",
    "training.learning_rate=0.003",
]

SETTINGS: dict[str, list[str]] = {
    "transformer": _TRANSFORMER,
    "transformer, experts": [*_TRANSFORMER, "model.experts=4"],
    "transformer, relative": [*_TRANSFORMER, "model.positions=relative"],
    "transformer, t5": [*_TRANSFORMER, "model.positions=t5", "training.steps=1000"],
    "transformer, alibi": [*_TRANSFORMER, "model.positions=alibi", "training.steps=1000"],
    "transformer, rotary": [*_TRANSFORMER, "model.positions=rotary"],
    "transformer, modern": [
        *_TRANSFORMER,
        "model.positions=rotary",
        "model.norm=pre",
        "model.norm_kind=rms",
        "model.qk_norm=true",
        "model.activation=swiglu",
    ],
    "conv_s2s": [
        "model.d_model=64",
        "model.layers=2x64k3",
        "model.p_drop=0",
        "training.steps=300",
        "training.batch_tokens=512",
        "training.schedule=linear",
        "training.warmup_steps=50",
        "training.learning_rate=0.003",
        "training.clip_norm=0.1",
    ],
    "bytenet": [
        "model.d_model=128",
        "model.n_sets=1",
        "model.n_dilations=2",
        "model.kernel=9",
        "model.unfold_b=1",
        "model.p_drop=0",
        "training.steps=1000",
        "training.batch_tokens=512",
        "training.schedule=linear",
        "training.warmup_steps=50",
        "training.learning_rate=0.005",
    ],
    "rnn": [
        "model.cell=gru",
        "model.n_layers=1",
        "model.d_model=48",
        "model.decoder=luong",
        "model.p_drop=0",
        "training.steps=250",
        "training.batch_tokens=512",
        "training.schedule=linear",
        "training.warmup_steps=30",
        "training.learning_rate=0.01",
        "training.clip_norm=1",
    ],
    "neural_gpu": [
        "model.d_model=48",
        "model.p_drop=0",
        "training.steps=500",
        "training.batch_tokens=512",
        "training.schedule=linear",
        "training.warmup_steps=100",
        "training.learning_rate=0.01",
        "training.clip_norm=1",
        "training.eps_ls=0",
    ],
    "memory_network": [
        "model.p_drop=0",
        "training.steps=150",
        "training.batch_tokens=1000",
        "training.schedule=linear",
        "training.warmup_steps=30",
        "training.learning_rate=0.02",
        "training.clip_norm=1",
    ],
}
"""By kind, and perhaps a variant of it, as after `--set`."""

VARIANTS = {name for name in SETTINGS if name.startswith("transformer, ")}
SLOW = VARIANTS | {"bytenet", "conv_s2s", "neural_gpu"}
"""Those that take longest, or much like another, are learnt in exhaustive tests."""
