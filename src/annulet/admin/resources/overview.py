"""``GET /api/v1/overview``: version, start time, and totals."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any, Final

from annulet import __version__, _build
from annulet.admin.figures.alarms import alarms
from annulet.admin.figures.host_figures import host_figures
from annulet.admin.interface.operations import Answer, Operation, Resource
from annulet.admin.interface.schemas import ANY_OBJECT, COUNT, TEXT_SCHEMA, object_of
from annulet.admin.requests.access import visible_hosts
from annulet.admin.requests.responses import json_response
from annulet.admin.requests.survey import survey
from annulet.admin.resources.health import warnings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.responses import Response

    from annulet.admin.interface.call import Call
    from annulet.broker.broker import Broker
    from annulet.core.host.virtual_host import VirtualHost


def build_mode() -> str:
    """Return ``compiled`` or ``pure``: how the hot modules run in this process."""
    return "compiled" if _build.compiled() else "pure"


async def overview(call: Call) -> Response:
    """Version, build, uptime in milliseconds, listeners, and totals over the virtual hosts the user may see.

    ``publishes`` counts those of all virtual hosts; ``dead_letter_failures`` has the last one of each.
    """
    broker = call.broker
    hosts = visible_hosts(call.request, call.user)
    connections = [connection for connection in broker.connections if connection.host in hosts]
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
            "warnings": warnings(broker),
            "memory": {"resident_bytes": memory.resident, "limit_bytes": memory.limit},
            "object_totals": {
                "vhosts": len(hosts),
                "exchanges": sum(len(host.exchanges) for host in hosts),
                "queues": sum(len(host.queues) - host.reply_queues for host in hosts),
                "reply_queues": sum(host.reply_queues for host in hosts),
                "connections": len(connections),
                "channels": sum(len(connection.channels) for connection in connections),
            },
            "totals": await totals(hosts),
            "figures": figures(broker, hosts),
            "publishes": {
                "unroutable": broker.unroutable,
                "refused": broker.refused_publishes,
                "over_limit": broker.limit_refusals,
            },
            "dead_letter_failures": {
                host.name: host.dead_letters.last_failure for host in hosts if host.dead_letters.failures
            },
        }
    )


def figures(broker: Broker, hosts: Iterable[VirtualHost]) -> dict[str, int]:
    """Return the sums of the figures of virtual hosts beside their queues."""
    sums: dict[str, int] = {}
    for host in hosts:
        for name, value in host_figures(host, broker.blocked[host.name]).items():
            sums[name] = sums.get(name, 0) + value
    return sums


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


RESOURCES: Final = (
    Resource(
        "overview",
        "broker",
        (
            Operation(
                "GET",
                "overview",
                "Version, start time, alarms, and totals over the visible virtual hosts.",
                overview,
                answers={
                    200: Answer(
                        "The overview.",
                        object_of(version=TEXT_SCHEMA, uptime=COUNT, object_totals=ANY_OBJECT, totals=ANY_OBJECT),
                    )
                },
            ),
        ),
    ),
)
