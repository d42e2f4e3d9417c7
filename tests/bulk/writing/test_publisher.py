"""Staged publishes: whole, once, in order, and nothing before everything is known to be right."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from annulet.broker.paging.spill_pace import SPILL_FULL, SpillPace
from annulet.bulk.protocol.errors import NotFoundError, PermissionDeniedError, RefusedError, UnavailableError
from annulet.bulk.reading.adoption import LeaseRequest
from annulet.bulk.writing import publisher
from annulet.bulk.writing.encoding import WriteDefaults
from annulet.bulk.writing.publisher import CommitRequest
from annulet.bulk.writing.stages import StageKey
from annulet.core.base.steps import ROUTING_STEPS_MAX
from annulet.core.queue.invariants import check_invariants
from annulet.core.queue.queue import Queue
from annulet.store.files.errors import CatalogueError, DiskFullError
from tests.bulk.helpers import Bench, bench, crash_image


def anyone(_: str) -> bool:
    return True


def stage(
    here: Bench, batch: int, bodies: list[bytes], partition: int = 0, query: str = "query", **columns: Any
) -> str:
    name = f"{batch}-{partition}-0-{uuid.uuid4().hex}"
    rows = pa.record_batch({"body": pa.array(bodies, pa.binary()), **columns})
    here.service.stages.write(StageKey(query, name), rows.schema, [rows])
    return name


async def commit(
    here: Bench,
    batch: int,
    *stages: str,
    query: str = "query",
    defaults: WriteDefaults | None = None,
    mandatory: bool = True,
    may_write: Callable[[str], bool] = anyone,
) -> dict[str, int]:
    places = defaults or WriteDefaults(address="q")
    request = CommitRequest("/", query, f"before:{query}", batch, stages, places, mandatory, "tester@here")
    return await here.service.publisher.commit(request, may_write)


async def begun(queue: Queue) -> None:
    """Wait until a commit has put something into a queue, which nobody else sees."""
    while not queue.hidden:  # noqa: ASYNC110 - the commit gives us a turn after each slice
        await asyncio.sleep(0)


async def test_a_batch_is_published_in_partition_order_and_once(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        queue = here.declare("q")
        stages = stage(here, 0, [b"a", b"b"]), stage(here, 0, [b"c"], 1)
        stale = stage(here, 0, [b"x"], 1)
        assert await commit(here, 0, *stages) == {"messages": 3, "unroutable": 0, "repeated": 0}
        assert await commit(here, 0, *stages) == {"messages": 0, "unroutable": 0, "repeated": 1}
        assert await commit(here, 0, stale) == {"messages": 0, "unroutable": 0, "repeated": 1}
        assert here.bodies("q") == [b"a", b"b", b"c"]
        assert here.service.stages.count() == 0
        assert queue.browse()[0].message.origin.publisher == "tester@here"
        check_invariants(queue)


async def test_two_drivers_that_commit_the_same_batch_publish_it_once(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        here.declare("q")
        ours, theirs = stage(here, 0, [b"a", b"b"]), stage(here, 0, [b"b", b"a"])
        answers = await asyncio.gather(commit(here, 0, ours), commit(here, 0, theirs))
        assert sorted(answer["messages"] for answer in answers) == [0, 2]
        assert sorted(here.bodies("q")) == [b"a", b"b"]


@pytest.mark.parametrize("durable_mark", [False, True])
async def test_a_crash_after_the_log_and_before_the_catalogue(
    tmp_path: Path, durable_mark: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    async with bench(data) as here:
        here.declare("q")
        name = stage(here, 7, [b"a", b"b"])
        image = crash_image(data, tmp_path / "before")
        with monkeypatch.context() as patch:
            if not durable_mark:
                patch.setattr(here.broker.catalogue, "set_publish_mark", _crash)
                with pytest.raises(EndOfProcessError):
                    await commit(here, 7, name)
            else:
                await commit(here, 7, name)
        after = crash_image(data, tmp_path / "after")
    async with bench(image) as here:  # nothing had happened: the commit is done now
        assert here.bodies("q") == []
        assert (await commit(here, 7, name))["messages"] == 2
        assert here.bodies("q") == [b"a", b"b"]
    async with bench(after) as here:  # it had happened: the commit is answered
        assert here.bodies("q") == [b"a", b"b"]
        assert (await commit(here, 7, name))["repeated"] == 1
        assert here.bodies("q") == [b"a", b"b"]


async def test_delayed_rows_wait_before_a_restart_and_after(tmp_path: Path) -> None:
    properties = pa.array([None, [("x-delay", "3600000")]], pa.map_(pa.string(), pa.string()))
    async with bench(tmp_path) as here:
        queue = here.declare("q")
        await commit(here, 0, stage(here, 0, [b"now", b"later"], properties=properties))
        assert (here.bodies("q"), queue.schedule.count) == ([b"now"], 1)
    async with bench(tmp_path) as here:
        queue = here.broker.hosts["/"].queues["q"]
        assert (here.bodies("q"), queue.schedule.count) == ([b"now"], 1)


class EndOfProcessError(Exception):
    """Stands for the end of the process."""


def _crash(*_: object) -> None:
    raise EndOfProcessError


@pytest.mark.parametrize(
    ("defaults", "error", "text"),
    [
        (WriteDefaults(address="nope"), NotFoundError, "no queue or exchange 'nope'"),
        (WriteDefaults(address=""), NotFoundError, "no queue or exchange ''"),
        (WriteDefaults(exchange="nope"), NotFoundError, "no exchange 'nope'"),
        (WriteDefaults(exchange="", routing_key="nope"), NotFoundError, "no queue 'nope'"),
        (WriteDefaults(exchange="amq.topic", routing_key="a.b"), RefusedError, "mandatory=false"),
        (WriteDefaults(), RefusedError, ""),
    ],
)
async def test_nothing_is_published_when_anything_is_wrong(
    tmp_path: Path, defaults: WriteDefaults, error: type[Exception], text: str
) -> None:
    async with bench(tmp_path) as here:
        here.declare("q")
        good = stage(here, 0, [b"good"], address=["q"], exchange=pa.array([None], pa.string()))
        bad = stage(here, 0, [b"bad"], 1)
        if defaults == WriteDefaults():
            error, text = Exception, "row 0 has no destination"
        with pytest.raises(error) as caught:
            await commit(here, 0, good, bad, defaults=defaults)
        assert text in str(caught.value)
        assert here.bodies("q") == []
        assert here.service.stages.count() == 2  # the commit may come again when the queue was declared


async def test_a_batch_whose_way_has_too_many_steps_is_refused_as_a_whole(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        queue = here.declare("q")
        drawn = random.Random(30)
        for _ in range(ROUTING_STEPS_MAX // 100):
            here.host.bind_queue(queue, "amq.topic", ".".join(drawn.choice("a*#") for _ in range(120)), {})
        good = stage(here, 0, [b"good"], address=["q"], exchange=pa.array([None], pa.string()))
        far = stage(here, 0, [b"far"], 1, routing_key=[".".join(["a"] * 120)])
        with pytest.raises(RefusedError, match=r"nothing was published: .*steps"):
            await commit(here, 0, good, far, defaults=WriteDefaults(exchange="amq.topic"), mandatory=False)
        assert here.bodies("q") == []


async def test_unroutable_rows_may_be_dropped_and_are_counted(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        queue = here.declare("q")
        here.host.bind_queue(queue, "amq.direct", "yes", {})
        name = stage(here, 0, [b"a", b"b", b"c"], routing_key=["yes", "no", "yes"])
        answer = await commit(here, 0, name, defaults=WriteDefaults(exchange="amq.direct"), mandatory=False)
        assert answer == {"messages": 2, "unroutable": 1, "repeated": 0}
        assert here.bodies("q") == [b"a", b"c"]
        assert here.broker.unroutable == 1


async def test_permission_is_asked_per_exchange(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        here.declare("q")
        asked: list[str] = []

        def nobody(exchange: str) -> bool:
            asked.append(exchange)
            return False

        with pytest.raises(PermissionDeniedError):
            await commit(here, 0, stage(here, 0, [b"a"]), may_write=nobody)
        assert asked == [""]
        assert here.bodies("q") == []


async def test_a_full_broker_is_asked_again_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(tmp_path) as here:
        here.declare("q")
        name = stage(here, 0, [b"a"])
        with monkeypatch.context() as patch:
            patch.setattr(here.broker, "memory_blocked", True)
            with pytest.raises(UnavailableError, match="held back"):
                await commit(here, 0, name)
        with monkeypatch.context() as patch:
            patch.setattr(here.broker, "accepts_durable", lambda *_: False)
            with pytest.raises(UnavailableError, match="no room"):
                await commit(here, 0, name)
        with monkeypatch.context() as patch:
            patch.setattr(here.broker, "spill_pace", full_pace())
            assert (await commit(here, 0, name))["messages"] == 1, "what the log takes"


async def test_what_is_transient_waits_for_a_full_spill_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(tmp_path) as here:
        here.declare("q")
        name = stage(here, 0, [b"a"], persistent=pa.array([False]))
        with monkeypatch.context() as patch:
            patch.setattr(here.broker, "spill_pace", full_pace())
            with pytest.raises(UnavailableError, match="the spill store is full"):
                await commit(here, 0, name)
        assert (await commit(here, 0, name))["messages"] == 1


def full_pace() -> SpillPace:
    """Return one that the pager's ticks do not look at."""
    pace = SpillPace()
    pace.state = SPILL_FULL
    return pace


