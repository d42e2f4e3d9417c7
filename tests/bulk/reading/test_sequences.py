"""Non-destructive streams: what a batch is, what can be read again, and what is told to be gone."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from annulet.bulk.protocol.errors import InvalidRequestError, LeaseGoneError, NotFoundError, UnavailableError
from annulet.bulk.protocol.protocol import PlanSequences, SequenceTicket, SplitSequences
from annulet.bulk.reading import sequences
from annulet.bulk.reading.sequences import READER_IDLE_MAX, SequenceStore
from annulet.bulk.reading.stretches import Stretch
from tests.bulk.helpers import Bench, bench, crash_image


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"%04d" % number for number in range(first, first + count)]


class Stream:
    """What Spark's side does: keeps offsets, asks for batches, reads them."""

    def __init__(self, store: SequenceStore, **options: Any) -> None:
        self.store = store
        self.options: dict[str, Any] = {"queue": "q", "reader": "one", **options}
        self.start: dict[str, Any] = {"sequence": -1}
        self.end: dict[str, Any] = self.start

    def known(self, offset: dict[str, Any]) -> dict[str, Any]:
        names = ("incarnation", "boot", "safe")
        return {**self.options, **{name: offset[name] for name in names if name in offset}}

    async def plan(self, **limits: Any) -> int:
        """Accept the last batch and plan the next. Returns its rows, 0 for none."""
        self.start = self.end
        request = PlanSequences(**self.known(self.start), start=self.start["sequence"], **limits)
        answer = await self.store.plan(request)
        if "rows" not in answer:
            return 0
        self.end = answer
        return int(answer["rows"])

    async def read(self, parts: int = 1, **options: Any) -> list[bytes]:
        """Read the planned batch, as after a restart of the query."""
        end = self.end
        known = {**self.known(end), **options}
        split = SplitSequences(**known, after=end["after"], upto=end["sequence"], rows=end["rows"], parts=parts)
        bodies = []
        for after, upto, rows in (await self.store.split(split))["parts"]:
            found = await self.store.fetch(SequenceTicket(**known, after=after, upto=upto, rows=rows))
            bodies += [row.message.body for row in found]
        return bodies


def stream(here: Bench, **options: Any) -> Stream:
    return Stream(here.service.sequences, **options)


