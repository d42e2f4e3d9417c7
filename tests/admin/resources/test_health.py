from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from annulet import testing
from annulet.broker.paging.spill_pace import SPILL_FULL
from annulet.store.database.journal import NO_DAMAGE, JournalDamage
from annulet.store.segments.segment import segment_name
from annulet.testing import VirtualClock
from tests.admin.conftest import IMPATIENT, REMOTE, USERS, Site
from tests.store.data_directories import fill


@pytest.mark.parametrize("peer", [("127.0.0.1", 1), REMOTE])
async def test_health_is_open_to_everybody(site: Site, peer: tuple[str, int]) -> None:
    for path in ("/health/live", "/health/ready"):
        response = await site.get(path, peer=peer, user=None)
        assert response.status_code == 200
        assert response.json()["status"] == "ok"


async def test_not_ready_says_why(site: Site) -> None:
    site.broker.ready = False
    response = await site.get("/health/ready")
    assert (response.status_code, response.json()["reason"]) == (503, "starting")
    site.broker.stopping = True
    assert (await site.get("/health/ready")).json()["reason"] == "stopping"
    assert (await site.get("/health/live")).status_code == 200
    site.broker.stopping = False


async def test_a_failed_log_is_neither_live_nor_ready(site: Site) -> None:
    site.broker.commit.failed = True
    for path in ("/health/live", "/health/ready"):
        response = await site.get(path)
        assert response.status_code == 503
        assert "message log" in response.json()["reason"]
    site.broker.commit.failed = False


async def test_damage_is_a_warning_and_clients_may_connect_all_the_same(tmp_path: Path) -> None:
    """One bit of one message: reported over HTTP, in the metrics and in the quarantine; the others are served."""
    data = tmp_path / "data"
    await fill(data, 5)
    segment = data / "messages" / segment_name(1)
    content = bytearray(segment.read_bytes())
    content[content.index(b"000002")] ^= 1
    segment.write_bytes(content)
    clock = VirtualClock()
    async with testing.broker(data_dir=data, clock=clock, http=False, users=USERS, limits=IMPATIENT) as running:
        site = Site(running.broker, clock)
        await running.broker.commit.maintain()
        for path in ("/health/ready", "/api/v1/overview"):
            response = await site.get(path)
            assert response.status_code == 200
            (warning,) = response.json()["warnings"]
            assert "1 places found at start, 1 messages lost, 1 places kept in quarantine" in warning
        metrics = (await site.get("/metrics")).text
        assert "annulet_log_quarantined_records 1.0" in metrics
        assert "annulet_log_lost_records 1.0" in metrics
        bodies = [entry.message.body[:6] for entry in running.broker.hosts["/"].queues["work"].order.entries()]
        assert bodies == [b"000000", b"000001", b"000003", b"000004"]
    assert [path.suffix for path in sorted((data / "quarantine").iterdir())] == [".json", ".record"]


async def test_notes_that_cannot_be_written_are_a_warning(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await site.get("/health/ready")).json()["warnings"] == []
    whole = SimpleNamespace(dropped=NO_DAMAGE)
    monkeypatch.setattr(site.broker, "history", SimpleNamespace(failed=True, history=whole))
    assert "cannot be written down" in (await site.get("/health/ready")).json()["warnings"][0]
    damaged = SimpleNamespace(dropped=JournalDamage("frame 3 of its journal is damaged", 7))
    monkeypatch.setattr(site.broker, "history", SimpleNamespace(failed=False, history=damaged))
    assert "the last 7 changes of the history are dropped" in (await site.get("/health/ready")).json()["warnings"][0]
    monkeypatch.undo()


async def test_alarms_are_named_and_clients_may_connect_all_the_same(site: Site) -> None:
    assert (await site.get("/health/ready")).json()["alarms"] == []
    site.broker.memory_blocked = True
    response = await site.get("/health/ready")
    assert (response.status_code, response.json()["alarms"]) == (200, ["memory"])
    site.broker.spill_pace.state = SPILL_FULL
    assert (await site.get("/health/ready")).json()["alarms"] == ["memory", "spill"]
