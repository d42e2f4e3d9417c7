"""``/api/v1/log``: the level of the broker's log, and changing it while the broker runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from annulet.admin.requests.access import ADMINISTRATORS, broker_of, require_still, require_user, require_writer
from annulet.admin.requests.bodies import INTEGER, TEXT, read_fields, required
from annulet.admin.requests.parameters import read_parameters
from annulet.admin.requests.responses import json_response
from annulet.admin.resources.audit import audit_access

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from annulet.broker.broker import Broker

METHODS: Final = ("GET", "PUT")


async def answer(request: Request) -> Response:
    """Answer with the level (GET), or change it (PUT), for ``seconds`` if these are given."""
    broker = broker_of(request)
    if request.method != "PUT":
        await require_user(request)
        read_parameters(request, ())
        return json_response(_described(broker))
    user = await require_writer(request, ADMINISTRATORS)
    read_parameters(request, ())
    given = await read_fields(request, {"level": TEXT, "seconds": INTEGER})
    require_still(request)
    level = required(given, "level", "debug, info, warning or error")
    broker.log_levels.change(level, given.get("seconds", 0))
    audit_access(broker, user, "log-level", level, given)
    return json_response(_described(broker))


def _described(broker: Broker) -> dict[str, Any]:
    levels = broker.log_levels
    return {"level": levels.current, "configured": levels.configured, "until": levels.until}
