"""The end of a run: which weights it gives, how good they are, and the model folder."""

import gc
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from transduce.data.batch import Batch
from transduce.models.folder import WEIGHTS, save_weights
from transduce.training.average import averaged
from transduce.training.card import Candidate, Result, card
from transduce.training.distributed import Processes
from transduce.training.events import Finished, Stepped
from transduce.training.journal import read_journal
from transduce.training.learner import dev_loss
from transduce.training.loop import Setup
from transduce.training.optimiser import overwrite
from transduce.training.prepare import Prepared
from transduce.training.run_folder import JOURNAL, RunFolder


@dataclass(frozen=True)
class _Weighed:
    candidate: Candidate
    weights: Mapping[str, Tensor]

    @property
    def bleu(self) -> float:
        return self.candidate.bleu[0] if self.candidate.bleu else 0.0


def finish(setup: Setup, folder: RunFolder, prepared: Prepared, reason: str) -> bool:
    """Write the best of the last weights, their averages and the best checkpoint, with a card.

    Returns False if the user stopped it; the next sitting does it again.
    """
    gc.collect()  # what training recorded on a GPU holds memory until then
    by_bleu = setup.config.run.choose_by == "bleu"
    weighed = [_weighed(setup, *found, by_bleu=by_bleu) for found in _candidates(setup).items()]
    if by_bleu:
        best = max(weighed, key=lambda found: found.bleu)
        bleu = best.candidate.bleu
    else:
        best = min(weighed, key=lambda found: found.candidate.loss)
        overwrite(setup.model.state_dict(), best.weights)
        bleu = setup.evaluate(setup.model.eval())
    if setup.stopped():
        return False
    newest = setup.checkpoints.newest()
    assert newest is not None, "a run that has ended has a checkpoint"
    save_weights(folder.path / WEIGHTS, best.weights, metadata={})
    setup.tell(
        Finished(
            step=newest.step,
            reason=reason,
            weights=best.candidate.name,
            seconds=newest.progress.seconds,
        )
    )
    stepped = [e for e in read_journal(folder.path / JOURNAL) if isinstance(e, Stepped)]
    result = Result(
        reason=reason,
        progress=newest.progress,
        chosen=best.candidate,
        candidates=[found.candidate for found in weighed],
        bleu=bleu,
        dev_pairs=len(prepared.dev_pairs),
        tokens_per_s=sorted(e.tokens_per_s for e in stepped)[len(stepped) // 2] if stepped else 0,
        machine=setup.machine,
        processes=setup.processes.world,
    )
    folder.write_card(card(folder, setup.config, setup.model, prepared, result))
    return True


def _candidates(setup: Setup) -> dict[str, Mapping[str, Tensor]]:
    """Name what the run could give: each of these may be the best, and often the first is."""
    checkpoints, keep = setup.checkpoints, setup.config.run.average
    scored, newest = checkpoints.scored(), checkpoints.newest()
    assert newest is not None
    found: dict[str, Mapping[str, Tensor]] = {}
    last = scored[-keep:]
    if len(last) > 1:
        steps = ", ".join(f"{one.step:,}" for one in last)
        found[f"average of the last {len(last)} checkpoints (steps {steps})"] = averaged(last)
    moving_average = newest.moving_average()
    if moving_average is not None:
        found["moving average"] = moving_average
    best = min(scored, key=lambda one: one.scores.loss if one.scores else 0.0, default=newest)
    found[f"best checkpoint (step {best.step:,})"] = best.weights()
    if best.step != newest.step:
        found[f"last checkpoint (step {newest.step:,})"] = newest.weights()
    return found


def _dev_batches(setup: Setup) -> list[Batch]:
    """Make the development set's batches as small as training found that they must be."""
    newest = setup.checkpoints.newest()
    most = newest.progress.max_tokens if newest else None
    if most is None:
        return setup.dev_batches
    return [piece for batch in setup.dev_batches for piece in batch.split(most)]


def _weighed(setup: Setup, name: str, weights: Mapping[str, Tensor], *, by_bleu: bool) -> _Weighed:
    overwrite(setup.model.state_dict(), weights)
    loss = dev_loss(setup.model, _dev_batches(setup), setup.machine, Processes())
    bleu = setup.evaluate(setup.model.eval()) if by_bleu else None
    return _Weighed(Candidate(name, loss, bleu), weights)
