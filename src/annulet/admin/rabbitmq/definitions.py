"""``/api/definitions`` and ``/api/definitions/VHOST``: all definitions in RabbitMQ's format, and their import.

An import adds and changes; it deletes nothing. Queues and exchanges that exist stay as they are (RabbitMQ). What cannot
be taken is listed by name and reason in the answer; without any the answer is empty, as RabbitMQ's is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from annulet.admin.rabbitmq.framework.levels import ADMINISTRATORS
from annulet.admin.rabbitmq.framework.routing import Route
from annulet.admin.requests.bodies import read_octets
from annulet.admin.requests.responses import json_response
from annulet.admin.resources.definitions import apply_octets, require_whole
from annulet.broker.operation.definitions.current import export
from annulet.broker.operation.definitions.splitting import DOCUMENT_BYTES_MAX

if TYPE_CHECKING:
    from annulet.admin.rabbitmq.framework.call import Call

LISTED: Final = ("conflicts", "not_taken")


async def get_definitions(call: Call) -> Response:
    """All definitions, or those of a virtual host."""
    require_whole(call.user)
    host = call.host().name if "vhost" in call.names else ""
    return json_response(await export(call.broker, call.hosts(), own=False, host=host))


async def put_definitions(call: Call) -> Response:
    """Import a document."""
    require_whole(call.user)
    host = call.host().name if "vhost" in call.names else ""
    octets = await read_octets(call.request, DOCUMENT_BYTES_MAX)
    plan = await apply_octets(call.request, call.user, octets, host, keep=True)
    if not plan.conflicts and not plan.not_taken:
        return Response(status_code=204)
    described = plan.described()
    return json_response({name: described[name] for name in LISTED})


ROUTES: Final = (
    Route("definitions", {"GET": get_definitions, "POST": put_definitions}, ADMINISTRATORS),
    Route("definitions/{vhost}", {"GET": get_definitions, "POST": put_definitions}, ADMINISTRATORS),
)
