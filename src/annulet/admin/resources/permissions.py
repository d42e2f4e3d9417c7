"""``/api/v1/permissions`` and ``/api/v1/permissions/{vhost}/{user}``: permissions of users in virtual hosts.

For administrators.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from annulet.admin.interface.listing import LIST_PARAMETERS, Listing
from annulet.admin.interface.operations import Answer, Fields, Operation, Resource
from annulet.admin.interface.schemas import TEXT_SCHEMA, object_of, page_of
from annulet.admin.interface.values import VHOST, Value
from annulet.admin.requests.access import ADMINISTRATORS
from annulet.admin.requests.columns import Part
from annulet.admin.requests.responses import json_response
from annulet.admin.resources.access_changes import AccessChanges
from annulet.core.base.errors import NotFound
from annulet.store.database.definitions import PermissionRecord

if TYPE_CHECKING:
    from starlette.responses import Response

    from annulet.admin.interface.call import Call

KINDS: Final = ("configure", "write", "read")
FURTHER_KINDS: Final = ("browse", "manage")
"""Beside RabbitMQ's three; they allow nothing more where they are left out."""


async def list_permissions(call: Call) -> Response:
    """A page of permissions, by user and virtual host; ``name`` is a part of the name of the user."""
    every = call.broker.access_directory.permissions()
    host, user = call.parameters.get("vhost"), call.parameters.get("user")
    found = [record for record in every if host in {None, record.virtual_host} and user in {None, record.user}]
    return await LISTING.answer(call, found, total=len(every))


async def get_permission(call: Call) -> Response:
    """The permissions of one user in one virtual host."""
    return json_response(_described(call.broker.access_directory.permission(call.names["user"], call.names["vhost"])))


async def put_permission(call: Call) -> Response:
    """Give a user permissions in a virtual host."""
    further = {kind: call.fields[kind] for kind in FURTHER_KINDS if kind in call.fields}
    record = PermissionRecord(
        call.names["user"], call.names["vhost"], *(call.fields[kind] for kind in KINDS), **further
    )
    made = AccessChanges(call.request, call.user).put_permission(record)
    return json_response(_described(record), 201 if made else 200)


async def delete_permission(call: Call) -> Response:
    """Take a user's permissions in a virtual host away."""
    host, name = call.names["vhost"], call.names["user"]
    AccessChanges(call.request, call.user).delete_permission(name, host)
    return json_response({"vhost": host, "user": name, "deleted": True})


def _revision(call: Call) -> Any:
    try:
        return _described(call.broker.access_directory.permission(call.names["user"], call.names["vhost"]))
    except NotFound:
        return None


def _described(record: PermissionRecord) -> dict[str, Any]:
    item = {name: value for name, value in asdict(record).items() if value or name not in FURTHER_KINDS}
    item["vhost"] = item.pop("virtual_host")
    return item


def _key(record: PermissionRecord) -> tuple[str, str]:
    return record.user, record.virtual_host


def _name_of(record: PermissionRecord) -> str:
    return record.user


LISTING: Final[Listing[PermissionRecord]] = Listing(
    (Part(frozenset({"vhost", "user", *KINDS}), _described),), _key, (str, str), _name_of
)

PERMISSION_SCHEMA: Final = object_of(vhost=TEXT_SCHEMA, user=TEXT_SCHEMA, **dict.fromkeys(KINDS, TEXT_SCHEMA))
EXPRESSION: Final = "a regular expression for names; '' allows nothing"

RESOURCES: Final = (
    Resource(
        "permissions",
        "access",
        (
            Operation(
                "GET",
                "list_permissions",
                "Permissions, by user and virtual host.",
                list_permissions,
                tags=ADMINISTRATORS,
                parameters=(*LIST_PARAMETERS, VHOST, Value("user", "a user, for its permissions only")),
                answers={200: Answer("A page of permissions.", page_of(PERMISSION_SCHEMA))},
            ),
        ),
    ),
    Resource(
        "permissions/{vhost}/{user}",
        "access",
        (
            Operation(
                "GET",
                "get_permission",
                "The permissions of one user in one virtual host.",
                get_permission,
                tags=ADMINISTRATORS,
                answers={200: Answer("The permissions.", PERMISSION_SCHEMA)},
            ),
            Operation(
                "PUT",
                "put_permission",
                "Give a user permissions in a virtual host.",
                put_permission,
                tags=ADMINISTRATORS,
                body=Fields(
                    (
                        *(Value(kind, EXPRESSION, required=True, example="^shop") for kind in KINDS),
                        *(Value(kind, EXPRESSION) for kind in FURTHER_KINDS),
                    )
                ),
                answers={
                    200: Answer("The changed permissions.", PERMISSION_SCHEMA),
                    201: Answer("The new permissions.", PERMISSION_SCHEMA),
                },
            ),
            Operation(
                "DELETE",
                "delete_permission",
                "Take a user's permissions in a virtual host away.",
                delete_permission,
                tags=ADMINISTRATORS,
                answers={200: Answer("The permissions are taken away.")},
            ),
        ),
        _revision,
    ),
)
