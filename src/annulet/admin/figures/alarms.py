"""The reasons for which publishers are blocked now."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from annulet.broker.broker import Broker


def alarms(broker: Broker) -> list[str]:
    """Return the present reasons for blocking publishers: ``memory``, ``disk``, ``spill``."""
    found = ["memory"] if broker.memory_blocked else []
    if broker.log.statistics().disk_full:
        found.append("disk")
    if broker.spill_pace.full:
        found.append("spill")
    return found
