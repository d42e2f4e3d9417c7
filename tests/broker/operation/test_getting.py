from __future__ import annotations

import pytest

from annulet.broker.operation.getting import Getter
from annulet.core.model.entry import DELIVERING
from tests.admin.conftest import Site, site

__all__ = ["site"]


async def test_messages_stay_in_delivery_until_they_are_settled(site: Site) -> None:
    queue = site.queue("q")
    site.fill(queue, 3)
    with Getter(site.clock, "test") as getter:
        taken = [await getter.pull(queue) for _ in range(4)]
        assert [None if each is None else each[1] for each in taken] == [1, 2, 3, None]
        assert all(each is None or each[0].state == DELIVERING for each in taken)
        getter.settle_all(rejected=False, requeue=False)
    assert queue.statistics().message_count == 0
    assert queue.statistics().messages_acknowledged == 3


async def test_what_is_not_settled_goes_back_whatever_happens(site: Site) -> None:
    queue = site.queue("q")
    site.fill(queue, 2)

    async def fail() -> None:
        with Getter(site.clock, "test") as getter:
            await getter.pull(queue)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail()
    statistics = queue.statistics()
    assert (statistics.pending_count, statistics.delivering_count, statistics.messages_returned) == (2, 0, 1)


async def test_messages_are_refused_or_returned(site: Site) -> None:
    queue = site.queue("q")
    site.fill(queue, 2)
    with Getter(site.clock, "test") as getter:
        getter.settle_all(rejected=True, requeue=False)  # holds nothing
        await getter.pull(queue)
        getter.settle_all(rejected=True, requeue=True)
        await getter.pull(queue)
        getter.settle_all(rejected=False, requeue=True)
        await getter.pull(queue)
        getter.settle_all(rejected=True, requeue=False)
    statistics = queue.statistics()
    assert (statistics.pending_count, statistics.messages_rejected, statistics.messages_returned) == (1, 1, 2)


async def test_a_deleted_queue_has_nothing_more(site: Site) -> None:
    queue = site.queue("q")
    site.broker.hosts["/"].delete_queue(queue, site.clock())
    with Getter(site.clock, "test") as getter:
        assert await getter.pull(queue) is None