async def test_batches_follow_each_other_and_take_nothing(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        queue = here.declare("q")
        reading = stream(here)
        assert await reading.plan() == 0
        await here.publish("q", numbered(10))
        assert await reading.plan(messages_max=4) == 4
        assert (reading.end["after"], reading.end["sequence"], reading.end["missing"]) == (0, 4, 0)
        assert await reading.read() == await reading.read(parts=3) == numbered(4)
        assert await reading.plan(bytes_max=11) == 2
        assert await reading.read() == numbered(2, 4)
        assert await reading.plan(bytes_max=1) == 1  # one always fits
        assert await reading.plan(last_sequence=8) == 1
        assert await reading.plan(last_sequence=8) == 0
        assert await reading.plan() == 2
        assert await reading.read(parts=5) == numbered(2, 8)
        assert await reading.plan() == 0
        assert queue.order.count == 10
        await here.publish("q", numbered(1, 10))
        assert await reading.plan() == 1
        assert await reading.read() == numbered(1, 10)


async def test_a_planned_batch_outlives_its_messages_until_the_next_is_planned() -> None:
    async with bench() as here:
        here.declare("q", arguments={"x-ring-size": 5})
        await here.publish("q", numbered(5))
        reading = stream(here)
        assert await reading.plan(messages_max=3) == 3
        await here.publish("q", numbered(4, 5))
        assert await reading.read() == numbered(3)
        with pytest.raises(LeaseGoneError, match="1 messages of queue 'q' with numbers 4 to 9 left it") as told:
            await reading.plan()
        assert "failOnDataLoss=false" in str(told.value)
        reading.end = reading.start  # it was not planned
        assert await reading.plan(fail_on_data_loss=False) == 5
        assert (reading.end["missing"], reading.end["after"]) == (1, 3)
        assert await reading.read() == numbered(5, 4)


async def test_a_new_stream_begins_with_the_oldest_message_and_misses_none() -> None:
    async with bench() as here:
        here.declare("q", arguments={"x-ring-size": 3})
        await here.publish("q", numbered(10))
        reading = stream(here)
        assert await reading.plan() == 3
        assert (reading.end["missing"], reading.end["sequence"]) == (0, 10)
        assert await reading.read() == numbered(3, 7)


async def test_numbers_of_replaced_values_are_counted_and_are_no_loss() -> None:
    async with bench() as here:
        here.declare("q", arguments={"x-last-value-key": "k"})
        reading = stream(here)
        await here.publish("q", numbered(2), headers={"k": "a"})
        assert await reading.plan() == 1
        await here.publish("q", numbered(3, 2), headers={"k": "a"})
        assert await reading.plan() == 1
        assert reading.end["missing"] == 2
        assert await reading.read() == [b"0004"]


async def test_a_selector_chooses_and_what_it_passes_over_is_looked_at_once() -> None:
    async with bench() as here:
        here.declare("q")
        reading = stream(here, selector="kind = 'b'")
        await here.publish("q", numbered(3), headers={"kind": "a"})
        assert await reading.plan() == 0
        assert await reading.plan() == 0
        await here.publish("q", numbered(2, 3), headers={"kind": "b"})
        await here.publish("q", numbered(1, 5), headers={"kind": "a"})
        assert await reading.plan() == 2
        assert (reading.end["sequence"], reading.end["missing"]) == (5, 0)
        assert await reading.read() == numbered(2, 3)
        with pytest.raises(InvalidRequestError, match="invalid selector"):
            await stream(here, selector="kind =", reader="two").plan()


async def test_messages_in_delivery_are_shown_and_scheduled_ones_hold_back_what_came_later() -> None:
    clock = [1_000_000]
    async with bench(clock=lambda: clock[0]) as here:
        queue = here.declare("q")
        await here.publish("q", numbered(2))
        (taken,) = queue.acquire(1, -1, clock[0])
        await here.publish("q", numbered(1, 2), headers={"x-delay": 500})
        await here.publish("q", numbered(1, 3))
        reading = stream(here)
        assert await reading.plan() == 2
        assert await reading.read() == numbered(2)
        queue.acknowledge(taken)
        assert await reading.plan() == 0
        clock[0] += 500
        queue.tick(clock[0])
        assert await reading.plan() == 2
        assert await reading.read() == numbered(2, 2)
        assert reading.end["missing"] == 0


async def test_expired_messages_are_gone() -> None:
    clock = [1_000_000]
    async with bench(clock=lambda: clock[0]) as here:
        here.declare("q", arguments={"x-message-ttl": 100})
        reading = stream(here)
        await here.publish("q", numbered(1))
        assert await reading.plan() == 1
        await here.publish("q", numbered(1, 1))
        clock[0] += 101
        await here.publish("q", numbered(1, 2))
        assert await reading.plan(fail_on_data_loss=False) == 1
        assert reading.end["missing"] == 1


async def test_a_batch_is_read_again_after_a_restart_as_far_as_it_lives(tmp_path: Path) -> None:
    async with bench(tmp_path / "data") as here:
        queue = here.declare("q")
        await here.publish("q", numbered(6))
        reading = stream(here)
        assert await reading.plan() == 6
        image = crash_image(tmp_path / "data", tmp_path / "image")
        queue.acknowledge(queue.acquire(1, -1, 0)[0])
        await here.broker.commit.durable()
        later = crash_image(tmp_path / "data", tmp_path / "later")
    async with bench(image) as here:
        reading.store = here.service.sequences
        assert await reading.read(parts=2) == numbered(6)
        assert await reading.plan() == 0
        await here.publish("q", numbered(1, 6))
        assert await reading.plan() == 1
        assert await reading.read() == numbered(1, 6)
    reading.end = reading.start
    async with bench(later) as here:
        reading.store = here.service.sequences
        with pytest.raises(LeaseGoneError, match="1 of 6 messages of queue 'q'"):
            await reading.read()
        assert await reading.read(fail_on_data_loss=False) == numbered(5, 1)


async def test_numbers_of_transient_messages_are_given_anew_after_a_restart(tmp_path: Path) -> None:
    async with bench(tmp_path / "data") as here:
        here.declare("q")
        await here.publish("q", numbered(2))
        await here.publish("q", numbered(3, 2), persistent=False)
        reading = stream(here)
        assert await reading.plan() == 5
        assert (reading.end["sequence"], reading.end["safe"]) == (5, 2)
        image = crash_image(tmp_path / "data", tmp_path / "image")
    async with bench(image) as here:
        reading.store = here.service.sequences
        await here.publish("q", numbered(2, 5))
        assert here.host.queues["q"].next_sequence == 5
        with pytest.raises(LeaseGoneError, match="3 of 5 messages"):
            await reading.read()
        assert await reading.read(fail_on_data_loss=False) == numbered(2)
        assert await reading.plan() == 2
        assert (await reading.read(), reading.end["missing"]) == (numbered(2, 5), 0)


async def test_numbers_of_messages_taken_before_they_were_written_are_given_anew_after_a_restart(
    tmp_path: Path,
) -> None:
    disk, begun = threading.Event(), threading.Event()

    def keep_busy() -> None:
        begun.set()
        disk.wait()

    async with bench(tmp_path / "data") as here:
        queue = here.declare("q")
        await here.publish("q", numbered(1))
        busy = asyncio.create_task(here.broker.commit.between_windows(lambda: None, keep_busy))
        await asyncio.to_thread(begun.wait)
        publishing = asyncio.create_task(here.publish("q", numbered(1, 1)))
        while queue.order.count < 2:  # noqa: ASYNC110 - nothing tells its end
            await asyncio.sleep(0)
        reading = stream(here)
        planning = asyncio.create_task(reading.plan())
        readers = here.service.sequences._readers
        while not any(reader.kept for reader in readers.values()):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0)
        for entry in queue.acquire(2, -1, 0):
            queue.acknowledge(entry)
        disk.set()
        await asyncio.gather(busy, publishing)
        assert await planning == 2
        assert (reading.end["sequence"], reading.end["safe"]) == (2, 1)
    async with bench(tmp_path / "data") as here:
        reading.store = here.service.sequences
        await here.publish("q", numbered(1, 2))
        assert here.host.queues["q"].next_sequence == 3
        assert await reading.plan() == 1
        assert await reading.read() == numbered(1, 2)


