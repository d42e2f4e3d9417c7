"""The route table of ``/api/v1``: the resources of all modules, and the description of the table itself."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import msgspec
from starlette.responses import Response

from annulet.admin.console import history, streaming
from annulet.admin.console import sessions as web_sessions
from annulet.admin.interface.openapi import describe
from annulet.admin.interface.operations import Answer, Operation, Resource
from annulet.admin.interface.routing import RouteTable
from annulet.admin.interface.schemas import ANY_OBJECT, TEXT_SCHEMA, object_of
from annulet.admin.requests.responses import JSON
from annulet.admin.resources import (
    addresses,
    audit,
    backups,
    broker_settings,
    definitions,
    host_settings,
    ledger,
    log_level,
    messages,
    operations,
    overview,
    permissions,
    publishing,
    queues,
    tokens,
    traces,
    undo,
    users,
    virtual_hosts,
    why_not,
)
from annulet.admin.resources.clients import connections, consumers, leases, sessions
from annulet.admin.resources.queue_state import fair_keys, groups, keys
from annulet.admin.resources.records import events
from annulet.admin.resources.routing import bindings, diverts, exchanges

if TYPE_CHECKING:
    from annulet.admin.interface.call import Call


async def openapi(_call: Call) -> Response:
    """The description of this table in OpenAPI 3.1."""
    return Response(document(), media_type=JSON)


DESCRIPTION: Final = Resource(
    "openapi.json",
    "broker",
    (
        Operation(
            "GET",
            "openapi",
            "This description in OpenAPI 3.1, with the permission of each operation.",
            openapi,
            answers={200: Answer("The description.", object_of(openapi=TEXT_SCHEMA, paths=ANY_OBJECT))},
        ),
    ),
)

TABLE: Final = RouteTable(
    [
        DESCRIPTION,
        *web_sessions.RESOURCES,
        *streaming.RESOURCES,
        *history.RESOURCES,
        *overview.RESOURCES,
        *queues.RESOURCES,
        *why_not.RESOURCES,
        *groups.RESOURCES,
        *fair_keys.RESOURCES,
        *keys.RESOURCES,
        *messages.RESOURCES,
        *publishing.RESOURCES,
        *operations.RESOURCES,
        *undo.RESOURCES,
        *connections.RESOURCES,
        *sessions.RESOURCES,
        *consumers.RESOURCES,
        *leases.RESOURCES,
        *exchanges.RESOURCES,
        *addresses.RESOURCES,
        *bindings.RESOURCES,
        *diverts.RESOURCES,
        *host_settings.RESOURCES,
        *users.RESOURCES,
        *permissions.RESOURCES,
        *tokens.RESOURCES,
        *virtual_hosts.RESOURCES,
        *ledger.RESOURCES,
        *audit.RESOURCES,
        *events.RESOURCES,
        *log_level.RESOURCES,
        *traces.RESOURCES,
        *definitions.RESOURCES,
        *backups.RESOURCES,
        *broker_settings.RESOURCES,
    ]
)


@cache
def document() -> bytes:
    """Return the description of the table, made for the first request."""
    return msgspec.json.encode(describe(TABLE.resources))