async def test_what_goes_to_a_queue_that_is_not_durable_waits_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench(tmp_path) as here:
        here.host.declare_queue("q", now=here.broker.clock())
        name = stage(here, 0, [b"a"])
        with monkeypatch.context() as patch:
            patch.setattr(here.broker, "spill_pace", full_pace())
            with pytest.raises(UnavailableError, match="the spill store is full"):
                await commit(here, 0, name)
        assert (await commit(here, 0, name))["messages"] == 1


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_full_queue_takes_nothing_of_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, at_once: bool
) -> None:
    if not at_once:
        monkeypatch.setattr("annulet.bulk.writing.publisher.SLICE", 2)
    async with bench(tmp_path) as here:
        here.declare("q", arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
        here.declare("open")
        name = stage(here, 0, [b"a", b"b", b"c", b"d"], address=["open", "q", "q", "q"])
        with pytest.raises(UnavailableError, match=r"nothing was published: queue 'q' is full: with this message 3"):
            await commit(here, 0, name)
        assert here.bodies("q") == here.bodies("open") == []
        fits = stage(here, 0, [b"a", b"b"])
        assert (await commit(here, 0, fits))["messages"] == 2
        assert here.bodies("q") == [b"a", b"b"]


async def test_a_large_batch_gives_others_a_turn_and_stays_one_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "SLICE", 4)
    data = tmp_path / "data"
    async with bench(data) as here:
        queue = here.declare("q")
        here.declare("other")
        name = stage(here, 0, [b"%02d" % number for number in range(11)])
        pending = asyncio.ensure_future(commit(here, 0, name))
        await begun(queue)
        assert (queue.order.count, here.bodies("q")) == (4, [])
        await here.publish("other", [b"between"])
        image = crash_image(data, tmp_path / "image")
        assert (await pending)["messages"] == 11
        assert len(here.bodies("q")) == 11
    async with bench(image) as here:
        assert here.bodies("other") == [b"between"]
        assert len(here.bodies("q")) in (0, 11)  # whole or not at all
        if not here.bodies("q"):
            assert (await commit(here, 0, name))["messages"] == 11