async def test_a_queue_that_was_declared_anew_is_told() -> None:
    async with bench() as here:
        for durable in (True, False):
            reading = stream(here)
            here.declare("q", durable=durable)
            await here.publish("q", numbered(2))
            assert await reading.plan() == 2
            here.host.delete_queue(here.host.queues["q"], 0)
            with pytest.raises(NotFoundError):
                await reading.plan()
            here.declare("q", durable=durable)
            await here.publish("q", numbered(3, 2))
            with pytest.raises(LeaseGoneError, match="declared anew"):
                await reading.plan()
            assert await reading.plan(fail_on_data_loss=False) == 3
            assert await reading.read() == numbered(3, 2)
            here.host.delete_queue(here.host.queues["q"], 0)


async def test_what_idle_streams_keep_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1_000_000]
    async with bench(clock=lambda: clock[0]) as here:
        here.declare("q")
        await here.publish("q", numbered(2))
        message = next(iter(here.host.queues["q"].browse())).message
        near = message.near
        reading = stream(here)
        await reading.plan()
        assert message.near == near + 1
        clock[0] += READER_IDLE_MAX
        assert here.service.sequences.expire() == 0
        clock[0] += 1
        assert here.service.sequences.expire() == 1
        assert message.near == near
        assert await reading.read() == numbered(2)  # of the queue
        monkeypatch.setattr(sequences, "READERS_MAX", 1)
        await stream(here, reader="two").plan()
        assert len(here.service.sequences) == 1


async def test_a_call_that_waited_for_a_replaced_stream_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench(tmp_path) as here:
        here.declare("q")
        await here.publish("q", numbered(4))
        monkeypatch.setattr(sequences, "READERS_MAX", 1)
        repeated = stream(here)
        calls = stream(here).plan(), repeated.plan(), stream(here, reader="two").plan()  # the first has the stream
        first, waited, other = await asyncio.gather(*calls, return_exceptions=True)
        assert (first, other) == (4, 4)
        assert isinstance(waited, UnavailableError)
        assert "repeat the call" in str(waited)
        assert await repeated.plan() == 4
        assert await repeated.read() == numbered(4)


async def test_a_run_that_is_to_end_does_not_end_because_the_disk_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench(tmp_path) as here:
        here.declare("q")
        await here.publish("q", numbered(2))

        async def refused(queue: Any, after: int, *arguments: Any, **limits: Any) -> Stretch:
            return Stretch(scanned=after, refused=True)

        reading = stream(here)
        with monkeypatch.context() as patched:
            patched.setattr(sequences, "read_stretch", refused)
            assert await reading.plan() == 0, "a stream without an end asks again"
            with pytest.raises(UnavailableError, match="behind number 0 now; check the disk"):
                await reading.plan(last_sequence=2)
        assert await reading.plan(last_sequence=2) == 2


async def test_impossible_starts_are_refused() -> None:
    async with bench() as here:
        here.declare("q")
        with pytest.raises(InvalidRequestError, match="start -2"):
            await here.service.sequences.plan(PlanSequences(queue="q", reader="one", start=-2))
