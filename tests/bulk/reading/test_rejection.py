"""Single messages of a lease are rejected when their batch is done, and read again until then."""

from __future__ import annotations

from pathlib import Path

import pytest

from annulet.bulk.protocol.errors import InvalidRequestError
from annulet.core.base.removal_reasons import RemovalReason
from tests.bulk.helpers import bench, crash_image
from tests.bulk.reading.test_leases import numbered, opened, read

DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


async def test_rejected_positions_are_dead_letters_when_they_are_done(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        here.declare("dead")
        queue = here.declare("q", arguments=DEAD)
        await here.publish("q", numbered(6))
        leases = here.service.leases
        generation = await opened(leases)
        assert await leases.extend("/", "lease", generation, 0, messages_max=4) == 4
        assert await leases.reject("/", "lease", [2, 4, 2]) == 2
        assert await leases.reject("/", "lease", [4]) == 0  # marked already
        assert await read(leases, 0, 4) == numbered(4)  # a batch that is repeated reads the same rows
        assert here.bodies("dead") == []
        assert await leases.extend("/", "lease", generation, 3, messages_max=2) == 5
        assert here.bodies("dead") == numbered(1, 1)
        assert await leases.extend("/", "lease", generation, 5) == 6
        assert here.bodies("dead") == [*numbered(1, 1), *numbered(1, 3)]
        assert queue.counters.removed[RemovalReason.ACKNOWLEDGED] == 3


async def test_without_a_dead_letter_target_they_are_gone_with_their_reason(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        queue = here.declare("q")
        await here.publish("q", numbered(2))
        leases = here.service.leases
        generation = await opened(leases)
        await leases.extend("/", "lease", generation, 0)
        await leases.reject("/", "lease", [1])
        await leases.acknowledge("/", "lease", generation, 2)
        assert (queue.counters.removed[RemovalReason.REJECTED], queue.counters.removed[RemovalReason.ACKNOWLEDGED]) == (
            1,
            1,
        )


async def test_the_mark_survives_a_crash(tmp_path: Path) -> None:
    async with bench(tmp_path / "a") as here:
        here.declare("dead")
        here.declare("q", arguments=DEAD)
        await here.publish("q", numbered(4))
        leases = here.service.leases
        generation = await opened(leases)
        await leases.extend("/", "lease", generation, 0, messages_max=2)
        await leases.extend("/", "lease", generation, 0, messages_max=4)
        await leases.reject("/", "lease", [2])
        image = crash_image(tmp_path / "a", tmp_path / "b")
    async with bench(image) as here:
        leases = here.service.leases
        generation = await opened(leases, fresh=False, position=4)
        assert await read(leases, 0, 4) == numbered(4)
        await leases.acknowledge("/", "lease", generation, 4)
        assert here.bodies("dead") == numbered(1, 1)
        assert here.bodies("q") == []


async def test_a_position_that_is_not_held_is_refused_and_nothing_is_marked(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        here.declare("dead")
        here.declare("q", arguments=DEAD)
        await here.publish("q", numbered(3))
        leases = here.service.leases
        generation = await opened(leases)
        await leases.extend("/", "lease", generation, 0, messages_max=2)
        with pytest.raises(InvalidRequestError, match="position 3 cannot be rejected, its positions 1 to 2"):
            await leases.reject("/", "lease", [1, 3])
        await leases.acknowledge("/", "lease", generation, 2)
        assert here.bodies("dead") == []
        with pytest.raises(InvalidRequestError, match="position 1 cannot be rejected"):
            await leases.reject("/", "lease", [1])
