"""``/api/vhost-limits`` and ``/api/user-limits``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from annulet.admin.rabbitmq.framework.bodies import read_fields
from annulet.admin.rabbitmq.framework.levels import ADMINISTRATORS
from annulet.admin.rabbitmq.framework.routing import Route
from annulet.admin.requests.responses import json_response, missing_field
from annulet.admin.resources.access_changes import AccessChanges
from annulet.store.database.definitions import USER, VIRTUAL_HOST

if TYPE_CHECKING:
    from annulet.admin.rabbitmq.framework.call import Call


async def list_host_limits(call: Call) -> Response:
    """The limits of the virtual hosts that the user may see, or of one."""
    limits = call.broker.access_directory.limits(VIRTUAL_HOST)
    return json_response(
        [{"vhost": host.name, "value": limits[host.name]} for host in call.hosts() if host.name in limits]
    )


async def list_user_limits(call: Call) -> Response:
    """The limits of all users, or of one."""
    limits = call.broker.access_directory.limits(USER)
    if USER in call.names:
        name = call.broker.access_directory.user(call.names[USER]).name
        limits = {name: limits[name]} if name in limits else {}
    return json_response([{"user": name, "value": value} for name, value in limits.items()])


async def put_limit(call: Call, *, kind: str) -> Response:
    """Set a limit: ``{"value": 10}``."""
    fields = await read_fields(call, ("value",), ignored=frozenset({"vhost", "user", "name"}))
    value: Any = fields.members.get("value")
    if value is None:
        raise missing_field("value", "give a whole number, or -1 for no limit")
    AccessChanges(call.request, call.user).set_limit(kind, call.names[kind], call.names["limit"], value)
    return Response(status_code=204)


async def delete_limit(call: Call, *, kind: str) -> Response:
    """Take a limit away."""
    AccessChanges(call.request, call.user).delete_limit(kind, call.names[kind], call.names["limit"])
    return Response(status_code=204)


ROUTES: Final = (
    Route("vhost-limits", {"GET": list_host_limits}),
    Route("vhost-limits/{vhost}", {"GET": list_host_limits}),
    Route(
        "vhost-limits/{vhost}/{limit}",
        {"PUT": partial(put_limit, kind=VIRTUAL_HOST), "DELETE": partial(delete_limit, kind=VIRTUAL_HOST)},
        ADMINISTRATORS,
    ),
    Route("user-limits", {"GET": list_user_limits}, ADMINISTRATORS),
    Route("user-limits/{user}", {"GET": list_user_limits}, ADMINISTRATORS),
    Route(
        "user-limits/{user}/{limit}",
        {"PUT": partial(put_limit, kind=USER), "DELETE": partial(delete_limit, kind=USER)},
        ADMINISTRATORS,
    ),
)
