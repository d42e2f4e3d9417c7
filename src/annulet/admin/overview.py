"""``GET /api/v1/overview``: what runs here, since when, and totals."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any

from annulet import __version__, _build
from annulet.admin.access import broker_of, require_user, visible_hosts
from annulet.admin.health import alarms
from annulet.admin.parameters import read_parameters
from annulet.admin.responses import json_response
from annulet.admin.survey import survey

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.requests import Request
    from starlette.responses import Response

    from annulet.core.virtual_host import VirtualHost


def build_mode() -> str:
    """Return ``compiled`` or ``pure``: how the hot modules run in this process."""
    return "compiled" if _build.compiled() else "pure"


async def overview(request: Request) -> Response:
    """Version, build, uptime in milliseconds, listeners, and totals over the virtual hosts the user may see."""
    user = await require_user(request)
    read_parameters(request, ())
    broker = broker_of(request)
    hosts = visible_hosts(request, user)
    memory = broker.memory
    return json_response(
        {
            "product": "Annulet",
            "version": __version__,
            "build": build_mode(),
            "python": platform.python_version(),
            "started_at": broker.started_at,
            "uptime": max(0, broker.clock() - broker.started_at),
            "durable": broker.configuration.data_directory is not None,
            "listeners": {"amqp": f"{broker.amqp_address[0]}:{broker.amqp_address[1]}"},
            "alarms": alarms(broker),
            "memory": {"resident_bytes": memory.resident, "limit_bytes": memory.limit},
            "object_totals": {
                "vhosts": len(hosts),
                "exchanges": sum(len(host.exchanges) for host in hosts),
                "queues": sum(len(host.queues) for host in hosts),
                "connections": len(broker.connections),
                "channels": sum(len(connection.channels) for connection in broker.connections),
            },
            "totals": await totals(hosts),
        }
    )


async def totals(hosts: Iterable[VirtualHost]) -> dict[str, Any]:
    """Return the sums over all queues: RabbitMQ's three counts, messages added, and removals by reason."""
    messages = ready = unacknowledged = added = 0
    removed: dict[str, int] = {}
    async for _, statistics in survey(hosts):
        messages += statistics.message_count
        ready += statistics.pending_count
        unacknowledged += statistics.delivering_count
        added += statistics.messages_added
        for reason, count in statistics.removed.items():
            removed[reason] = removed.get(reason, 0) + count
    return {
        "messages": messages,
        "messages_ready": ready,
        "messages_unacknowledged": unacknowledged,
        "messages_added": added,
        "removed": removed,
    }
