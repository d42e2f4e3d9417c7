"""Ids of deleted queues stay in the catalogue until the log has their deletion."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from annulet import testing
from annulet.broker.durability import deleted_queues
from annulet.broker.durability.deleted_queues import DeletedQueues
from annulet.store.inspection.inspection import inspect
from tests.store.data_directories import declare, fill, put

LATER = 1 << 62


async def test_a_queue_that_was_deleted_is_gone_when_the_broker_dies_before_the_log_knows(tmp_path: Path) -> None:
    data, killed = tmp_path / "data", tmp_path / "killed"
    await fill(data)
    async with testing.broker(data_dir=data, http=False) as running:
        broker = running.broker
        host = broker.hosts["/"]
        async with broker.commit.upkeep_paused():
            host.delete_queue(host.queues["work"], broker.clock())
            assert broker.catalogue.deleted_queues() == {1}
            shutil.copytree(data, killed)
    assert [finding.code for finding in inspect(data, LATER).findings] == []
    assert "messages-of-deleted-queues" in [finding.code for finding in inspect(killed, LATER).findings]
    async with testing.broker(data_dir=killed, http=False) as running:
        assert running.broker.orphans == {}
        assert running.broker.log.statistics().live_records == 0
        assert running.broker.catalogue.deleted_queues() == set()


async def test_many_are_dropped_while_the_broker_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleted_queues, "REMEMBERED_MAX", 3)
    async with testing.broker(data_dir=tmp_path, http=False) as running:
        broker = running.broker
        host = broker.hosts["/"]
        rounds = DeletedQueues(broker.catalogue, broker.commit, broker.loop)
        for number in range(3):
            rounds.tick()
            await rounds.stop()
            assert len(broker.catalogue.deleted_queues()) == number
            declare(broker, "brief")
            put(broker, "brief", b"message")
            host.delete_queue(host.queues["brief"], broker.clock())
        rounds.tick()
        await rounds.stop()
        assert broker.catalogue.deleted_queues() == set()
