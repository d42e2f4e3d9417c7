"""``/api/bindings``: lists by virtual host, source, destination and both; making, reading and deleting one.

Each queue is bound to the default exchange by its name; that binding is listed, and cannot be made or deleted. A
binding in a path is named by its ``properties_key``: the routing key, and a digest of the arguments behind ``~``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from starlette.responses import Response

from annulet.admin.rabbitmq.framework.bodies import ADDRESSING, read_fields
from annulet.admin.rabbitmq.framework.errors import not_found
from annulet.admin.rabbitmq.framework.listing import Listing
from annulet.admin.rabbitmq.framework.routing import Route
from annulet.admin.requests.columns import Part
from annulet.admin.requests.json_values import json_object
from annulet.admin.requests.responses import bad_request, json_response
from annulet.broker.operation.bindings import (
    BindingRow,
    bindings_between,
    bindings_of_destination,
    bindings_of_queue,
    bindings_of_source,
    properties_key,
)
from annulet.broker.operation.durable_changes import durably
from annulet.broker.turns.list_turns import Turns, in_order
from annulet.core.routing.bindings import TO_EXCHANGE, TO_QUEUE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from annulet.admin.rabbitmq.framework.call import Call
    from annulet.core.host.virtual_host import VirtualHost

FIELDS: Final = ("routing_key", "arguments")
REPEATED: Final = ADDRESSING | {"properties_key"}
KINDS: Final = {"q": TO_QUEUE, "e": TO_EXCHANGE}
"""Kinds of destinations in paths."""

NAMES: Final = frozenset(
    {"source", "vhost", "destination", "destination_type", "routing_key", "arguments", "properties_key"}
)


def describe(row: BindingRow) -> dict[str, Any]:
    """Return a binding's JSON."""
    return {
        "source": row.source,
        "vhost": row.host.name,
        "destination": row.destination,
        "destination_type": row.kind,
        "routing_key": row.routing_key,
        "arguments": json_object(row.arguments),
        "properties_key": properties_key(row.routing_key, row.arguments),
    }


def _name_of(row: BindingRow) -> str:
    return row.destination


LISTING: Final[Listing[BindingRow]] = Listing((Part(NAMES, describe),), _name_of)


def _of_hosts(names: list[tuple[VirtualHost, list[str]]]) -> Iterator[BindingRow]:
    for host, sources in names:
        for source in sources:
            yield from bindings_of_source(host, source)


# ---------------------------------------------------------------------- requests


async def list_bindings(call: Call) -> Response:
    """Bindings of the virtual hosts that the user sees, or of one; ``name`` is the destination's."""
    names = [(host, await in_order(host.exchanges)) for host in call.hosts()]
    return await LISTING.answer(call, _of_hosts(names))


async def list_of_source(call: Call) -> Response:
    """Bindings from an exchange."""
    host, name = call.host(), call.name("name")
    if name not in host.exchanges:
        raise not_found("exchange", name)
    return await LISTING.answer(call, bindings_of_source(host, name))


async def list_of_destination(call: Call) -> Response:
    """Bindings to an exchange."""
    host = call.host()
    return await LISTING.answer(call, bindings_of_destination(host, call.name("name")))


async def list_of_queue(call: Call) -> Response:
    """Bindings to a queue."""
    host = call.host()
    return await LISTING.answer(call, bindings_of_queue(host, call.names["name"]))


async def list_between(call: Call) -> Response:
    """Bindings of two ends."""
    host, source, kind, destination = _ends(call)
    return await LISTING.answer(call, bindings_between(host, source, kind, destination))


async def make_binding(call: Call) -> Response:
    """Bind; the ``Location`` of the answer names the binding, relative to the path."""
    host, source, kind, destination = _ends(call)
    access = call.access(host)
    access.require("write", destination)
    access.require("read", source)
    fields = await read_fields(call, FIELDS, ignored=REPEATED)
    routing_key, arguments = fields.text("routing_key", ""), fields.arguments()
    if "\r" in routing_key or "\n" in routing_key:
        raise bad_request("routing_key", routing_key, "give a key without CR and LF")
    bind = access.bind_queue if kind == TO_QUEUE else access.bind_exchange
    await durably(call.broker.definitions, lambda: bind(destination, source, routing_key, arguments))
    location = f"{quote(destination, safe='')}/{quote(properties_key(routing_key, arguments), safe='')}"
    return Response(status_code=201, headers={"Location": location})


async def get_binding(call: Call) -> Response:
    """One binding."""
    return json_response(LISTING.one(call, await _chosen(call)))


async def delete_binding(call: Call) -> Response:
    """Undo a binding."""
    host, source, kind, destination = _ends(call)
    access = call.access(host)
    access.require("write", destination)
    access.require("read", source)
    row = await _chosen(call)
    unbind = access.unbind_queue if kind == TO_QUEUE else access.unbind_exchange
    await durably(call.broker.definitions, lambda: unbind(destination, source, row.routing_key, row.arguments))
    return Response(status_code=204)


def _ends(call: Call) -> tuple[VirtualHost, str, str, str]:
    """Return virtual host, source, kind and name of the destination."""
    kind = KINDS.get(call.names["kind"])
    if kind is None:
        raise bad_request("destination type", call.names["kind"], "give q for a queue or e for an exchange")
    destination = call.names["destination"] if kind == TO_QUEUE else call.name("destination")
    return call.host(), call.name("source"), kind, destination


async def _chosen(call: Call) -> BindingRow:
    """Return the binding that the path names; 404 when there is none."""
    host, source, kind, destination = _ends(call)
    wanted, turns = call.names["properties"], Turns()
    for row in bindings_between(host, source, kind, destination):
        if properties_key(row.routing_key, row.arguments) == wanted:
            return row
        await turns.look()
    raise not_found("binding", wanted)


ROUTES: Final = (
    Route("bindings", {"GET": list_bindings}),
    Route("bindings/{vhost}", {"GET": list_bindings}),
    Route("exchanges/{vhost}/{name}/bindings/source", {"GET": list_of_source}),
    Route("exchanges/{vhost}/{name}/bindings/destination", {"GET": list_of_destination}),
    Route("queues/{vhost}/{name}/bindings", {"GET": list_of_queue}),
    Route("bindings/{vhost}/e/{source}/{kind}/{destination}", {"GET": list_between, "POST": make_binding}),
    Route(
        "bindings/{vhost}/e/{source}/{kind}/{destination}/{properties}",
        {"GET": get_binding, "DELETE": delete_binding},
    ),
)
