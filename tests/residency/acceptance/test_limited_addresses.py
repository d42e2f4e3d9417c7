"""Limits of an address over a queue deeper than memory: what is there is counted where it is, on disk."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from annulet.store.files.files import OsFile
from tests.residency.acceptance.deep import SIZE, Deep, deep_broker, refuse

COUNT = 4000
LIMITS = {"max-size-messages": 1000, "address-full-policy": "page"}


def account_of(deep: Deep, name: str = "q"):
    return deep.broker.hosts["/"].accounts.by_address[name]


def amounts(deep: Deep) -> tuple[int, int, int]:
    account = account_of(deep)
    return account.messages, account.bytes, account.paged_count


async def drain(deep: Deep, count: int) -> list[int]:
    """Take and acknowledge what is there; the account is exact after each step."""
    consumer = await deep.consumer(prefetch=300)
    found: list[int] = []
    while got := await consumer.take():
        found += [number for number, _, _ in got]
        await consumer.acknowledge_all()
        await deep.broker.commit.durable()
        left = deep.queue().order.count + len(deep.queue().delivering)
        assert amounts(deep) == (left, left * SIZE, max(0, left - 1000))
        assert left == count - len(found) or len(found) < count
    await consumer.leave()
    return found


@pytest.mark.parametrize("refusing", [False, True], ids=["", "disk-refuses"])
async def test_limits_set_over_a_backlog_read_nothing_and_lose_nothing(tmp_path: Path, refusing: bool):
    async with deep_broker(tmp_path) as deep:
        queue = await deep.declare("q")
        await deep.publish(range(COUNT))
        await deep.settled()
        rows = queue.order.paged_count()
        assert rows > COUNT // 2
        for pages in queue.order.page_parts():
            pages._room = lambda: 0  # memory is left for nothing that is on disk
        deep.broker.hosts["/"].address_settings.set("q", LIMITS)
        with mock.patch.object(OsFile, "read", refuse if refusing else OsFile.read):
            await deep.publish([COUNT])
        assert queue.order.paged_count() == rows
        assert amounts(deep) == (COUNT + 1, (COUNT + 1) * SIZE, COUNT + 1 - 1000)
        await deep.settled()
        assert await drain(deep, COUNT + 1) == list(range(COUNT + 1))
        assert queue.counters.removed[RemovalReason.UNREADABLE] == 0
        assert amounts(deep) == (0, 0, 0)


async def test_after_a_restart_rows_stay_rows(tmp_path: Path):
    for life in range(2):
        async with deep_broker(tmp_path) as deep:
            deep.broker.hosts["/"].address_settings.set("q", LIMITS)
            if not life:
                await deep.declare("q")
                await deep.publish(range(COUNT))
                assert amounts(deep) == (COUNT, COUNT * SIZE, COUNT - 1000)
                continue
            rows = deep.queue().order.paged_count()
            assert rows > COUNT // 2
            await deep.publish([COUNT])
            await deep.settled()
            assert deep.queue().order.paged_count() >= rows
            assert amounts(deep) == (COUNT + 1, (COUNT + 1) * SIZE, COUNT + 1 - 1000)
            assert await drain(deep, COUNT + 1) == list(range(COUNT + 1))
