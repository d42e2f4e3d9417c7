"""``/api/v1/virtual-hosts`` and ``/api/v1/virtual-hosts/{name}``: virtual hosts and their limits.

Users of the API see those they may enter; administrators make, describe and delete them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from annulet.admin.interface.listing import LIST_PARAMETERS, Listing
from annulet.admin.interface.operations import Answer, Fields, Operation, Resource
from annulet.admin.interface.schemas import COUNT, SWITCH_SCHEMA, TEXT_SCHEMA, object_of, page_of
from annulet.admin.interface.values import Value
from annulet.admin.requests.access import ADMINISTRATORS, chosen_hosts, visible_hosts
from annulet.admin.requests.bodies import OBJECT, TEXTS
from annulet.admin.requests.columns import Part
from annulet.admin.requests.responses import json_response
from annulet.admin.resources.access_changes import AccessChanges, limits_of
from annulet.store.database.definitions import VIRTUAL_HOST

if TYPE_CHECKING:
    from starlette.responses import Response

    from annulet.admin.interface.call import Call
    from annulet.core.host.virtual_host import VirtualHost

NAME: Final = "virtual_host"
"""The name in the path. It may be of a virtual host that is not there yet, unlike ``vhost`` of other paths."""


NAMES: Final = frozenset({"name", "description", "tags", "deleting", "limits", "queues", "connections"})


async def list_virtual_hosts(call: Call) -> Response:
    """A page of the virtual hosts that the user may see."""
    listing: Listing[VirtualHost] = Listing((Part(NAMES, partial(_described, call)),), _key, (str,), _name_of)
    return await listing.answer(call, visible_hosts(call.request, call.user))


def _key(host: VirtualHost) -> tuple[str]:
    return (host.name,)


def _name_of(host: VirtualHost) -> str:
    return host.name


async def get_virtual_host(call: Call) -> Response:
    """One virtual host."""
    return json_response(_described(call, chosen_hosts(call.request, call.user, call.names[NAME])[0]))


async def delete_virtual_host(call: Call) -> Response:
    """Delete a virtual host: 202 when that takes longer than the request may."""
    name = call.names[NAME]
    done = await AccessChanges(call.request, call.user).delete_virtual_host(name)
    return json_response({"name": name, "deleted": done}, 200 if done else 202)


async def put_virtual_host(call: Call) -> Response:
    """Make or describe a virtual host."""
    name, given, broker = call.names[NAME], call.fields, call.broker
    changes = AccessChanges(call.request, call.user)
    known = broker.virtual_hosts.record(name) if name in broker.hosts else None
    description = given.get("description", "" if known is None else known.description)
    tags = tuple(given.get("tags", () if known is None else known.tags))
    made = changes.put_virtual_host(name, description, tags)
    for limit, value in given.get("limits", {}).items():
        changes.set_limit(VIRTUAL_HOST, name, limit, value)
    return json_response(_described(call, broker.hosts[name]), 201 if made else 200)


def _described(call: Call, host: VirtualHost) -> dict[str, Any]:
    return {
        **_definition(call, host),
        "queues": len(host.listed_queues()),
        "connections": call.broker.admission.by_host[host.name],
    }


def _definition(call: Call, host: VirtualHost) -> dict[str, Any]:
    record = call.broker.virtual_hosts.records.get(host.name)
    return {
        "name": host.name,
        "description": "" if record is None else record.description,
        "tags": () if record is None else record.tags,
        "deleting": record is not None and record.deleting,
        "limits": limits_of(call.request, VIRTUAL_HOST, host.name),
    }


def _revision(call: Call) -> Any:
    host = call.broker.hosts.get(call.names[NAME])
    return None if host is None else _definition(call, host)


HOST_SCHEMA: Final = object_of(name=TEXT_SCHEMA, description=TEXT_SCHEMA, deleting=SWITCH_SCHEMA, queues=COUNT)

RESOURCES: Final = (
    Resource(
        "virtual-hosts",
        "access",
        (
            Operation(
                "GET",
                "list_virtual_hosts",
                "Virtual hosts that the user may see.",
                list_virtual_hosts,
                parameters=LIST_PARAMETERS,
                answers={200: Answer("A page of virtual hosts.", page_of(HOST_SCHEMA))},
            ),
        ),
    ),
    Resource(
        "virtual-hosts/{virtual_host}",
        "access",
        (
            Operation(
                "GET",
                "get_virtual_host",
                "One virtual host.",
                get_virtual_host,
                answers={200: Answer("The virtual host.", HOST_SCHEMA)},
            ),
            Operation(
                "PUT",
                "put_virtual_host",
                "Make or describe a virtual host.",
                put_virtual_host,
                tags=ADMINISTRATORS,
                body=Fields(
                    (
                        Value("description", "a text"),
                        Value("tags", "a list of words", TEXTS),
                        Value("limits", "limits by name, with their values", OBJECT, example={"max-queues": 100}),
                    )
                ),
                answers={
                    200: Answer("The changed virtual host.", HOST_SCHEMA),
                    201: Answer("The new virtual host.", HOST_SCHEMA),
                },
            ),
            Operation(
                "DELETE",
                "delete_virtual_host",
                "Delete a virtual host with all in it.",
                delete_virtual_host,
                tags=ADMINISTRATORS,
                answers={200: Answer("It is deleted."), 202: Answer("The deletion goes on.")},
            ),
        ),
        _revision,
    ),
)
