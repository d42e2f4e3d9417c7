"""Leases: positions, fencing, replay after crashes, and everything once."""

from __future__ import annotations

import asyncio
import dataclasses
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from annulet.broker.security.authentication import User
from annulet.bulk.protocol.errors import (
    InvalidRequestError,
    LeaseFencedError,
    LeaseGoneError,
    LeaseInUseError,
    NotFoundError,
    RefusedError,
    UnavailableError,
)
from annulet.bulk.protocol.schema import Row
from annulet.bulk.reading.adoption import LeaseRequest
from annulet.bulk.reading.leases import GENERATED_LEASE_IDLE_MAX, LeaseManager
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.queue.invariants import check_invariants
from annulet.store.files.errors import CatalogueError
from tests.bulk.helpers import Bench, bench, crash_image


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"%04d" % number for number in range(first, first + count)]


def request(**changes: Any) -> LeaseRequest:
    return dataclasses.replace(LeaseRequest("/", "lease", "q", "owner", fresh=True), **changes)


async def opened(leases: LeaseManager, **changes: Any) -> int:
    return (await leases.open(request(**changes)))["generation"]


async def read(leases: LeaseManager, after: int, upto: int, *, owner: str = "owner", loss: bool = False) -> list[bytes]:
    rows = await leases.fetch("/", "lease", owner, after, upto, fail_on_data_loss=not loss)
    return [row.message.body for row in rows]


