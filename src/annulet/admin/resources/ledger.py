"""``GET /api/v1/losses``: messages dropped by queues, newest first, from the loss ledgers of the virtual hosts.

``GET /api/v1/losses/counts`` counts the same by queue and reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from annulet.admin.interface.operations import Answer, Operation, Resource
from annulet.admin.interface.schemas import COUNT, TEXT_SCHEMA, object_of, page_of
from annulet.admin.interface.values import PAGES, SINCE, UNTIL, VHOST, Value
from annulet.admin.requests.responses import json_response
from annulet.broker.durability.ledger_queue import describe_loss
from annulet.core.base.removal_reasons import LOSSES, RemovalReason
from annulet.core.base.reply_names import REPLY_QUEUE
from annulet.core.model.loss_ledger import count_losses

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.responses import Response

    from annulet.admin.interface.call import Call
    from annulet.broker.connections.access import Access
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.model.loss_ledger import LossRecord


REASONS: Final = {reason.value: reason for reason in (*LOSSES, RemovalReason.DEAD_LETTERED)}
"""A dead letter that no queue got is a loss too."""


async def list_losses(call: Call) -> Response:
    """A page of losses of queues that the user may read.

    Times are milliseconds since 1970, both included. ``forgotten`` counts losses of these virtual hosts whose record
    has fallen out of the ledger's bound.
    """
    page, hosts = call.page, call.hosts()
    found = [
        (record.at, host.name, record)
        for host, records in _query(hosts, call.parameters)
        for record in _readable(host, call.access(host), records)
    ]
    found.reverse()
    if len(hosts) > 1:
        found.sort(key=lambda item: item[0], reverse=True)
    items = [describe_loss(host_name, record) for _, host_name, record in page.take(found)]
    total = sum(len(host.ledger) for host in hosts)
    envelope = page.envelope(items, filtered_count=len(found), total_count=total)
    envelope["forgotten"] = sum(host.ledger.forgotten for host in hosts)
    return json_response(envelope)


async def count_losses_by_queue(call: Call) -> Response:
    """A page of counts by virtual host, queue and reason, the largest first. Filters as for the losses themselves.

    Counts the records in the ledgers; ``forgotten`` ones are in the queues' own counters only.
    """
    page, hosts = call.page, call.hosts()
    found = [
        (-count, host.name, queue, reason.value)
        for host, records in _query(hosts, call.parameters)
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


def _query(hosts: list[VirtualHost], given: dict[str, Any]) -> Iterator[tuple[VirtualHost, Iterator[LossRecord]]]:
    """Yield the matching records of each virtual host."""
    reason = REASONS[given["reason"]] if "reason" in given else None
    for host in hosts:
        yield (
            host,
            host.ledger.query(
                queue=given.get("queue"),
                reason=reason,
                key=given.get("key"),
                publisher=given.get("publisher"),
                since=given["since"],
                until=given["until"],
            ),
        )


FILTERS: Final = (
    VHOST,
    Value("queue", "a queue, for its losses only"),
    Value("reason", "a reason of a loss", choices=tuple(REASONS)),
    Value("key", "a key of last values, groups or sorting"),
    Value("publisher", "a publisher, as losses name it"),
    SINCE,
    UNTIL,
)
COUNT_SCHEMA: Final = object_of(vhost=TEXT_SCHEMA, queue=TEXT_SCHEMA, reason=TEXT_SCHEMA, count=COUNT)

RESOURCES: Final = (
    Resource(
        "losses",
        "records",
        (
            Operation(
                "GET",
                "list_losses",
                "Losses of queues that the user may read, the newest first.",
                list_losses,
                parameters=(*PAGES, *FILTERS),
                answers={200: Answer("A page of losses.", page_of(object_of(vhost=TEXT_SCHEMA, queue=TEXT_SCHEMA)))},
                further="read on each queue whose losses are listed",
            ),
        ),
    ),
    Resource(
        "losses/counts",
        "records",
        (
            Operation(
                "GET",
                "count_losses",
                "Losses by virtual host, queue and reason, the largest count first.",
                count_losses_by_queue,
                parameters=(*PAGES, *FILTERS),
                answers={200: Answer("A page of counts.", page_of(COUNT_SCHEMA))},
            ),
        ),
    ),
)
