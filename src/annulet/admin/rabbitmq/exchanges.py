"""``/api/exchanges``: lists, one exchange, declaring and deleting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from starlette.responses import Response

from annulet.admin.rabbitmq.framework.bodies import read_fields
from annulet.admin.rabbitmq.framework.errors import not_found
from annulet.admin.rabbitmq.framework.listing import Listing
from annulet.admin.rabbitmq.framework.routing import Route
from annulet.admin.requests.columns import Part
from annulet.admin.requests.json_values import json_object
from annulet.admin.requests.responses import json_response
from annulet.broker.operation.durable_changes import durably
from annulet.broker.turns.list_turns import in_order

if TYPE_CHECKING:
    from collections.abc import Iterator

    from annulet.admin.rabbitmq.framework.call import Call
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.routing.exchanges import Exchange

Row: TypeAlias = "tuple[VirtualHost, Exchange]"

FIELDS: Final = ("type", "durable", "auto_delete", "internal", "arguments")

NAMES: Final = frozenset({"name", "vhost", "type", "durable", "auto_delete", "internal", "arguments", "policy"})

DEFAULT_TYPE: Final = "direct"


def describe(row: Row) -> dict[str, Any]:
    """Return an exchange's JSON. No policy applies to exchanges."""
    host, exchange = row
    arguments = dict(exchange.arguments)
    if exchange.alternate is not None:
        arguments.setdefault("alternate-exchange", exchange.alternate)
    return {
        "name": exchange.name,
        "vhost": host.name,
        "type": exchange.type_name,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": json_object(arguments),
        "policy": None,
    }


def _name_of(row: Row) -> str:
    return row[1].name


LISTING: Final[Listing[Row]] = Listing((Part(NAMES, describe),), _name_of)


async def list_exchanges(call: Call) -> Response:
    """Exchanges and addresses of the virtual hosts that the user sees, or of one, by name."""
    names = [(host, await in_order(host.exchanges)) for host in call.hosts()]
    return await LISTING.answer(call, _rows(names))


def _rows(names: list[tuple[VirtualHost, list[str]]]) -> Iterator[Row]:
    """Yield the exchanges by name; those that are deleted in the meantime are left out."""
    for host, listed in names:
        for name in listed:
            exchange = host.exchanges.get(name)
            if exchange is not None:
                yield host, exchange


async def get_exchange(call: Call) -> Response:
    """One exchange."""
    return json_response(LISTING.one(call, chosen_exchange(call)))


async def declare_exchange(call: Call) -> Response:
    """Declare an exchange with the rules and permissions of AMQP 0-9-1; 201 when it is new, 204 when it is the same."""
    host, name = call.host(), call.name("name")
    access = call.access(host)
    access.require("configure", name)
    fields = await read_fields(call, FIELDS)
    type_name = fields.text("type", DEFAULT_TYPE)
    durable = fields.switch("durable", default=False)
    auto_delete = fields.switch("auto_delete", default=False)
    internal = fields.switch("internal", default=False)
    arguments = fields.arguments()
    known = name in host.exchanges
    await durably(
        call.broker.definitions,
        lambda: access.declare_exchange(
            name, type_name, durable=durable, auto_delete=auto_delete, internal=internal, arguments=arguments
        ),
    )
    return Response(status_code=204 if known else 201)


async def delete_exchange(call: Call) -> Response:
    """Delete an exchange with its bindings; ``if-unused`` asks first whether it has any."""
    host, name = call.host(), call.name("name")
    access = call.access(host)
    access.require("configure", name)
    unused = call.query.switch("if-unused")
    chosen_exchange(call)
    await durably(call.broker.definitions, lambda: access.delete_exchange(name, if_unused=unused))
    return Response(status_code=204)


def chosen_exchange(call: Call) -> Row:
    """Return the exchange that the path names, with its virtual host; 404 when there is none."""
    host, name = call.host(), call.name("name")
    exchange = host.exchanges.get(name)
    if exchange is None:
        raise not_found("exchange", name)
    return host, exchange


ROUTES: Final = (
    Route("exchanges", {"GET": list_exchanges}),
    Route("exchanges/{vhost}", {"GET": list_exchanges}),
    Route("exchanges/{vhost}/{name}", {"GET": get_exchange, "PUT": declare_exchange, "DELETE": delete_exchange}),
)
