"""``GET /api/v1/queues`` and ``GET /api/v1/queues/{vhost}/{name}``."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Any, Final

from annulet.admin.access import chosen_hosts, require_user
from annulet.admin.parameters import PAGE_PARAMETERS, path_segments, read_page, read_parameters
from annulet.admin.responses import ResourceError, json_response
from annulet.core.arguments import describe
from annulet.core.counters import QueueStatistics
from annulet.core.reasons import LOSSES
from annulet.core.settings import QueueSettings

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from annulet.core.queue import Queue

PATH_DEPTH: Final = 5
"""api, v1, queues, virtual host, name."""

SLICE: Final = 100
"""Queues described before other tasks get a turn: about 2 ms."""

# dataclasses.asdict copies every value deeply, which made up most of a listing's time
STATISTIC_NAMES: Final = tuple(field.name for field in dataclasses.fields(QueueStatistics))
SETTING_NAMES: Final = tuple(field.name for field in dataclasses.fields(QueueSettings))
LOSS_NAMES: Final = tuple(sorted(reason.value for reason in LOSSES))


async def list_queues(request: Request) -> Response:
    """A page of queues by virtual host and name. ``vhost`` chooses one host, ``name`` a part of the name."""
    user = await require_user(request)
    parameters = read_parameters(request, (*PAGE_PARAMETERS, "vhost", "name"))
    page = read_page(parameters)
    hosts = chosen_hosts(request, user, parameters.get("vhost"))
    part = parameters.get("name", "")
    total = sum(len(host.queues) for host in hosts)
    chosen = [(host, name) for host in hosts for name in sorted(host.queues) if part in name]
    items: list[dict[str, Any]] = []
    for host, name in page.take(chosen):
        queue = host.queues.get(name)
        if queue is not None:  # else it was deleted while other tasks had their turn
            items.append(describe_queue(host.name, queue))
        if len(items) % SLICE == 0:
            await asyncio.sleep(0)
    return json_response(page.envelope(items, filtered_count=len(chosen), total_count=total))


async def get_queue(request: Request) -> Response:
    """One queue; 404 when it does not exist or is not visible to the user."""
    user = await require_user(request)
    read_parameters(request, ())
    segments = path_segments(request)
    if len(segments) != PATH_DEPTH:
        raise ResourceError(404, "the path is /api/v1/queues/VHOST/NAME; write a slash within a name as %2F")
    host = chosen_hosts(request, user, segments[3])[0]
    queue = host.queues.get(segments[4])
    if queue is None:
        raise ResourceError(404, f"no queue {segments[4]!r} in virtual host {host.name!r}")
    return json_response(describe_queue(host.name, queue))


def describe_queue(host_name: str, queue: Queue) -> dict[str, Any]:
    """Return a queue's JSON: what it is and where its settings came from, RabbitMQ's four counts, all our counters."""
    statistics = queue.statistics()
    return {
        "vhost": host_name,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.owner is not None,
        "arguments": describe(queue.settings),
        "settings": {name: getattr(queue.settings, name) for name in SETTING_NAMES},
        "settings_from": queue.origins,
        "paused": queue.paused,
        "blocked": queue.blocked,
        "messages": statistics.message_count,
        "messages_ready": statistics.pending_count,
        "messages_unacknowledged": statistics.delivering_count,
        "consumers": statistics.consumer_count,
        "leases": sorted(name for _, name in queue.leases),
        **{name: getattr(statistics, name) for name in STATISTIC_NAMES},
        "losses": {name: statistics.removed[name] for name in LOSS_NAMES if name in statistics.removed},
        "unaccounted": unaccounted(statistics),
    }


def unaccounted(statistics: QueueStatistics) -> int:
    """Messages that were added but are neither there nor removed for a reason: 0, or the broker has a defect."""
    return statistics.messages_added - statistics.message_count - sum(statistics.removed.values())
