from __future__ import annotations

from annulet.admin.figures.alarms import alarms
from tests.admin.conftest import Site


async def test_a_memory_alarm_has_its_word(site: Site) -> None:
    assert alarms(site.broker) == []
    site.broker.memory_blocked = True
    assert alarms(site.broker) == ["memory"]
