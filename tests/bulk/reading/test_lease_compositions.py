"""Leases over every kind of queue: order, caps, groups, schedule, pause, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from annulet.bulk.protocol.errors import RefusedError
from annulet.core.queue.invariants import check_invariants
from tests.bulk.helpers import bench, crash_image
from tests.bulk.reading.test_leases import numbered, opened, read


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"x-non-destructive": True}, "'q' is non-destructive: .*same messages for ever; add nonDestructive=true"),
        (
            {"x-single-active-consumer": True},
            "'q' has single-active-consumer: .*beside it; read it with nonDestr",
        ),
    ],
    ids=["non-destructive", "single active"],
)
async def test_queues_whose_dispatch_a_lease_would_break(tmp_path: Path, arguments: dict[str, Any], words: str) -> None:
    async with bench(tmp_path) as here:
        queue = here.declare("q", arguments=arguments)
        await here.publish("q", numbered(2))
        with pytest.raises(RefusedError, match=words):
            await opened(here.service.leases)
        assert queue.leases == set()
        assert here.service.leases.queue("/", "q") is queue, "a batch may"


async def test_a_lease_takes_the_place_of_a_consumer_and_its_own_queries_need_none(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        queue = here.declare("q", arguments={"x-max-consumers": 1})
        leases = here.service.leases
        await opened(leases)
        assert leases.queue("/", "q") is queue
        assert await opened(leases) > 0, "its next run"
        with pytest.raises(RefusedError, match="max-consumers is 1"):
            await opened(leases, name="another")


async def test_a_lease_with_a_selector_takes_one_place_of_a_consumer_too(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        queue = here.declare("q", arguments={"x-max-consumers": 2})
        leases = here.service.leases
        generation = await opened(leases)
        await leases.extend("/", "lease", generation, 0, selector="kind = 1")
        assert (queue.consumers.count, queue.takers) == (1, 1)
        here.host.check_consumer(queue, exclusive=False)
        await leases.extend("/", "lease", generation, 0)
        assert (queue.consumers.count, queue.takers) == (0, 1)
        await leases.extend("/", "lease", generation, 0, selector="kind = 2")
        await leases.release("/", "lease")
        assert (queue.takers, queue.leases_as_consumers) == (0, 0)


async def test_available_now_on_a_queue_whose_order_is_not_that_of_arrival(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        queue = here.declare("q", arguments={"x-sort-key": "n"})
        for number in (5, 3, 4, 1, 2):
            await here.publish("q", [b"%d" % number], headers={"n": number})
        leases = here.service.leases
        generation = await opened(leases)
        last = queue.next_sequence - 1
        for number in (0, 6):
            await here.publish("q", [b"late %d" % number], headers={"n": number})
        assert await leases.extend("/", "lease", generation, 0, messages_max=2, last_sequence=last) == 2
        assert await leases.extend("/", "lease", generation, 2, last_sequence=last) == 5
        assert await read(leases, 2, 5) == [b"3", b"4", b"5"]
        assert await leases.extend("/", "lease", generation, 5, last_sequence=last) == 5
        assert here.bodies("q") == [b"late 0", b"late 6"]
        check_invariants(queue)


async def test_a_replay_of_a_sorted_queue_repeats_its_order(tmp_path: Path) -> None:
    async with bench(tmp_path / "live") as here:
        here.declare("q", arguments={"x-sort-key": "n"})
        for number in (5, 3, 4):
            await here.publish("q", [b"%d" % number], headers={"n": number})
        leases = here.service.leases
        assert await leases.extend("/", "lease", await opened(leases), 0) == 3
        assert await read(leases, 0, 3) == [b"3", b"4", b"5"]
        image = crash_image(tmp_path / "live", tmp_path / "image")
    async with bench(image) as here:
        assert await read(here.service.leases, 0, 3) == [b"3", b"4", b"5"]


async def test_a_paused_queue_gives_nothing_until_it_goes_on(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        queue = here.declare("q")
        await here.publish("q", numbered(3))
        leases = here.service.leases
        generation = await opened(leases)
        assert await leases.extend("/", "lease", generation, 0, messages_max=1) == 1
        queue.pause(here.broker.clock())
        assert await leases.extend("/", "lease", generation, 0) == 1
        assert await read(leases, 0, 1) == numbered(1)
        queue.resume(here.broker.clock())
        assert await leases.extend("/", "lease", generation, 1) == 3


async def test_caps_groups_and_the_schedule_bound_a_batch(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        leases = here.service.leases
        here.declare("capped", arguments={"x-in-flight-max": 2})
        await here.publish("capped", numbered(5))
        here.declare("grouped", arguments={"x-group-mode": "shared", "x-group-key": "g"})
        for body in (b"a1", b"a2", b"b1"):
            await here.publish("grouped", [body], headers={"g": body[:1].decode()})
        here.declare("scheduled")
        await here.publish("scheduled", [b"now"])
        await here.publish("scheduled", [b"later"], headers={"x-delay": 3_600_000})
        for queue, expected in (("capped", (2, 4, 5)), ("grouped", (2, 3, 3)), ("scheduled", (1, 1, 1))):
            generation = await opened(leases, name=queue, queue=queue)
            position = 0
            for end in expected:
                position = await leases.extend("/", queue, generation, position)
                assert position == end, queue


async def test_a_transient_message_made_durable_still_counts_for_its_address(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        here.declare("q")
        here.host.address_settings.set("q", {"max-size-messages": 5, "address-full-policy": "fail"})
        await here.publish("q", numbered(3), persistent=False)
        account = here.host.accounts.by_address["q"]
        leases = here.service.leases
        generation = await opened(leases)
        assert await leases.extend("/", "lease", generation, 0) == 3
        assert (account.messages, account.bytes) == (3, 12)
        await leases.acknowledge("/", "lease", generation, 3)
        assert (account.messages, account.bytes) == (0, 0)
