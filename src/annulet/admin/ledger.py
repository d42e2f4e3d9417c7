"""``GET /api/v1/losses``: what queues dropped, newest first, from the loss ledgers of the virtual hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from annulet.admin.access import chosen_hosts, require_user
from annulet.admin.parameters import PAGE_PARAMETERS, read_integer, read_page, read_parameters
from annulet.admin.responses import ResourceError, json_response
from annulet.broker.configuration import nearest_name
from annulet.core.reasons import LOSSES, RemovalReason

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from annulet.core.ledger import LossRecord


async def list_losses(request: Request) -> Response:
    """A page of losses. Filters: ``vhost``, ``queue``, ``reason``, ``since`` (milliseconds since 1970).

    ``forgotten`` counts losses of these virtual hosts whose record has fallen out of the ledger's bound.
    """
    user = await require_user(request)
    parameters = read_parameters(request, (*PAGE_PARAMETERS, "vhost", "queue", "reason", "since"))
    page = read_page(parameters)
    reason = _read_reason(parameters.get("reason"))
    since = read_integer(parameters, "since", 0, 0)
    hosts = chosen_hosts(request, user, parameters.get("vhost"))
    found = [
        (record.at, host.name, record)
        for host in hosts
        for record in host.ledger.query(queue=parameters.get("queue"), reason=reason, since=since)
    ]
    found.reverse()
    if len(hosts) > 1:
        found.sort(key=lambda item: item[0], reverse=True)
    items = [describe_loss(host_name, record) for _, host_name, record in page.take(found)]
    total = sum(len(host.ledger) for host in hosts)
    envelope = page.envelope(items, filtered_count=len(found), total_count=total)
    envelope["forgotten"] = sum(host.ledger.forgotten for host in hosts)
    return json_response(envelope)


def describe_loss(host_name: str, record: LossRecord) -> dict[str, Any]:
    """Return a loss as JSON. Times are milliseconds since 1970, ``age`` milliseconds, ``size`` body bytes."""
    return {
        "vhost": host_name,
        "queue": record.queue,
        "sequence": record.sequence,
        "reason": record.reason.value,
        "key": record.key,
        "size": record.size,
        "priority": record.priority,
        "publisher": record.publisher,
        "accepted_at": record.accepted_at,
        "at": record.at,
        "age": record.age,
        "replaced_by": record.replaced_by,
    }


def _read_reason(text: str | None) -> RemovalReason | None:
    if text is None:
        return None
    known = {reason.value: reason for reason in LOSSES}
    if text not in known:
        raise ResourceError(400, f"query parameter reason={text!r} is no loss{nearest_name(text, known)}")
    return known[text]
