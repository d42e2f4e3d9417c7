"""``/api/v1/log``: the level of the broker's log, and changing it while the broker runs; its newest lines."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from annulet.admin.interface.operations import Answer, Fields, Operation, Resource
from annulet.admin.interface.schemas import COUNT, TEXT_SCHEMA, items_of, object_of
from annulet.admin.interface.values import Value
from annulet.admin.requests.access import ADMINISTRATORS, ALL_HOSTS_TAGS, require_all_hosts
from annulet.admin.requests.bodies import INTEGER
from annulet.admin.requests.responses import json_response
from annulet.admin.resources.audit import audit_access
from annulet.broker.observing.log_level import LOG_LEVEL_SECONDS_MAX
from annulet.broker.observing.log_lines import LOG_LINES_MAX
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


async def get_log_lines(call: Call) -> Response:
    """The newest lines, the oldest of them first. They tell of every virtual host."""
    require_all_hosts(call.user, "the log")
    given, lines = call.parameters, call.broker.log_lines
    found = lines.after(given["after"], LOG_LINES_MAX, least_level=LEVELS[given["level"]])
    since, text = given["since"], given["text"].lower()
    items = [line for line in found if line.at >= since and text in f"{line.event} {line.values} {line.id}".lower()]
    return json_response({"items": [asdict(line) for line in items[-given["limit"] :]], "newest": lines.newest})


def _described(broker: Broker) -> dict[str, Any]:
    levels = broker.log_levels
    return {"level": levels.current, "configured": levels.configured, "until": levels.until}


LOG_SCHEMA: Final = object_of(level=TEXT_SCHEMA, configured=TEXT_SCHEMA, until=COUNT)
LINE_SCHEMA: Final = object_of(number=COUNT, at=COUNT, level=TEXT_SCHEMA, event=TEXT_SCHEMA, values=TEXT_SCHEMA)

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
    Resource(
        "log/lines",
        "broker",
        (
            Operation(
                "GET",
                "get_log_lines",
                "The newest lines of the broker's log that are in memory, filtered.",
                get_log_lines,
                tags=ALL_HOSTS_TAGS,
                parameters=(
                    Value("after", "the number of the last known line", INTEGER, 0, default=0),
                    Value("since", "lines from this time on, milliseconds since 1970", INTEGER, 0, default=0),
                    Value("level", "lines of this level and above", choices=tuple(LEVELS), default="debug"),
                    Value("text", "lines with this text, in any case", default=""),
                    Value("limit", "at most so many, the newest", INTEGER, 1, LOG_LINES_MAX, 200),
                ),
                answers={200: Answer("Lines, the oldest first.", items_of(LINE_SCHEMA))},
            ),
        ),
    ),
)
