"""``/api/permissions``, those of one user and of one virtual host, and topic permissions, of which there are none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from annulet.admin.rabbitmq.framework.bodies import read_fields
from annulet.admin.rabbitmq.framework.levels import ADMINISTRATORS
from annulet.admin.rabbitmq.framework.listing import Listing
from annulet.admin.rabbitmq.framework.routing import Route
from annulet.admin.requests.columns import Part
from annulet.admin.requests.responses import ResourceError, json_response
from annulet.admin.resources.access_changes import AccessChanges
from annulet.store.database.definitions import PermissionRecord

if TYPE_CHECKING:
    from annulet.admin.rabbitmq.framework.call import Call

KINDS: Final = ("configure", "write", "read")
REMEDY: Final = "give a regular expression for names; '' allows nothing"
IGNORED: Final = frozenset({"vhost", "username", "user", "node", "name"})


def _build(record: PermissionRecord) -> dict[str, Any]:
    return {
        "user": record.user,
        "vhost": record.virtual_host,
        "configure": record.configure,
        "write": record.write,
        "read": record.read,
    }


LISTING: Final = Listing((Part(frozenset({"user", "vhost", *KINDS}), _build),), lambda record: record.user)


async def list_permissions(call: Call) -> Response:
    """All permissions."""
    return await LISTING.answer(call, call.broker.access_directory.permissions())


async def list_of_user(call: Call) -> Response:
    """The permissions of a user."""
    directory = call.broker.access_directory
    name = directory.user(call.names["user"]).name
    return await LISTING.answer(call, [record for record in directory.permissions() if record.user == name])


async def list_of_host(call: Call) -> Response:
    """The permissions in a virtual host."""
    name = call.host().name
    every = call.broker.access_directory.permissions()
    return await LISTING.answer(call, [record for record in every if record.virtual_host == name])


async def get_permission(call: Call) -> Response:
    """The permissions of a user in a virtual host."""
    record = call.broker.access_directory.permission(call.names["user"], call.host().name)
    return json_response(LISTING.one(call, record))


async def put_permission(call: Call) -> Response:
    """Give a user permissions in a virtual host."""
    host = call.host().name
    fields = await read_fields(call, KINDS, ignored=IGNORED)
    texts = [fields.text(kind, remedy=REMEDY) for kind in KINDS]
    record = PermissionRecord(call.names["user"], host, *texts)
    made = AccessChanges(call.request, call.user).put_permission(record)
    return Response(status_code=201 if made else 204)


async def delete_permission(call: Call) -> Response:
    """Take them away."""
    AccessChanges(call.request, call.user).delete_permission(call.names["user"], call.host().name)
    return Response(status_code=204)


async def list_topic_permissions(_call: Call) -> Response:
    """No topic permissions."""
    return json_response([])


async def refuse_topic_permissions(_call: Call) -> Response:
    """Refuse them: a routing key is no secret here, and a permission that has no effect would be worse than none."""
    raise ResourceError(
        400,
        "topic permissions are not available: give users permissions for exchanges and queues, one exchange for each "
        "group of topics",
    )


TOPICS: Final = {"GET": list_topic_permissions, "PUT": refuse_topic_permissions, "DELETE": refuse_topic_permissions}

ROUTES: Final = (
    Route("permissions", {"GET": list_permissions}, ADMINISTRATORS),
    Route(
        "permissions/{vhost}/{user}",
        {"GET": get_permission, "PUT": put_permission, "DELETE": delete_permission},
        ADMINISTRATORS,
    ),
    Route("users/{user}/permissions", {"GET": list_of_user}, ADMINISTRATORS),
    Route("vhosts/{vhost}/permissions", {"GET": list_of_host}, ADMINISTRATORS),
    Route("topic-permissions", {"GET": list_topic_permissions}, ADMINISTRATORS),
    Route("topic-permissions/{vhost}/{user}", TOPICS, ADMINISTRATORS),
    Route("topic-permissions/{vhost}/{user}/{exchange}", TOPICS, ADMINISTRATORS),
    Route("users/{user}/topic-permissions", {"GET": list_topic_permissions}, ADMINISTRATORS),
    Route("vhosts/{vhost}/topic-permissions", {"GET": list_topic_permissions}, ADMINISTRATORS),
)
