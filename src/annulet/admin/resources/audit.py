"""``GET /api/v1/audit``: actions of operators on queues, messages and settings, newest first; and adding entries."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import msgspec

from annulet.admin.requests.access import ADMINISTRATOR, broker_of, chosen_hosts, require_user
from annulet.admin.requests.parameters import INTEGER_MAX, PAGE_PARAMETERS, read_integer, read_page, read_parameters
from annulet.admin.requests.responses import json_response
from annulet.broker.operation.virtual_hosts import DEFAULT_HOST
from annulet.core.model.audit_trail import AuditEntry

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

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


async def list_operations(request: Request) -> Response:
    """A page of operations. Filters: ``vhost``, ``user``, ``operation``, ``target``, and ``since`` and ``until``.

    Times are milliseconds since 1970, both included. ``forgotten`` counts operations of all virtual hosts whose entry
    has fallen out of the trail's bound. Administrators see changes of access too, which are of no virtual host.
    """
    user = await require_user(request)
    filters = ("vhost", "user", "operation", "target", "since", "until")
    parameters = read_parameters(request, (*PAGE_PARAMETERS, *filters))
    page = read_page(parameters)
    visible = {host.name for host in chosen_hosts(request, user, parameters.get("vhost"))}
    if ADMINISTRATOR in user.tags and "vhost" not in parameters:
        visible |= {"", *{entry.virtual_host for entry in broker_of(request).audit.query()}}
    trail = broker_of(request).audit
    found = [
        entry
        for entry in trail.query(
            user=parameters.get("user"),
            operation=parameters.get("operation"),
            target=parameters.get("target"),
            since=read_integer(parameters, "since", 0, 0),
            until=read_integer(parameters, "until", INTEGER_MAX, 0),
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
