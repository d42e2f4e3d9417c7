"""``/api/v1/bindings``: bindings of exchanges and addresses to queues and exchanges; making one, undoing one.

A binding in a path is named by its ``key``: the routing key, and a digest of the arguments behind ``~``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from annulet.admin.interface.listing import LIST_PARAMETERS, Listing
from annulet.admin.interface.operations import Answer, Fields, Need, Operation, Resource
from annulet.admin.interface.schemas import TEXT_SCHEMA, object_of, page_of
from annulet.admin.interface.values import VHOST, Value
from annulet.admin.requests.bodies import OBJECT, arguments_of
from annulet.admin.requests.columns import Part
from annulet.admin.requests.json_values import json_object
from annulet.admin.requests.responses import ResourceError, bad_request, json_response
from annulet.admin.resources.audit import audit
from annulet.admin.resources.routing.exchanges import DEFAULT_EXCHANGE, exchange_name
from annulet.broker.operation.bindings import BindingRow, bindings_between, bindings_of_source, properties_key
from annulet.broker.operation.durable_changes import durably
from annulet.broker.turns.list_turns import Turns
from annulet.core.routing.bindings import TO_EXCHANGE, TO_QUEUE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.responses import Response

    from annulet.admin.interface.call import Call
    from annulet.core.host.virtual_host import VirtualHost

KINDS: Final = (TO_QUEUE, TO_EXCHANGE)

NAMES: Final = frozenset({"vhost", "source", "destination_type", "destination", "routing_key", "arguments", "key"})


def describe(row: BindingRow) -> dict[str, Any]:
    """Return a binding's JSON."""
    return {
        "vhost": row.host.name,
        "source": row.source,
        "destination_type": row.kind,
        "destination": row.destination,
        "routing_key": row.routing_key,
        "arguments": json_object(row.arguments),
        "key": properties_key(row.routing_key, row.arguments),
    }


def _key(row: BindingRow) -> tuple[str, ...]:
    name = properties_key(row.routing_key, row.arguments)
    return row.host.name, row.source, row.kind, row.destination, name


def _name_of(row: BindingRow) -> str:
    return row.destination


LISTING: Final[Listing[BindingRow]] = Listing((Part(NAMES, describe),), _key, (str,) * 5, _name_of)


async def list_bindings(call: Call) -> Response:
    """A page of bindings; ``name`` is a part of the name of the destination."""
    return await LISTING.answer(call, _rows(call))


def _rows(call: Call) -> Iterator[BindingRow]:
    wanted, destination = call.parameters.get("source"), call.parameters.get("destination")
    for host in call.hosts():
        sources = list(host.exchanges) if wanted is None else [exchange_name(wanted)]
        for source in sources:
            for row in bindings_of_source(host, source):
                if destination in {None, row.destination}:
                    yield row


async def make_binding(call: Call) -> Response:
    """Bind; twice is once."""
    host, source, kind, destination = _ends(call)
    routing_key = call.fields.get("routing_key", "")
    arguments = arguments_of("argument", call.fields.get("arguments", {}))
    if "\r" in routing_key or "\n" in routing_key:
        raise bad_request("routing_key", routing_key, "give a key without CR and LF")
    access = call.access(host)
    bind = access.bind_queue if kind == TO_QUEUE else access.bind_exchange
    await durably(call.broker.definitions, lambda: bind(destination, source, routing_key, arguments))
    row = BindingRow(host, source, kind, destination, routing_key, arguments)
    audit(host, call.user, "bind", destination, {"source": source, "routing_key": routing_key}, call.now)
    place = "/".join(quote(part, safe="") for part in (host.name, source or DEFAULT_EXCHANGE, *_key(row)[2:]))
    return json_response(describe(row), 201, {"Location": f"/api/v1/bindings/{place}"})


async def get_binding(call: Call) -> Response:
    """One binding."""
    return json_response(describe(await _chosen(call)))


async def delete_binding(call: Call) -> Response:
    """Undo a binding."""
    host, source, kind, destination = _ends(call)
    access, row = call.access(host), await _chosen(call)
    unbind = access.unbind_queue if kind == TO_QUEUE else access.unbind_exchange
    await durably(call.broker.definitions, lambda: unbind(destination, source, row.routing_key, row.arguments))
    audit(host, call.user, "unbind", destination, {"source": source, "routing_key": row.routing_key}, call.now)
    return json_response({**describe(row), "deleted": True})


def _ends(call: Call) -> tuple[VirtualHost, str, str, str]:
    """Return virtual host, source, kind and name of the destination."""
    kind, destination = call.names["destination_type"], call.names["destination"]
    if kind not in KINDS:
        raise bad_request("destination_type", kind, f"give {' or '.join(KINDS)}")
    source = exchange_name(call.names["source"])
    return call.host(), source, kind, destination if kind == TO_QUEUE else exchange_name(destination)


async def _chosen(call: Call) -> BindingRow:
    """Return the binding that the path names; 404 when there is none."""
    host, source, kind, destination = _ends(call)
    wanted, turns = call.names["key"], Turns()
    for row in bindings_between(host, source, kind, destination):
        if properties_key(row.routing_key, row.arguments) == wanted:
            return row
        await turns.look()
    raise ResourceError(404, f"no binding {wanted!r} from {source!r} to {kind} {destination!r}")


BINDING_SCHEMA: Final = object_of(
    vhost=TEXT_SCHEMA, source=TEXT_SCHEMA, destination=TEXT_SCHEMA, routing_key=TEXT_SCHEMA, key=TEXT_SCHEMA
)
ENDS: Final = (Need("write", "destination"), Need("read", "source"))

RESOURCES: Final = (
    Resource(
        "bindings",
        "routing",
        (
            Operation(
                "GET",
                "list_bindings",
                "Bindings by virtual host, source and destination.",
                list_bindings,
                parameters=(
                    *LIST_PARAMETERS,
                    VHOST,
                    Value("source", "an exchange, for its bindings only; amq.default is the default exchange"),
                    Value("destination", "a queue or exchange, for the bindings to it only"),
                ),
                answers={200: Answer("A page of bindings.", page_of(BINDING_SCHEMA))},
            ),
        ),
    ),
    Resource(
        "bindings/{vhost}/{source}/{destination_type}/{destination}",
        "routing",
        (
            Operation(
                "POST",
                "make_binding",
                "Bind a queue or exchange to an exchange or address.",
                make_binding,
                needs=ENDS,
                body=Fields(
                    (
                        Value("routing_key", "the routing key", example="order.*"),
                        Value("arguments", "an object of arguments", OBJECT),
                    )
                ),
                answers={201: Answer("The binding; Location has its path.", BINDING_SCHEMA)},
            ),
        ),
    ),
    Resource(
        "bindings/{vhost}/{source}/{destination_type}/{destination}/{key}",
        "routing",
        (
            Operation(
                "GET", "get_binding", "One binding.", get_binding, answers={200: Answer("The binding.", BINDING_SCHEMA)}
            ),
            Operation(
                "DELETE",
                "delete_binding",
                "Undo a binding.",
                delete_binding,
                needs=ENDS,
                answers={200: Answer("The binding is undone.", BINDING_SCHEMA)},
            ),
        ),
    ),
)
