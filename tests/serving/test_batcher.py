"""Jobs of many clients are batched, bounded, and cancelled when no client waits for them."""

import asyncio

import pytest

from tests.serving.fakes import Running, Shouting, key_of, reached
from transduce.serving.refusal import Refused
from transduce.text.markup.marked import Line


def test_requests_that_arrive_during_a_batch_form_the_next_one() -> None:
    async def run() -> list[list[Line]]:
        fake = Shouting()
        fake.gate.clear()
        async with Running(max_batch=4) as running:
            first = running.ask(key_of(fake), "a")
            await reached(fake.began)
            others = [running.ask(key_of(fake), letter) for letter in "bcdefg"]
            await asyncio.sleep(0)
            fake.gate.set()
            found = await asyncio.gather(first, *others)
        assert [one.text for [one] in found] == list("ABCDEFG")
        return fake.batches

    assert asyncio.run(run()) == [["a"], ["b", "c", "d", "e"], ["f", "g"]]


def test_only_requests_with_the_same_options_share_a_batch() -> None:
    async def run() -> list[list[Line]]:
        fake, other = Shouting(), Shouting()
        fake.gate.clear()
        async with Running() as running:
            tasks = [running.ask(key_of(fake), "first")]
            await reached(fake.began)
            tasks += [running.ask(key_of(fake), "a"), running.ask(key_of(fake, n_best=2), "b")]
            tasks += [running.ask(key_of(fake), "c"), running.ask(key_of(other), "d")]
            await asyncio.sleep(0)
            fake.gate.set()
            await asyncio.gather(*tasks)
        return fake.batches + other.batches

    assert asyncio.run(run()) == [["first"], ["a", "c"], ["b"], ["d"]]


def test_a_full_queue_refuses_at_once_and_says_when_to_try_again() -> None:
    async def run() -> None:
        fake = Shouting()
        fake.gate.clear()
        async with Running(max_queue=3) as running:
            taken = running.ask(key_of(fake), "a", "b")
            await reached(fake.began)
            with pytest.raises(Refused) as refused:
                await running.ask(key_of(fake), "c", "d")
            assert refused.value.status == 429
            assert int(refused.value.headers["Retry-After"]) >= 1
            last = running.ask(key_of(fake), "c")
            await asyncio.sleep(0)
            fake.gate.set()
            await asyncio.gather(taken, last)
            assert running.batcher.unanswered == 0

    asyncio.run(run())


def test_a_cancelled_job_leaves_the_queue_and_releases_its_capacity() -> None:
    async def run() -> list[list[Line]]:
        fake = Shouting()
        fake.gate.clear()
        async with Running(max_queue=2) as running:
            first = running.ask(key_of(fake), "a")
            await reached(fake.began)
            for _ in range(20):  # each takes the capacity that the one before has released
                leaving = running.ask(key_of(fake), "gone")
                await asyncio.sleep(0)
                leaving.cancel()
                await asyncio.wait({leaving})
                await asyncio.sleep(0)
            last = running.ask(key_of(fake), "z")
            await asyncio.sleep(0)
            fake.gate.set()
            await asyncio.gather(first, last)
        return fake.batches

    assert asyncio.run(run()) == [["a"], ["z"]]


def test_a_batch_without_clients_is_cancelled_at_its_next_step() -> None:
    async def run() -> None:
        fake = Shouting()
        fake.gate.clear()  # and it stays closed: only cancelling ends the search
        async with Running() as running:
            both = [running.ask(key_of(fake), "a"), running.ask(key_of(fake), "b")]
            await reached(fake.began)
            for task in both:
                task.cancel()
            await asyncio.wait(both)
        assert [batch.was_cancelled for batch in running.finished if batch.was_cancelled]

    asyncio.run(run())


def test_a_batch_goes_on_for_the_client_that_stays() -> None:
    async def run() -> None:
        fake = Shouting()
        fake.gate.clear()
        async with Running() as running:
            running.ask(key_of(fake), "hold")
            await reached(fake.began)
            leaving, staying = running.ask(key_of(fake), "a"), running.ask(key_of(fake), "b")
            await asyncio.sleep(0)
            fake.gate.set()
            await reached(fake.began)
            leaving.cancel()
            [answer] = await staying
            assert answer.text == "B"

    asyncio.run(run())


def test_only_the_faulty_line_fails() -> None:
    async def run() -> None:
        fake = Shouting()
        fake.gate.clear()
        async with Running() as running:
            running.ask(key_of(fake), "hold")
            await reached(fake.began)
            good, bad = running.ask(key_of(fake), "good"), running.ask(key_of(fake), "fault")
            await asyncio.sleep(0)
            fake.gate.set()
            assert [one.text for one in await good] == ["GOOD"]
            with pytest.raises(RuntimeError, match="a fault"):
                await bad

    asyncio.run(run())


def test_closing_finishes_all_queued_jobs() -> None:
    async def run() -> None:
        fake = Shouting()
        fake.gate.clear()
        async with Running() as running:
            taken = [running.ask(key_of(fake), letter) for letter in "abc"]
            await reached(fake.began)
            asyncio.get_running_loop().call_later(0.01, fake.gate.set)
        assert [one.text for task in taken for one in await task] == list("ABC")

    asyncio.run(run())
