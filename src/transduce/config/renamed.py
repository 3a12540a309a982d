"""Settings that had another name or value in version 0.1, or have a short form; both are read."""

from typing import Any

from transduce.errors import ConfigError

RENAMED = {("run", "bleu_sentences"): "score_sentences"}
"""The new names of settings, by their section and old name."""

RENAMED_VALUES = {("run", "choose_by", "bleu"): "metric"}
"""The new values of settings, by their section, name and old value."""


SHORT_FORMS: dict[tuple[str, str], dict[str, Any]] = {("data", "augment"): {"usual": True}}
"""What `true` stands for, by section and name: so changes of single values can be merged."""


OTHER_NAMES = {
    **dict.fromkeys(("lr", "max_lr", "peak_lr"), "training.learning_rate"),
    **dict.fromkeys(("warmup", "warm_up", "num_warmup_steps"), "training.warmup_steps"),
    **dict.fromkeys(("label_smoothing", "smoothing", "epsilon_ls"), "training.eps_ls"),
    **dict.fromkeys(("beta1", "adam_beta1"), "training.beta_1"),
    **dict.fromkeys(("beta2", "adam_beta2"), "training.beta_2"),
    **dict.fromkeys(("eps", "adam_eps", "adam_epsilon"), "training.epsilon"),
    **dict.fromkeys(("clip", "grad_clip", "max_grad_norm"), "training.clip_norm"),
    **dict.fromkeys(("batch_size", "max_tokens", "tokens"), "training.batch_tokens"),
    **dict.fromkeys(("max_steps", "num_steps", "max_updates"), "training.steps"),
    **dict.fromkeys(("max_epochs", "num_epochs"), "training.epochs"),
    **dict.fromkeys(("dropout", "p_dropout"), "model.p_drop"),
    **dict.fromkeys(("heads", "n_heads", "num_heads", "attention_heads"), "model.h"),
    **dict.fromkeys(("layers", "num_layers", "depth"), "model.n_layers"),
    **dict.fromkeys(("hidden_size", "hidden", "embed_dim", "width"), "model.d_model"),
    **dict.fromkeys(("ffn_dim", "ff_dim", "dim_feedforward"), "model.d_ff"),
    **dict.fromkeys(("vocab", "vocabulary"), "model.vocab_size"),
    **dict.fromkeys(("max_length", "max_len"), "model.max_positions"),
    **dict.fromkeys(("fp16", "bf16", "dtype", "amp"), "run.precision"),
    **dict.fromkeys(("ema",), "run.ema_decay"),
}
"""What other toolkits call settings, by the last part of the name: for hints only."""


def with_current_names(tree: Any) -> Any:
    """Return settings under the names and with the values of this version.

    What is not a tree of settings is returned as it is: validation complains about it.
    """
    if not isinstance(tree, dict):
        return tree
    return {
        section: _renamed(section, values) if isinstance(values, dict) else values
        for section, values in tree.items()
    }


def _renamed(section: str, values: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for old, given in values.items():
        name = RENAMED.get((section, old), old)
        if name != old and name in values:
            raise ConfigError(
                f"{section}.{old} is the old name of {section}.{name}: give only the latter"
            )
        if isinstance(given, str):
            found[name] = RENAMED_VALUES.get((section, name, given), given)
        else:
            found[name] = SHORT_FORMS.get((section, name), given) if given is True else given
    return found
