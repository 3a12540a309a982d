"""On a CUDA device, the steps of a decoder of different layers can be recorded and replayed."""

import pytest
import torch
from torch.testing import assert_close

from tests.drawing import VOCAB_SIZE, random_ids
from tests.nn.hybrid import hybrid_model
from tests.nn.test_hybrid import MAX_STEPS, any_ids, assert_searches_agree, whole_logits
from transduce.hardware.cuda_graphs import record
from transduce.search.recorded import RecordedBeamSearch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"),
]


@torch.inference_mode()
def test_a_recorded_step_is_the_whole_sequence() -> None:
    exact = hybrid_model(vocab_size=VOCAB_SIZE, seed=1).double()
    model = hybrid_model(vocab_size=VOCAB_SIZE, seed=1).cuda()
    src, k = random_ids([7, 1, 4], seed=2), 4
    state = model.start(model.encode(src.cuda()), hypotheses=k, max_steps=MAX_STEPS)
    position = torch.zeros(1, dtype=torch.long, device="cuda")
    last_ids, beams = (torch.zeros(3, k, dtype=torch.long, device="cuda") for _ in range(2))
    logits = torch.zeros(3, k, VOCAB_SIZE, device="cuda")

    def step() -> None:
        logits.copy_(model.step(last_ids, state, position=position, reach=MAX_STEPS))
        state.select(beams)
        position.add_(1)

    read, graph = torch.zeros(3, k, 0, dtype=torch.long), None
    for time in range(MAX_STEPS):
        ids = any_ids(3, k, seed=time)
        read = torch.cat([read, ids[:, :, None]], dim=2)
        chosen = torch.arange(3 * k).view(3, k) * (time + 2) // 3 % k
        last_ids.copy_(ids)
        beams.copy_(chosen)
        if time == 0:
            step()  # loads the kernels, which must happen before recording
        else:
            graph = graph or record(step, torch.cuda.Stream())  # type: ignore[no-untyped-call]
            graph.replay()
        assert_close(logits.cpu().double(), whole_logits(exact, src, read), rtol=0, atol=1e-4)
        read = read.gather(1, chosen[:, :, None].expand_as(read))


def test_a_recorded_beam_search_finds_what_a_beam_search_finds() -> None:
    model = hybrid_model(vocab_size=VOCAB_SIZE, seed=3).cuda()
    search = RecordedBeamSearch(model, longest_source=None, max_positions=10_000)
    assert_searches_agree(model, search, "cuda")
