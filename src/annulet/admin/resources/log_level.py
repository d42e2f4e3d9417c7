"""``/api/v1/log``: the level of the broker's log, and changing it while the broker runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from annulet.admin.interface.operations import Answer, Fields, Operation, Resource
from annulet.admin.interface.schemas import COUNT, TEXT_SCHEMA, object_of
from annulet.admin.interface.values import Value
from annulet.admin.requests.access import ADMINISTRATORS
from annulet.admin.requests.bodies import INTEGER
from annulet.admin.requests.responses import json_response
from annulet.admin.resources.audit import audit_access
from annulet.broker.observing.log_level import LOG_LEVEL_SECONDS_MAX
from annulet.broker.observing.logging import LEVELS

if TYPE_CHECKING:
    from starlette.responses import Response

    from annulet.admin.interface.call import Call
    from annulet.broker.broker import Broker


async def get_log(call: Call) -> Response:
    """The level of the log."""
    return json_response(_described(call.broker))


async def put_log(call: Call) -> Response:
    """Change the level of the log, for ``seconds`` if these are given."""
    level = call.fields["level"]
    call.broker.log_levels.change(level, call.fields.get("seconds", 0))
    audit_access(call.broker, call.user, "log-level", level, call.fields)
    return json_response(_described(call.broker))


def _described(broker: Broker) -> dict[str, Any]:
    levels = broker.log_levels
    return {"level": levels.current, "configured": levels.configured, "until": levels.until}


LOG_SCHEMA: Final = object_of(level=TEXT_SCHEMA, configured=TEXT_SCHEMA, until=COUNT)

RESOURCES: Final = (
    Resource(
        "log",
        "broker",
        (
            Operation(
                "GET",
                "get_log",
                "The level of the broker's log, the configured one, and until when the former holds.",
                get_log,
                answers={200: Answer("The level.", LOG_SCHEMA)},
            ),
            Operation(
                "PUT",
                "put_log",
                "Change the level of the broker's log, for a time or until the broker ends.",
                put_log,
                tags=ADMINISTRATORS,
                body=Fields(
                    (
                        Value("level", "debug, info, warning or error", choices=tuple(LEVELS), required=True),
                        Value("seconds", "for how long; 0 for no end", INTEGER, 0, LOG_LEVEL_SECONDS_MAX),
                    )
                ),
                answers={200: Answer("The level has changed.", LOG_SCHEMA)},
            ),
        ),
    ),
)
