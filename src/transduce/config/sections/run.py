"""`run`: how a run is carried out."""

from typing import Annotated, Literal

from pydantic import Field

from transduce.config.sections.section import Count, LargeCount, Positive, Probability, Section


class RunConfig(Section):
    """How the run is carried out: device, checkpoints, scores."""

    init: str | None = Field(
        default=None, description="model folder to fine-tune: its weights, sizes and vocabulary"
    )
    seed: int = Field(default=1, ge=0, le=2**63 - 1, description="random seed")
    device: str = Field(
        default="auto",
        pattern=r"^(auto|cpu|mps|cuda(:\d{1,3})?)$",
        description="cpu, cuda, cuda:N or mps; auto: a GPU if there is one",
    )
    precision: Literal["auto", "float32", "bf16"] = Field(
        default="auto",
        description="of products; auto: bf16 on GPUs that support it; weights are float32",
    )
    compile: bool = Field(
        default=True, description="compile the layers and record the steps, on a CUDA device"
    )
    checkpoint_steps: LargeCount = Field(
        default=1000, description="steps between checkpoints, which are scored (§6.1)"
    )
    first_score_steps: Count | None = Field(
        default=None,
        description="also score at this step and, doubling, up to checkpoint_steps",
    )
    scoring_share: Annotated[float, Field(gt=0, le=1)] = Field(
        default=1.0, description="the most of a budget in minutes that scoring may take"
    )
    save_minutes: Positive = Field(default=10.0, description="maximum minutes between checkpoints")
    average: Count = Field(default=5, description="number of last checkpoints to average (§6.1)")
    keep_best: Count = Field(default=1, description="number of best checkpoints to keep too")
    choose_by: Literal["loss", "metric"] = Field(
        default="loss",
        description="how the best weights are chosen, for patience, keep_best and at the end: by "
        "dev loss, or by the task's metric (BLEU for translation), at the end on the whole dev set",
    )
    ema_decay: Probability = Field(
        default=0.0, description="decay of a moving average of the weights; a deviation above 0"
    )
    score_sentences: int = Field(
        default=500,
        ge=0,
        le=10**6,
        description="dev sentences to translate for the task's metric at each score; 0: none",
    )
    beam: Count | None = Field(
        default=None,
        description="hypotheses kept when the model is used and no beam is given; 1 is greedy "
        "search; if not given, as the task wants it",
    )
    timeout_s: Positive = Field(
        default=1800.0, description="seconds that processes wait for each other before giving up"
    )