async def test_positions_are_given_read_and_acknowledged(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        queue = here.declare("q")
        await here.publish("q", numbered(10))
        leases = here.service.leases
        generation = await opened(leases)
        assert await leases.extend("/", "lease", generation, 0, messages_max=4) == 4
        assert await leases.extend("/", "lease", generation, 0, messages_max=4) == 4  # repeatable
        assert await leases.extend("/", "lease", generation, 0, messages_max=3) == 3
        assert await read(leases, 0, 4) == await read(leases, 0, 4) == numbered(4)
        assert await read(leases, 2, 3) == numbered(1, 2)
        assert (queue.order.count, len(queue.delivering)) == (6, 4)
        assert await leases.extend("/", "lease", generation, 4) == 10
        assert here.bodies("q") == numbered(6, 4)
        await leases.acknowledge("/", "lease", generation, 10)
        await leases.acknowledge("/", "lease", generation, 10)
        await leases.acknowledge("/", "lease", generation, 7)
        assert here.bodies("q") == []
        assert await leases.extend("/", "lease", generation, 10) == 10
        assert queue.counters.removed[RemovalReason.ACKNOWLEDGED] == 10
        check_invariants(queue)


async def test_limits_at_the_border(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        here.declare("q")
        await here.publish("q", [b"x" * 10] * 6)
        leases = here.service.leases
        generation = await opened(leases)
        assert await leases.extend("/", "lease", generation, 0, bytes_max=9) == 1  # one always fits
        assert await leases.extend("/", "lease", generation, 1, bytes_max=20) == 3
        assert await leases.extend("/", "lease", generation, 3, bytes_max=29) == 5
        assert await leases.extend("/", "lease", generation, 5, last_sequence=5) == 5
        assert await leases.extend("/", "lease", generation, 5, last_sequence=6) == 6
        assert await leases.extend("/", "lease", generation, 6, last_sequence=0) == 6


async def test_a_newer_generation_fences_the_older(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        here.declare("q")
        await here.publish("q", numbered(4))
        leases = here.service.leases
        zombie = await opened(leases)
        end = await leases.extend("/", "lease", zombie, 0)
        assert await read(leases, 0, end) == numbered(4)
        generation = await opened(leases, fresh=False, position=end)
        assert generation > zombie
        for attempt in (
            leases.extend("/", "lease", zombie, end),
            leases.acknowledge("/", "lease", zombie, end),
        ):
            with pytest.raises(LeaseFencedError, match="this one must stop"):
                await attempt
        with pytest.raises(LeaseFencedError):
            leases.renew("/", "lease", zombie)
        assert await read(leases, 0, end) == numbered(4)  # a read changes nothing, so tasks under way may finish
        assert len(here.bodies("q")) == 4
        leases.renew("/", "lease", generation)


@pytest.mark.parametrize(("choice", "base", "expected"), [("resume", 0, numbered(4)), ("release", 4, numbered(4))])
async def test_another_checkpoint(tmp_path: Path, choice: str, base: int, expected: list[bytes]) -> None:
    async with bench(tmp_path) as here:
        queue = here.declare("q")
        await here.publish("q", numbered(4))
        leases = here.service.leases
        generation = await opened(leases)
        assert await leases.extend("/", "lease", generation, 0) == 4
        await read(leases, 0, 4)  # claims it
        with pytest.raises(LeaseInUseError, match="onExistingLease=resume"):
            await opened(leases, owner="other")
        answer = await leases.open(request(owner="other", on_existing=choice))
        assert answer["position"] == base
        end = await leases.extend("/", "lease", answer["generation"], base)
        assert await read(leases, base, end, owner="other") == expected
        with pytest.raises(LeaseInUseError, match="taken over"):
            await opened(leases, fresh=False, position=4)
        with pytest.raises(LeaseFencedError):
            await read(leases, 0, 4)
        check_invariants(queue)


async def test_a_first_batch_that_was_never_read_may_be_planned_by_a_new_checkpoint(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        here.declare("q")
        await here.publish("q", numbered(4))
        leases = here.service.leases
        assert await leases.extend("/", "lease", await opened(leases, owner="crashed"), 0) == 4
        answer = await leases.open(request(owner="new"))
        assert answer["position"] == 0
        assert await leases.extend("/", "lease", answer["generation"], 0) == 4
        assert await read(leases, 0, 4, owner="new") == numbered(4)


async def test_release_returns_and_the_query_is_told(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        queue = here.declare("q")
        await here.publish("q", numbered(4))
        leases = here.service.leases
        generation = await opened(leases)
        await leases.extend("/", "lease", generation, 0, messages_max=3)
        assert await leases.release("/", "lease") == 3
        assert queue.order.count == 4
        for attempt in (
            leases.extend("/", "lease", generation, 0),
            leases.open(request(fresh=False, position=3)),
            leases.release("/", "lease"),
        ):
            with pytest.raises(LeaseGoneError, match="lease range gone"):
                await attempt
        generation = await opened(leases, fresh=False, position=3, fail_on_data_loss=False)
        assert await read(leases, 0, 3, loss=True) == []
        assert leases.status("/", "lease")["gap"] == 3
        end = await leases.extend("/", "lease", generation, 3)
        assert (end, await read(leases, 3, end)) == (7, numbered(4))
        assert queue.browse()[0].delivery_count == 1
        check_invariants(queue)


async def test_only_idle_generated_leases_expire(tmp_path: Path) -> None:
    now = [1_000_000]
    async with bench(tmp_path, clock=lambda: now[0]) as here:
        here.declare("q")
        await here.publish("q", numbered(2))
        leases = here.service.leases
        await opened(leases)
        generation = await opened(leases, name="generated", generated=True)
        assert await leases.extend("/", "generated", generation, 0) == 2
        now[0] += GENERATED_LEASE_IDLE_MAX
        assert await leases.expire() == 0
        now[0] += 1
        assert await leases.expire() == 1
        assert [lease["name"] for lease in leases.statistics()] == ["lease"]
        assert here.host.queues["q"].order.count == 2


async def test_queues_that_cannot_be_leased(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        here.declare("transient", durable=False)
        leases = here.service.leases
        with pytest.raises(RefusedError, match="declare it durable"):
            await opened(leases, queue="transient")
        with pytest.raises(NotFoundError, match="no queue 'nope'"):
            await opened(leases, queue="nope")
        with pytest.raises(NotFoundError, match="no virtual host 'nope'"):
            await opened(leases, host="nope")
        here.declare("q")
        with pytest.raises(InvalidRequestError):
            await opened(leases, name="")
        with pytest.raises(InvalidRequestError):
            await opened(leases, name="x" * 256)
        with pytest.raises(InvalidRequestError):
            await opened(leases, on_existing="steal")
        generation = await opened(leases)
        with pytest.raises(InvalidRequestError, match="above its last position"):
            await leases.extend("/", "lease", generation, 1)
        here.declare("other")
        with pytest.raises(LeaseInUseError, match="reads queue 'q'"):
            await opened(leases, queue="other")


async def test_deleting_the_queue_is_told(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        queue = here.declare("q")
        await here.publish("q", numbered(3))
        leases = here.service.leases
        generation = await opened(leases)
        end = await leases.extend("/", "lease", generation, 0)
        here.host.delete_queue(queue, here.broker.clock())
        with pytest.raises(LeaseGoneError):
            await read(leases, 0, end)
        with pytest.raises(LeaseGoneError):
            await leases.extend("/", "lease", generation, end)
        here.declare("q")
        with pytest.raises(LeaseGoneError):
            await opened(leases, fresh=False, position=end)


async def test_a_checkpoint_older_or_newer_than_the_lease_is_told(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        here.declare("q")
        await here.publish("q", numbered(4))
        leases = here.service.leases
        generation = await opened(leases)
        await leases.extend("/", "lease", generation, 0)
        await leases.acknowledge("/", "lease", generation, 2)
        with pytest.raises(LeaseGoneError, match="acknowledged already"):
            await leases.extend("/", "lease", generation, 0)
        assert await leases.extend("/", "lease", generation, 0, fail_on_data_loss=False) == 4
        with pytest.raises(LeaseGoneError, match="older than the checkpoint"):
            await opened(leases, fresh=False, position=9)
        with pytest.raises(InvalidRequestError, match="cannot be acknowledged"):
            await leases.acknowledge("/", "lease", generation + 0, 5)


async def test_a_catalogue_that_cannot_be_written_gives_the_messages_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench(tmp_path) as here:
        queue = here.declare("q")
        await here.publish("q", numbered(4))
        leases = here.service.leases
        generation = await opened(leases)

        def full(*_: object) -> None:
            raise CatalogueError("database or disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(here.broker.catalogue, "add_lease_range", full)
            with pytest.raises(CatalogueError):
                await leases.extend("/", "lease", generation, 0)
        assert (queue.order.count, len(queue.delivering)) == (4, 0)
        assert await leases.extend("/", "lease", generation, 0) == 4
        assert await read(leases, 0, 4) == numbered(4)


async def test_a_replay_after_a_crash_reads_the_same_rows(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with bench(data) as here:
        queue = here.declare("q", arguments={"x-last-value-key": "k"})
        await here.publish("q", [b"kept"], headers={"k": "a"})
        await here.publish("q", [b"transient"], persistent=False)
        returned = queue.acquire(1, -1, here.broker.clock())
        queue.return_entries(returned, here.broker.clock())  # delivery count 1, redelivered
        leases = here.service.leases
        generation = await opened(leases)
        assert await leases.extend("/", "lease", generation, 0) == 2
        before = await leases.fetch("/", "lease", "owner", 0, 2, fail_on_data_loss=True)
        await here.publish("q", [b"newer"], headers={"k": "a"})  # supersedes what the lease holds
        image = crash_image(data, tmp_path / "image")
    async with bench(image) as here:
        leases = here.service.leases
        await opened(leases, fresh=False, position=2)
        after = await leases.fetch("/", "lease", "owner", 0, 2, fail_on_data_loss=True)
        assert [facts(row) for row in after] == [facts(row) for row in before]
        assert [row.message.body for row in after] == [b"kept", b"transient"]
        queue = here.host.queues["q"]
        assert queue.order.count == 1
        check_invariants(queue)
        await leases.release("/", "lease")
        assert here.bodies("q") == [b"transient", b"newer"]  # the superseded one does not come back
        check_invariants(queue)


def facts(row: Row) -> tuple[object, ...]:
    message = row.message
    return (
        row.position,
        message.body,
        message.header,
        message.durable,
        message.accepted_at,
        row.delivery_count,
        row.redelivered,
        row.expires_at,
    )


STEPS = st.one_of(
    st.tuples(st.just("publish"), st.integers(1, 9), st.booleans()),
    st.tuples(st.just("plan"), st.integers(1, 6), st.booleans()),
    st.tuples(st.just("process"), st.booleans()),
    st.tuples(st.just("crash"), st.booleans()),
    st.tuples(st.just("restart query")),
)


class Query:
    """What Spark does with a lease: one planned batch at a time, outputs keyed by batch, a checkpoint that survives."""

    def __init__(self) -> None:
        self.start = 0
        self.planned: int | None = None
        self.fresh = True
        self.batch = 0
        self.output: dict[int, list[tuple[object, ...]]] = {}
        self.generation = 0

    async def plan(self, here: Bench, messages_max: int, *, written: bool) -> None:
        """``written``: the offset log was; else the query crashed before and forgets the end."""
        if self.planned is not None:
            return
        leases = here.service.leases
        if self.generation == 0:
            self.generation = await opened(leases, fresh=self.fresh, position=self.start)
        end = await leases.extend("/", "lease", self.generation, self.start, messages_max=messages_max)
        if not written:
            self.generation = 0
        elif end > self.start:
            self.planned = end
            self.fresh = False

    async def process(self, here: Bench, *, committed: bool) -> None:
        """Read the planned batch and put it out; not ``committed`` repeats it later."""
        if self.planned is None:
            return
        leases = here.service.leases
        if self.generation == 0:
            self.generation = await opened(leases, fresh=False, position=self.planned)
        fetched = await leases.fetch("/", "lease", "owner", self.start, self.planned, fail_on_data_loss=True)
        rows = [facts(row) for row in fetched]
        assert self.output.setdefault(self.batch, rows) == rows, "a replay reads the same"
        if committed:
            self.start, self.planned = self.planned, None
            self.batch += 1


# Each crash in an example starts a broker anew on its disk.
EXAMPLES = 200 if settings.get_current_profile_name() == "soak" else 12


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, min_size=4, max_size=14))
def test_everything_once_in_order_whatever_crashes(steps: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run_steps(steps, Path(folder)))


async def run_steps(steps: list[tuple[Any, ...]], folder: Path) -> None:
    query = Query()
    persistent: list[bytes] = []
    everything: list[bytes] = []
    generation = 0
    remaining = [*steps, ("end",)]
    while remaining:
        directory = folder / f"data-{generation}"
        generation += 1
        async with bench(directory) as here:
            if "q" not in here.host.queues:
                here.declare("q")
            while remaining:
                step = remaining.pop(0)
                if step[0] == "publish":
                    bodies = numbered(step[1], len(everything))
                    everything += bodies
                    persistent += bodies if step[2] else []
                    await here.publish("q", bodies, persistent=step[2])
                elif step[0] == "plan":
                    await query.plan(here, step[1], written=step[2])
                elif step[0] == "process":
                    await query.process(here, committed=step[1])
                elif step[0] == "restart query":
                    query.generation = 0
                elif step[0] == "crash":
                    crash_image(directory, folder / f"data-{generation}")
                    query.generation = 0 if step[1] else query.generation
                    break
                else:
                    await drain(here, query)
                check_invariants(here.host.queues["q"])
    bodies = [row[1] for batch in sorted(query.output) for row in query.output[batch]]
    assert bodies == sorted(set(bodies)), "in order, nothing twice"
    assert set(persistent) <= set(bodies) <= set(everything), "nothing lost"


async def drain(here: Bench, query: Query) -> None:
    while True:
        await query.process(here, committed=True)
        await query.plan(here, 5, written=True)
        if query.planned is None:
            break
    assert here.bodies("q") == [], "all of it acknowledged"


async def test_a_disk_without_room_gives_all_taken_messages_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench(tmp_path) as here:
        queue = here.declare("q")
        await here.publish("q", numbered(5), persistent=False)
        leases = here.service.leases
        generation = await opened(leases)
        room = [True, True, False]
        with monkeypatch.context() as patch:
            patch.setattr(here.broker, "accepts_durable", lambda *_: room.pop(0))
            with pytest.raises(UnavailableError, match="no room"):
                await leases.extend("/", "lease", generation, 0)
        assert (queue.order.count, len(queue.delivering)) == (5, 0)
        assert await leases.extend("/", "lease", generation, 0) == 5
        check_invariants(queue)


async def test_a_run_of_a_released_lease_cannot_touch_a_new_one_of_that_name(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        here.declare("q")
        await here.publish("q", numbered(4))
        leases = here.service.leases
        zombie = await opened(leases, owner="zombie")
        assert await leases.extend("/", "lease", zombie, 0) == 4
        await leases.release("/", "lease")
        generation = await opened(leases)
        assert await leases.extend("/", "lease", generation, 0) == 4
        with pytest.raises(LeaseFencedError):
            await leases.acknowledge("/", "lease", zombie, 4)
        with pytest.raises(LeaseFencedError):
            await leases.extend("/", "lease", zombie, 4)
        with pytest.raises(LeaseFencedError):  # unclaimed, but not the zombie's either
            await read(leases, 0, 4, owner="zombie")
        with pytest.raises(LeaseInUseError, match="taken over"):
            await opened(leases, owner="zombie", fresh=False, position=4)
        assert await read(leases, 0, 4) == numbered(4)


async def test_numbers_that_are_no_positions(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        here.declare("q")
        await here.publish("q", numbered(2))
        leases = here.service.leases
        generation = await opened(leases)
        with pytest.raises(InvalidRequestError, match="start -1"):
            await leases.extend("/", "lease", generation, -1, fail_on_data_loss=False)
        assert await leases.extend("/", "lease", generation, 0) == 2
        assert await read(leases, 0, 2**62, loss=True) == numbered(2)


async def test_a_query_of_a_deleted_queue_is_told_at_once(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        queue = here.declare("q")
        leases = here.service.leases
        generation = await opened(leases)
        here.host.delete_queue(queue, here.broker.clock())
        with pytest.raises(LeaseGoneError, match="was deleted"):
            await leases.extend("/", "lease", generation, 0)


async def test_leases_that_were_not_used_since_the_start_end_with_their_user(tmp_path: Path) -> None:
    """Issue 30: their users were forgotten at a start, and the messages stayed in delivery for good."""
    ann, bob = User("ann"), User("bob")
    async with bench(tmp_path) as here:
        here.declare("q")
        await here.publish("q", numbered(2))
        leases = here.service.leases
        for name, user in (("lease", ann), ("other", bob), ("unused", None)):
            generation = await opened(leases, name=name)
            if user is not None:
                leases.note_user("/", name, user)
            await leases.extend("/", name, generation, 0, messages_max=1)
        leases.note_user("/", "gone", ann)
    async with bench(tmp_path) as here:
        leases = here.service.leases
        queue = here.host.queues["q"]
        assert (queue.order.count, len(queue.delivering)) == (0, 2)
        assert await leases.revoke(lambda user: user.name == "ann") == 1
        assert (queue.order.count, len(queue.delivering)) == (1, 1)
        assert await leases.revoke(lambda user: user.name == "ann") == 0
        with pytest.raises(LeaseGoneError):
            await leases.release("/", "lease")
        await leases.release("/", "other")
