"""``GET /api/v1/audit``: actions of operators on queues, messages and settings, newest first; and adding entries."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import msgspec

from annulet.admin.interface.operations import Answer, Operation, Resource
from annulet.admin.interface.schemas import TEXT_SCHEMA, object_of, page_of
from annulet.admin.interface.values import PAGES, SINCE, UNTIL, VHOST, Value
from annulet.admin.requests.access import ADMINISTRATOR
from annulet.admin.requests.responses import json_response
from annulet.broker.operation.virtual_hosts import DEFAULT_HOST
from annulet.core.model.audit_trail import AuditEntry

if TYPE_CHECKING:
    from starlette.responses import Response

    from annulet.admin.interface.call import Call
    from annulet.broker.broker import Broker
    from annulet.broker.security.authentication import User
    from annulet.core.host.virtual_host import VirtualHost

ARGUMENTS_MAX: Final = 1000
"""Characters of arguments that an entry quotes."""


def audit(host: VirtualHost, user: User, operation: str, target: str, arguments: Any, now: int) -> None:
    """Enter a completed change of settings, with its parameters."""
    text = "" if arguments is None else msgspec.json.encode(arguments).decode()
    if len(text) > ARGUMENTS_MAX:
        text = f"{text[:ARGUMENTS_MAX]}..."
    host.effects.audited(AuditEntry(now, host.name, user.name, operation, target, text, outcome="done"))


def audit_access(
    broker: Broker, user: User, operation: str, target: str, arguments: Any = None, *, virtual_host: str = ""
) -> None:
    """Enter a completed change of access: of a virtual host's, or of the whole broker's (``virtual_host`` empty)."""
    text = "" if arguments is None else msgspec.json.encode(arguments).decode()[:ARGUMENTS_MAX]
    entry = AuditEntry(broker.clock(), virtual_host, user.name, operation, target, text, outcome="done")
    broker.hosts[DEFAULT_HOST].effects.audited(entry)


async def list_operations(call: Call) -> Response:
    """A page of operations.

    Times are milliseconds since 1970, both included. ``forgotten`` counts operations of all virtual hosts whose entry
    has fallen out of the trail's bound. Administrators see changes of access too, which are of no virtual host.
    """
    page, given, trail = call.page, call.parameters, call.broker.audit
    visible = {host.name for host in call.hosts()}
    if ADMINISTRATOR in call.user.tags and "vhost" not in given:
        visible |= {"", *{entry.virtual_host for entry in trail.query()}}
    found = [
        entry
        for entry in trail.query(
            user=given.get("user"),
            operation=given.get("operation"),
            target=given.get("target"),
            since=given["since"],
            until=given["until"],
        )
        if entry.virtual_host in visible
    ]
    found.reverse()
    items = []
    for entry in page.take(found):
        item = asdict(entry)
        item["vhost"] = item.pop("virtual_host")
        items.append(item)
    total = sum(entry.virtual_host in visible for entry in trail.query())
    envelope = page.envelope(items, filtered_count=len(found), total_count=total)
    envelope["forgotten"] = trail.forgotten
    return json_response(envelope)


FILTERS: Final = (
    VHOST,
    Value("user", "a user, for its operations only"),
    Value("operation", "an operation by its name in the trail", example="pause"),
    Value("target", "a queue, pattern or other target by its whole name"),
    SINCE,
    UNTIL,
)

RESOURCES: Final = (
    Resource(
        "audit",
        "records",
        (
            Operation(
                "GET",
                "list_audit",
                "Actions of operators, the newest first.",
                list_operations,
                parameters=(*PAGES, *FILTERS),
                answers={
                    200: Answer("A page of actions.", page_of(object_of(vhost=TEXT_SCHEMA, operation=TEXT_SCHEMA)))
                },
            ),
        ),
    ),
)