async def test_rows_of_one_commit_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher, "COMMIT_MESSAGES_MAX", 2)
    async with bench(tmp_path) as here:
        here.declare("q")
        await commit(here, 0, stage(here, 0, [b"a", b"b"]))
        with pytest.raises(RefusedError, match="maxMessagesPerTrigger"):
            await commit(here, 1, stage(here, 1, [b"a", b"b", b"c"]))


async def test_abort_and_forget(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        here.declare("q")
        first = stage(here, 0, [b"a"])
        await here.service.publisher.abort("query", [first])
        with pytest.raises(NotFoundError, match="Restart the query"):
            await commit(here, 0, first)
        await commit(here, 0, stage(here, 0, [b"a"]))
        here.service.publisher.forget("query", "before:query")
        assert here.broker.catalogue.publish_mark("query") is None


async def test_a_mark_without_a_user_counts_until_its_id_is_forgotten(tmp_path: Path) -> None:
    """Before version 0.4.0 marks named no user: an upgrade must not publish such a batch again."""
    async with bench(tmp_path) as here:
        here.declare("q")
        here.broker.catalogue.set_publish_mark("before:query", 3, 0)
        assert (await commit(here, 3, stage(here, 3, [b"a"])))["repeated"] == 1
        here.service.publisher.forget("query", "before:query")
        assert here.broker.catalogue.publish_mark("before:query") == 3, "another user may go on from it"
        assert (await commit(here, 3, stage(here, 3, [b"b"])))["messages"] == 1
        assert (await commit(here, 3, stage(here, 3, [b"b"])))["repeated"] == 1
        here.service.publisher.forget("query", "before:query")
        assert (await commit(here, 0, stage(here, 0, [b"c"])))["messages"] == 1
        assert here.bodies("q") == [b"b", b"c"]


async def test_a_commit_without_rows_marks_nothing(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        here.declare("q")
        empty = stage(here, 5, [])
        for _ in range(2):  # the answer may be lost, so it can be asked for again
            assert await commit(here, 5, empty, may_write=lambda _: False) == {
                "messages": 0,
                "unroutable": 0,
                "repeated": 0,
            }
        assert here.broker.catalogue.publish_mark("query") is None
        assert (await commit(here, 4, stage(here, 4, [b"a"])))["messages"] == 1
        assert here.service.stages.count() == 1
        assert (await commit(here, 5, stage(here, 5, [b"b"])))["messages"] == 1
        assert here.service.stages.count() == 0


async def test_a_batch_that_fails_half_way_leaves_no_transaction_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "SLICE", 1)
    data = tmp_path / "data"
    async with bench(data) as here:
        queue = here.declare("q")
        name = stage(here, 0, [b"a", b"b"])
        clock = here.broker.clock
        failures = [DiskFullError("no disk space")]

        def failing() -> int:
            if failures and queue.order.count:
                raise failures.pop()
            return clock()

        with monkeypatch.context() as patch:
            patch.setattr(here.broker, "clock", failing)
            with pytest.raises(DiskFullError):
                await commit(here, 0, name)
        await here.publish("q", [b"confirmed"])  # must not land in the batch's transaction
        assert here.bodies("q") == [b"confirmed"]  # what reached the queue was taken back, and nobody saw it
        check_invariants(queue)
        image = crash_image(data, tmp_path / "image")
        assert here.broker.log.statistics().open_transactions == 0
    async with bench(image) as here:
        assert here.bodies("q") == [b"confirmed"]


async def test_a_catalogue_that_refuses_the_mark_does_not_double_the_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench(tmp_path) as here:
        here.declare("q")
        name = stage(here, 3, [b"a"])

        def refuse(*_: object) -> None:
            raise CatalogueError("disk full")

        with monkeypatch.context() as patch:
            patch.setattr(here.broker.catalogue, "set_publish_mark", refuse)
            for _ in range(2):
                with pytest.raises(CatalogueError):
                    await commit(here, 3, name)
        assert (await commit(here, 3, name))["repeated"] == 1
        assert here.broker.catalogue.publish_mark("query") == 3
        assert here.bodies("q") == [b"a"]


async def test_commits_of_a_query_never_run_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(tmp_path) as here:
        here.declare("q")
        name = stage(here, 0, [b"a"])
        work = here.service.publisher._commit
        running: list[int] = []

        async def observed(*arguments: Any) -> dict[str, int]:
            assert not running
            running.append(0)
            try:
                await asyncio.sleep(0)
                return await work(*arguments)
            finally:
                running.clear()

        monkeypatch.setattr(here.service.publisher, "_commit", observed)
        third: list[asyncio.Task[dict[str, int]]] = []
        first, second = (asyncio.ensure_future(commit(here, 0, name)) for _ in range(2))
        first.add_done_callback(lambda _: third.append(asyncio.ensure_future(commit(here, 0, name))))
        answers = [await first, await second, await third[0]]
        assert sorted(answer["messages"] for answer in answers) == [0, 0, 1]
        assert here.service.publisher._locks == {}


async def test_a_lease_registers_no_message_of_an_uncommitted_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "SLICE", 1)
    async with bench(tmp_path) as here:
        queue = here.declare("q")
        leases = here.service.leases
        generation = (await leases.open(LeaseRequest("/", "l", "q", "owner", fresh=True)))["generation"]
        marks: list[int] = []
        monkeypatch.setattr(here.broker.catalogue, "add_lease_range", _noting(here, marks))
        name = stage(here, 0, [b"%04d" % number for number in range(2000)])
        committing = asyncio.ensure_future(commit(here, 0, name))
        await begun(queue)
        assert await leases.extend("/", "l", generation, 0, messages_max=1) == 0
        assert (await committing)["messages"] == 2000
        assert await leases.extend("/", "l", generation, 0, messages_max=1) == 1
        assert marks == [0]  # no transaction was open any more when the positions were written


def _noting(here: Bench, marks: list[int]) -> Callable[..., None]:
    add = here.broker.catalogue.add_lease_range

    def noting(*arguments: Any) -> None:
        marks.append(here.broker.log.statistics().open_transactions)
        add(*arguments)

    return noting
