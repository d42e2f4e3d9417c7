"""``/api/v1/diverts``: diverts of virtual hosts. Users of the API see them; administrators change them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from annulet.admin.interface.operations import Answer, Fields, Operation, Resource
from annulet.admin.interface.schemas import SWITCH_SCHEMA, TEXT_SCHEMA, items_of, object_of
from annulet.admin.interface.values import Value
from annulet.admin.requests.access import ADMINISTRATORS
from annulet.admin.requests.bodies import SWITCH, TEXTS
from annulet.admin.requests.responses import ResourceError, json_response
from annulet.admin.resources.audit import audit
from annulet.broker.operation.operator_settings import describe_divert, read_divert
from annulet.core.routing.diverts import DIVERT_ROUTING_TYPES, STRIP

if TYPE_CHECKING:
    from starlette.responses import Response

    from annulet.admin.interface.call import Call
    from annulet.core.routing.diverts import Divert

DIVERT: Final = "divert"
"""The name of a path that names a divert."""


async def list_diverts(call: Call) -> Response:
    """All diverts of a virtual host, by name."""
    host = call.host()
    found = sorted(host.diverts.by_name.items())
    return json_response({"items": [_described(host.name, divert) for _, divert in found]})


async def get_divert(call: Call) -> Response:
    """One divert."""
    host, name = call.host(), call.names[DIVERT]
    divert = host.diverts.by_name.get(name)
    if divert is None:
        raise ResourceError(404, f"no divert {name!r} in virtual host {host.name!r}")
    return json_response(_described(host.name, divert))


async def put_divert(call: Call) -> Response:
    """Make or replace a divert."""
    host, name = call.host(), call.names[DIVERT]
    divert, known = read_divert(name, call.fields), name in host.diverts.by_name
    durable = call.broker.operator_settings.set_divert(host, divert)
    audit(host, call.user, "set-divert", name, call.fields, call.now)
    return json_response({**_described(host.name, divert), "durable_change": durable}, 200 if known else 201)


async def delete_divert(call: Call) -> Response:
    """Delete a divert."""
    host, name = call.host(), call.names[DIVERT]
    durable = call.broker.operator_settings.remove_divert(host, name)
    audit(host, call.user, "delete-divert", name, None, call.now)
    return json_response({"name": name, "deleted": True, "durable_change": durable})


def _described(host: str, divert: Divert) -> dict[str, Any]:
    return {"vhost": host, "name": divert.name, **describe_divert(divert)}


def _revision(call: Call) -> Any:
    divert = call.host().diverts.by_name.get(call.names[DIVERT])
    return None if divert is None else describe_divert(divert)


DIVERT_SCHEMA: Final = object_of(
    vhost=TEXT_SCHEMA, name=TEXT_SCHEMA, address=TEXT_SCHEMA, filter=TEXT_SCHEMA, exclusive=SWITCH_SCHEMA
)

RESOURCES: Final = (
    Resource(
        "diverts/{vhost}",
        "routing",
        (
            Operation(
                "GET",
                "list_diverts",
                "Diverts of a virtual host, by name.",
                list_diverts,
                answers={200: Answer("All diverts of the virtual host.", items_of(DIVERT_SCHEMA))},
            ),
        ),
    ),
    Resource(
        "diverts/{vhost}/{divert}",
        "routing",
        (
            Operation(
                "GET", "get_divert", "One divert.", get_divert, answers={200: Answer("The divert.", DIVERT_SCHEMA)}
            ),
            Operation(
                "PUT",
                "put_divert",
                "Make or replace a divert.",
                put_divert,
                tags=ADMINISTRATORS,
                body=Fields(
                    (
                        Value("address", "an address, with wildcards or without", required=True, example="orders.#"),
                        Value(
                            "forwarding_addresses",
                            "a list of addresses that get a copy",
                            TEXTS,
                            required=True,
                            example=["audit"],
                        ),
                        Value("filter", "a selector; empty for all messages", example="amount > 10000"),
                        Value("exclusive", "true to keep diverted messages from the address itself", SWITCH),
                        Value("routing_type", "the routing type", choices=DIVERT_ROUTING_TYPES, default=STRIP),
                    )
                ),
                answers={200: Answer("The divert.", DIVERT_SCHEMA), 201: Answer("The new divert.", DIVERT_SCHEMA)},
            ),
            Operation(
                "DELETE",
                "delete_divert",
                "Delete a divert.",
                delete_divert,
                tags=ADMINISTRATORS,
                answers={200: Answer("The divert is deleted.")},
            ),
        ),
        _revision,
    ),
)
