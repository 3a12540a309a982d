"""`training`: batches, optimiser, learning rate, and when to stop."""

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from transduce.config.sections.section import Count, LargeCount, Positive, Probability, Section

NO_LIMIT = 10**9
"""More steps than any run makes."""

Schedule = Literal["paper", "linear", "constant"]


def _schedule(section: dict[str, Any]) -> Schedule:
    return "constant" if section.get("optimiser") == "schedule_free" else "paper"


class TrainingConfig(Section):
    """The training of §5: batches, optimiser, schedule, regularisation, and when to stop."""

    batch_tokens: LargeCount = Field(
        default=25_000, description="tokens per step on each side, over all processes (§5.1)"
    )
    accumulate: Count = Field(
        default=1, description="batches per step, each of batch_tokens / accumulate tokens"
    )
    optimiser: Literal["adam", "muon", "schedule_free"] = Field(
        default="adam",
        description="adam (§5.3); deviations: muon, orthogonal updates of matrices (Jordan et al. "
        "2024); schedule_free, Adam that scores an average of its weights (Defazio et al. 2024)",
    )
    schedule: Schedule = Field(
        default_factory=_schedule,
        description="learning rate after warm-up: paper, as step^-0.5 (§5.3); deviations: linear, "
        "down to 0 at the end of the budget; constant, which schedule_free needs",
    )
    warmup_steps: LargeCount = Field(
        default=4000,
        description="steps over which the learning rate rises (§5.3); with the linear schedule "
        "half of the budget at most",
    )
    learning_rate: Positive | None = Field(
        default=None,
        description="peak of the rate; if not given, (d_model · warmup_steps)^-0.5 (§5.3)",
    )
    beta_1: Probability = Field(default=0.9, description="Adam's β1 (§5.3)")
    beta_2: Probability = Field(default=0.98, description="Adam's β2 (§5.3)")
    epsilon: Positive = Field(default=1e-9, description="Adam's ε (§5.3)")
    clip_norm: Positive | None = Field(
        default=None, description="maximum gradient norm; larger ones are scaled down; a deviation"
    )
    eps_ls: Probability = Field(default=0.1, description="ε_ls: label smoothing (§5.4)")
    steps: LargeCount = Field(default=100_000, description="maximum steps (§5.2)")
    epochs: Positive | None = Field(default=None, description="maximum epochs")
    minutes: Positive | None = Field(default=None, description="maximum minutes of training")
    patience: Count | None = Field(
        default=None,
        description="stop after this many scores in a row without improvement (run.choose_by)",
    )

    @model_validator(mode="after")
    def _free_of_schedules(self) -> Self:
        if self.optimiser == "schedule_free" and self.schedule != "constant":
            raise ValueError(
                f"training.schedule={self.schedule} lowers the rate, but the average that "
                "training.optimiser=schedule_free keeps takes its place; leave it out"
            )
        return self
