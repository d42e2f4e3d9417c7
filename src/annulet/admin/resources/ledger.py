"""``GET /api/v1/losses``: messages dropped by queues, newest first, from the loss ledgers of the virtual hosts.

``GET /api/v1/losses/counts`` counts the same by queue and reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.admin.requests.access import access_of, chosen_hosts, require_user
from annulet.admin.requests.parameters import INTEGER_MAX, PAGE_PARAMETERS, read_integer, read_page, read_parameters
from annulet.admin.requests.responses import ResourceError, json_response
from annulet.broker.durability.ledger_queue import describe_loss
from annulet.broker.settings.configuration import nearest_name
from annulet.core.base.removal_reasons import LOSSES, RemovalReason
from annulet.core.base.reply_names import REPLY_QUEUE
from annulet.core.model.loss_ledger import count_losses

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.requests import Request
    from starlette.responses import Response

    from annulet.broker.connections.access import Access
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.model.loss_ledger import LossRecord


FILTERS: Final = ("vhost", "queue", "reason", "key", "publisher", "since", "until")


async def list_losses(request: Request) -> Response:
    """A page of losses of queues that the user may read.

    Filters: ``vhost``, ``queue``, ``reason``, ``key``, ``publisher``, and ``since`` and ``until``.

    Times are milliseconds since 1970, both included. ``forgotten`` counts losses of these virtual hosts whose record
    has fallen out of the ledger's bound.
    """
    user = await require_user(request)
    parameters = read_parameters(request, (*PAGE_PARAMETERS, *FILTERS))
    page = read_page(parameters)
    hosts = chosen_hosts(request, user, parameters.get("vhost"))
    found = [
        (record.at, host.name, record)
        for host, records in _query(hosts, parameters)
        for record in _readable(host, access_of(request, user, host), records)
    ]
    found.reverse()
    if len(hosts) > 1:
        found.sort(key=lambda item: item[0], reverse=True)
    items = [describe_loss(host_name, record) for _, host_name, record in page.take(found)]
    total = sum(len(host.ledger) for host in hosts)
    envelope = page.envelope(items, filtered_count=len(found), total_count=total)
    envelope["forgotten"] = sum(host.ledger.forgotten for host in hosts)
    return json_response(envelope)


async def count_losses_by_queue(request: Request) -> Response:
    """A page of counts by virtual host, queue and reason, the largest first. Filters as for the losses themselves.

    Counts the records in the ledgers; ``forgotten`` ones are in the queues' own counters only.
    """
    user = await require_user(request)
    parameters = read_parameters(request, (*PAGE_PARAMETERS, *FILTERS))
    page = read_page(parameters)
    hosts = chosen_hosts(request, user, parameters.get("vhost"))
    found = [
        (-count, host.name, queue, reason.value)
        for host, records in _query(hosts, parameters)
        for (queue, reason), count in count_losses(records).items()
    ]
    found.sort()
    items = [
        {"vhost": host_name, "queue": queue, "reason": reason, "count": -count}
        for count, host_name, queue, reason in page.take(found)
    ]
    envelope = page.envelope(items, filtered_count=len(found), total_count=len(found))
    envelope["forgotten"] = sum(host.ledger.forgotten for host in hosts)
    return json_response(envelope)


def _readable(host: VirtualHost, access: Access, records: Iterator[LossRecord]) -> Iterator[LossRecord]:
    """Yield the losses of queues that the user may read: keys and publishers are of messages. No exclusive queue is."""
    verdicts: dict[str, bool] = {}
    for record in records:
        name = record.queue
        if name not in verdicts:
            queue = host.queues.get(name)
            shared = queue.owner is None if queue is not None else name != REPLY_QUEUE
            verdicts[name] = shared and access.allowed("read", name)
        if verdicts[name]:
            yield record


def _query(hosts: list[VirtualHost], parameters: dict[str, str]) -> Iterator[tuple[VirtualHost, Iterator[LossRecord]]]:
    """Yield the matching records of each virtual host. Bad filters are refused before the first."""
    reason = _read_reason(parameters.get("reason"))
    since, until = read_integer(parameters, "since", 0, 0), read_integer(parameters, "until", INTEGER_MAX, 0)
    for host in hosts:
        yield (
            host,
            host.ledger.query(
                queue=parameters.get("queue"),
                reason=reason,
                key=parameters.get("key"),
                publisher=parameters.get("publisher"),
                since=since,
                until=until,
            ),
        )


def _read_reason(text: str | None) -> RemovalReason | None:
    if text is None:
        return None
    known = {reason.value: reason for reason in (*LOSSES, RemovalReason.DEAD_LETTERED)}  # no queue got it
    if text not in known:
        raise ResourceError(400, f"query parameter reason={text!r} is no loss{nearest_name(text, known)}")
    return known[text]
