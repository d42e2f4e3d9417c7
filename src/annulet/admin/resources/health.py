"""``GET /health/live`` and ``GET /health/ready``, for supervisors and load balancers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.admin.figures.alarms import alarms
from annulet.admin.requests.access import broker_of
from annulet.admin.requests.responses import json_response
from annulet.store.database.history import dropped_text

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from annulet.broker.broker import Broker

ORPHANS_SHOWN: Final = 5
"""Ids of unknown queues in a warning; the log names all of them."""


async def live(request: Request) -> Response:
    """200 while the event loop answers and the broker can go on; 503 when only a restart helps."""
    reason = death_reason(broker_of(request))
    return json_response({"status": "failed", "reason": reason}, 503) if reason else json_response({"status": "ok"})


async def ready(request: Request) -> Response:
    """200 when clients may connect, 503 with the reason when not.

    ``alarms`` lists the reasons why publishers are blocked, ``warnings`` the problems an operator should check; with
    one of these the status is ``degraded``.
    """
    broker = broker_of(request)
    reason = unready_reason(broker)
    if reason:
        return json_response({"status": "unavailable", "reason": reason}, 503)
    found = warnings(broker)
    status = "degraded" if found else "ok"
    return json_response({"status": status, "alarms": alarms(broker), "warnings": found})


def death_reason(broker: Broker) -> str:
    """Return why only a restart helps; empty when nothing is wrong."""
    return "the message log cannot be written; see the log, repair the disk, restart" if broker.commit.failed else ""


def unready_reason(broker: Broker) -> str:
    """Return why clients may not connect; empty when they may."""
    if broker.stopping:
        return "stopping"
    if not broker.ready:
        return "starting"
    return death_reason(broker)


def warnings(broker: Broker) -> list[str]:
    """Describe problems although everything works: damage on the disk, a history that cannot be written."""
    found = []
    log = broker.log.statistics()
    if broker.orphans:
        queues = ", ".join(map(str, sorted(broker.orphans)[:ORPHANS_SHOWN]))
        found.append(
            f"{sum(broker.orphans.values())} messages of {len(broker.orphans)} queues that the catalogue does not know "
            f"are kept and cannot be consumed (queue ids {queues}); stop the broker, run annulet doctor --rebuild"
        )
    if log.corrupt_records or log.lost_records or log.quarantined_records:
        doubtful = f", perhaps some of {log.doubtful_places} places written since the last checkpoint"
        found.append(
            f"damaged records in the message log: {log.corrupt_records} places found at start, {log.lost_records} "
            f"messages lost{doubtful if log.doubtful_places else ''}, {log.quarantined_records} places kept in "
            "quarantine; look at the disk and at the records, then remove them"
        )
    unusable = [
        f"policy '{name}' in virtual host '{host.name}'"
        for host in broker.hosts.values()
        for name in host.policies.unusable()
    ]
    unusable += broker.authenticator.unusable_permissions()
    if unusable:
        found.append(
            f"{len(unusable)} patterns of an earlier version match nothing, as {unusable[0]}; write them anew as "
            "docs/security.md says"
        )
    if broker.history is not None and broker.history.history.dropped.text:
        found.append(dropped_text(broker.history.history.dropped))
    if broker.history is not None and broker.history.failed:
        found.append("losses, duplicate ids and delivery counts cannot be written down; look at the disk")
    return found
