"""``/api/v1/exchanges``: exchanges and addresses of virtual hosts; creating and deleting an exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from annulet.admin.interface.listing import LIST_PARAMETERS, Listing
from annulet.admin.interface.operations import Answer, Fields, Need, Operation, Resource
from annulet.admin.interface.schemas import COUNT, SWITCH_SCHEMA, TEXT_SCHEMA, object_of, page_of
from annulet.admin.interface.values import VHOST, Value
from annulet.admin.requests.bodies import OBJECT, SWITCH, arguments_of
from annulet.admin.requests.columns import Part
from annulet.admin.requests.json_values import json_object
from annulet.admin.requests.responses import ResourceError, json_response
from annulet.admin.resources.audit import audit
from annulet.broker.operation.durable_changes import durably

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.responses import Response

    from annulet.admin.interface.call import Call
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.routing.exchanges import Exchange

Row: TypeAlias = "tuple[VirtualHost, Exchange]"

EXCHANGE: Final = "exchange"
"""The name of a path that names an exchange; ``amq.default`` is the default exchange."""

DEFAULT_EXCHANGE: Final = "amq.default"

NAMES: Final = frozenset({"vhost", "name"})
DEFINITION: Final = frozenset({"type", "durable", "auto_delete", "internal", "arguments"})


def exchange_name(name: str) -> str:
    """Return the name of an exchange in a path, where the empty name of the default exchange has no place."""
    return "" if name == DEFAULT_EXCHANGE else name


def _name(row: Row) -> dict[str, Any]:
    return {"vhost": row[0].name, "name": row[1].name}


def definition_of(exchange: Exchange) -> dict[str, Any]:
    """Return the definition of an exchange."""
    arguments = dict(exchange.arguments)
    if exchange.alternate is not None:
        arguments.setdefault("alternate-exchange", exchange.alternate)
    return {
        "type": exchange.type_name,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": json_object(arguments),
    }


def _definition(row: Row) -> dict[str, Any]:
    return definition_of(row[1])


def _bindings(row: Row) -> dict[str, Any]:
    return {"bindings": len(row[1].bindings), "incoming_bindings": len(row[1].incoming)}


def _key(row: Row) -> tuple[str, str]:
    return row[0].name, row[1].name


def _name_of(row: Row) -> str:
    return row[1].name


LISTING: Final[Listing[Row]] = Listing(
    (
        Part(NAMES, _name),
        Part(DEFINITION, _definition),
        Part(frozenset({"bindings", "incoming_bindings"}), _bindings),
    ),
    _key,
    (str, str),
    _name_of,
)


async def list_exchanges(call: Call) -> Response:
    """A page of exchanges and addresses, by virtual host and name."""
    return await LISTING.answer(call, _rows(call.hosts()))


def _rows(hosts: list[VirtualHost]) -> Iterator[Row]:
    for host in hosts:
        for exchange in list(host.exchanges.values()):
            if host.exchanges.get(exchange.name) is exchange:
                yield host, exchange


async def get_exchange(call: Call) -> Response:
    """One exchange."""
    return json_response(LISTING.item(chosen_exchange(call)))


async def put_exchange(call: Call) -> Response:
    """Create an exchange: 201; or check that the one that is there is the same: 200."""
    host, name, given = call.host(), exchange_name(call.names[EXCHANGE]), call.fields
    arguments = arguments_of("argument", given.get("arguments", {}))
    access, known = call.access(host), name in host.exchanges
    exchange = await durably(
        call.broker.definitions,
        lambda: access.declare_exchange(
            name,
            given.get("type", "direct"),
            durable=given.get("durable", True),
            auto_delete=given.get("auto_delete", False),
            internal=given.get("internal", False),
            arguments=arguments,
        ),
    )
    if not known:
        audit(host, call.user, "create-exchange", name, given, call.now)
    return json_response(LISTING.item((host, exchange)), 200 if known else 201)


async def delete_exchange(call: Call) -> Response:
    """Delete an exchange with its bindings."""
    host, exchange = chosen_exchange(call)
    unused, access = call.parameters["if_unused"], call.access(host)
    await durably(call.broker.definitions, lambda: access.delete_exchange(exchange.name, if_unused=unused))
    audit(host, call.user, "delete-exchange", exchange.name, None, call.now)
    return json_response({"vhost": host.name, "name": exchange.name, "deleted": True})


def chosen_exchange(call: Call) -> Row:
    """Return the exchange that the path names, with its virtual host; 404 when there is none."""
    host, name = call.host(), exchange_name(call.names[EXCHANGE])
    exchange = host.exchanges.get(name)
    if exchange is None:
        raise ResourceError(404, f"no exchange {name!r} in virtual host {host.name!r}")
    return host, exchange


def _revision(call: Call) -> Any:
    exchange = call.host().exchanges.get(exchange_name(call.names[EXCHANGE]))
    return None if exchange is None else definition_of(exchange)


EXCHANGE_SCHEMA: Final = object_of(
    vhost=TEXT_SCHEMA, name=TEXT_SCHEMA, type=TEXT_SCHEMA, durable=SWITCH_SCHEMA, bindings=COUNT
)

RESOURCES: Final = (
    Resource(
        "exchanges",
        "routing",
        (
            Operation(
                "GET",
                "list_exchanges",
                "Exchanges and addresses by virtual host and name.",
                list_exchanges,
                parameters=(*LIST_PARAMETERS, VHOST),
                answers={200: Answer("A page of exchanges.", page_of(EXCHANGE_SCHEMA))},
            ),
        ),
    ),
    Resource(
        "exchanges/{vhost}/{exchange}",
        "routing",
        (
            Operation(
                "GET",
                "get_exchange",
                "One exchange.",
                get_exchange,
                answers={200: Answer("The exchange.", EXCHANGE_SCHEMA)},
            ),
            Operation(
                "PUT",
                "put_exchange",
                "Create an exchange, or check that it is the same.",
                put_exchange,
                needs=(Need("configure", EXCHANGE),),
                body=Fields(
                    (
                        Value("type", "a type of exchange", default="direct", example="topic"),
                        Value("durable", "false for an exchange that ends with the broker", SWITCH, default=True),
                        Value("auto_delete", "true to delete it after its last binding", SWITCH, default=False),
                        Value("internal", "true for an exchange that takes no messages of clients", SWITCH),
                        Value("arguments", "an object of arguments", OBJECT),
                    )
                ),
                answers={
                    200: Answer("The exchange is the same.", EXCHANGE_SCHEMA),
                    201: Answer("The exchange.", EXCHANGE_SCHEMA),
                },
                further="for an alternate exchange: read on the exchange and write on the alternate",
            ),
            Operation(
                "DELETE",
                "delete_exchange",
                "Delete an exchange with its bindings.",
                delete_exchange,
                needs=(Need("configure", EXCHANGE),),
                parameters=(Value("if_unused", "true to refuse it while it has bindings", SWITCH, default=False),),
                answers={200: Answer("The exchange is deleted.")},
            ),
        ),
        _revision,
    ),
)
