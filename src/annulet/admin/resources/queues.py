"""``GET /api/v1/queues``, ``GET /api/v1/queues/{vhost}/{name}`` and ``PATCH``, which changes its settings."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Any, Final

from annulet.admin.requests.access import access_of, broker_of, chosen_hosts, require_user, require_writer
from annulet.admin.requests.bodies import OBJECT, arguments_of, read_fields, required
from annulet.admin.requests.parameters import PAGE_PARAMETERS, path_segments, read_page, read_parameters
from annulet.admin.requests.responses import ResourceError, json_response
from annulet.admin.resources.audit import audit
from annulet.broker.connections.access import BROWSE
from annulet.core.base.removal_reasons import LOSSES
from annulet.core.base.reply_names import is_reply_name
from annulet.core.base.settings import QueueSettings
from annulet.core.configuration.arguments import describe
from annulet.core.queue.statistics import QueueStatistics, lag_of
from annulet.residency.bodies.memory_figures import residence_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from annulet.broker.security.authentication import User
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.queue.queue import Queue

PATH_DEPTH: Final = 5
"""api, v1, queues, virtual host, name."""

SLICE: Final = 100
"""Queues described before other tasks get a turn: about 2 ms."""

SLICE_NAMES: Final = 1000
"""Names that are sorted or searched before other tasks get a turn: less than 1 ms."""

# dataclasses.asdict copies every value deeply, which made up most of a listing's time
STATISTIC_NAMES: Final = tuple(field.name for field in dataclasses.fields(QueueStatistics))
SETTING_NAMES: Final = tuple(field.name for field in dataclasses.fields(QueueSettings))
LOSS_NAMES: Final = tuple(sorted(reason.value for reason in LOSSES))


async def list_queues(request: Request) -> Response:
    """A page of queues by virtual host and name. ``vhost`` chooses one host, ``name`` a part of the name.

    Reply queues of direct reply-to are in no list: with the name of one, others could answer in place of the server.
    """
    user = await require_user(request)
    parameters = read_parameters(request, (*PAGE_PARAMETERS, "vhost", "name"))
    page = read_page(parameters)
    hosts = chosen_hosts(request, user, parameters.get("vhost"))
    part = parameters.get("name", "")
    total = 0
    chosen: list[tuple[VirtualHost, str]] = []
    for host in hosts:
        names = await sorted_names(host)
        total += len(names)
        for first in range(0, len(names), SLICE_NAMES):
            chosen += [(host, name) for name in names[first : first + SLICE_NAMES] if part in name]
            await asyncio.sleep(0)
    items: list[dict[str, Any]] = []
    for host, name in page.take(chosen):
        queue = host.queues.get(name)
        if queue is not None:  # else it was deleted while other tasks had their turn
            items.append(describe_queue(host, queue))
        if len(items) % SLICE == 0:
            await asyncio.sleep(0)
    return json_response(page.envelope(items, filtered_count=len(chosen), total_count=total))


async def sorted_names(host: VirtualHost) -> list[str]:
    """Return the names of the queues that may be listed. Other tasks get turns: 100,000 names take 50 ms to sort."""
    names = list(host.queues)
    listed: list[str] = []
    for first in range(0, len(names), SLICE_NAMES):
        listed += sorted([name for name in names[first : first + SLICE_NAMES] if not is_reply_name(name)])
        await asyncio.sleep(0)
    listed.sort()  # which only merges sorted parts
    return listed


async def get_queue(request: Request) -> Response:
    """One queue; 404 when it does not exist or is not visible to the user."""
    user = await require_user(request)
    read_parameters(request, ())
    host, queue = chosen_queue(request, user)
    broker = broker_of(request)
    more = {
        "body_bytes_in_memory": residence_of(
            queue, None if broker.pager is None else broker.pager.budget.front_of(queue)
        ).as_dict(),
        "lag_milliseconds": lag_of(queue, broker.clock()),
        "lease_statistics": broker.leases.of_queue(queue),
    }
    return json_response({**describe_queue(host, queue), **more})


async def change_queue(request: Request) -> Response:
    """Change ``settings`` of an existing queue, by the names of its arguments; unchangeable ones are refused (400).

    Answers with the queue, and with ``durable_change``: whether the change outlives the broker.
    """
    user = await require_writer(request)
    read_parameters(request, ())
    host, queue = chosen_queue(request, user)
    access = access_of(request, user, host)
    access.queue_to_configure(queue.name)
    given = await read_fields(request, {"settings": OBJECT})
    changes = arguments_of("setting", required(given, "settings", "an object of arguments such as {'ring-size': 100}"))
    access.require_change(queue, changes)
    broker = broker_of(request)
    now = broker.clock()
    durable = broker.operator_settings.change_queue(host, queue, changes, now)
    audit(host, user, "change-queue", queue.name, changes, now)
    return json_response({**describe_queue(host, queue), "durable_change": durable})


def queue_to_read(request: Request, user: User) -> tuple[VirtualHost, Queue]:
    """As :func:`chosen_queue`, of a queue whose messages the user may read, which an exclusive queue's owner alone may.

    Raises :class:`~annulet.core.base.errors.AccessRefused` (403), :class:`~annulet.core.base.errors.ResourceLocked`
    (409).
    """
    host, queue = chosen_queue(request, user)
    return host, access_of(request, user, host).queue_to_read(queue.name)


def queue_to_browse(request: Request, user: User) -> tuple[VirtualHost, Queue]:
    """As :func:`chosen_queue`, of a queue whose messages the user may look at; see :func:`queue_to_read`."""
    host, queue = chosen_queue(request, user)
    return host, access_of(request, user, host).queue_to_browse(queue.name)


def queue_to_manage(request: Request, user: User) -> tuple[VirtualHost, Queue]:
    """As :func:`chosen_queue`, of a queue with whose messages the user may do operations; see :func:`queue_to_read`."""
    host, queue = chosen_queue(request, user)
    return host, access_of(request, user, host).queue_to_manage(queue.name)


def queue_to_operate_on(request: Request, user: User) -> tuple[VirtualHost, Queue]:
    """As :func:`queue_to_manage`; to look at its messages is enough here, as that is an operation too."""
    host, queue = chosen_queue(request, user)
    access = access_of(request, user, host)
    looks = access.allowed(BROWSE, queue.name)
    return host, access.queue_to_browse(queue.name) if looks else access.queue_to_manage(queue.name)


def queue_to_configure(request: Request, user: User) -> tuple[VirtualHost, Queue]:
    """As :func:`chosen_queue`, of a queue that the user may change; see :func:`queue_to_read`."""
    host, queue = chosen_queue(request, user)
    return host, access_of(request, user, host).queue_to_configure(queue.name)


def chosen_queue(request: Request, user: User) -> tuple[VirtualHost, Queue]:
    """Return the queue that the path names with its virtual host; 404 when the user does not see one.

    No user sees a reply queue.
    """
    segments = path_segments(request)
    host = chosen_hosts(request, user, segments[PATH_DEPTH - 2])[0]
    name = segments[PATH_DEPTH - 1]
    queue = host.queues.get(name)
    if queue is None or is_reply_name(name):
        raise ResourceError(404, f"no queue {name!r} in virtual host {host.name!r}")
    return host, queue


def describe_queue(host: VirtualHost, queue: Queue) -> dict[str, Any]:
    """Return a queue's JSON: its properties, settings and their sources, RabbitMQ's four counts, all our counters."""
    statistics = queue.statistics()
    return {
        "vhost": host.name,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.owner is not None,
        "arguments": describe(queue.settings),
        "settings": {name: getattr(queue.settings, name) for name in SETTING_NAMES},
        "settings_from": queue.origins,
        "arguments_without_effect": list(host.resolved_for(queue).without_effect),
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
