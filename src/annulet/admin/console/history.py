"""``GET /api/v1/history``: the last hour or day of a queue, a virtual host or the broker, for charts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from annulet.admin.interface.operations import Answer, Operation, Resource
from annulet.admin.interface.schemas import ANY_OBJECT, TEXT_SCHEMA, object_of
from annulet.admin.interface.values import VHOST, Value
from annulet.admin.requests.access import chosen_hosts, require_all_hosts
from annulet.admin.requests.responses import ResourceError, json_response
from annulet.broker.operation.charts.history import DAY, HOUR, REASONS
from annulet.core.base.reply_names import is_reply_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.responses import Response

    from annulet.admin.interface.call import Call
    from annulet.broker.operation.charts.history import Point

COLUMNS: Final = ("published", "delivered", "acknowledged", "lost", "messages", "bytes", "oldest_age")

DECIMALS: Final = 3
"""Of a rate: values have 7 digits in memory, and the others are noise."""

DEFAULT_HOST: Final = "/"


async def get_history(call: Call) -> Response:
    """The steps of a window, as columns with the time of each step's beginning."""
    window, name = call.parameters["window"], call.parameters.get("queue")
    vhost = call.parameters.get("vhost", DEFAULT_HOST if name is not None else None)
    history = call.broker.figure_history
    if vhost is None:
        require_all_hosts(call.user, "the history of the broker", "give 'vhost'")
        points: Sequence[Point] | None = history.of_broker(window)
    else:
        (host,) = chosen_hosts(call.request, call.user, vhost)
        if name is None:
            points = history.of_host(host.name, window)
        elif name not in host.queues or is_reply_name(name):
            raise ResourceError(404, f"no queue {name!r} in virtual host {host.name!r}")
        else:
            points = history.of_queue(host.name, name, window)
    return json_response({"vhost": vhost, "queue": name, "window": window, **_columns(points or ())})


def _columns(points: Sequence[Point]) -> dict[str, Any]:
    """Return columns; what is not a number is null in JSON. Reasons that never counted are left out."""
    columns: dict[str, Any] = {"times": [point.at for point in points]}
    for name in COLUMNS:
        columns[name] = [round(getattr(point, name), DECIMALS) for point in points]
    reasons = {}
    for place, reason in enumerate(REASONS):
        values = [None if point.reasons is None else round(point.reasons[place], DECIMALS) for point in points]
        if any(value and value > 0 for value in values):
            reasons[reason] = values
    columns["reasons"] = reasons
    return columns


NUMBERS: Final[dict[str, Any]] = {"type": "array", "items": {"type": ["number", "null"]}}

RESOURCES: Final = (
    Resource(
        "history",
        "broker",
        (
            Operation(
                "GET",
                "get_history",
                "The last hour or day of a queue, of a virtual host, or of the broker, for charts.",
                get_history,
                parameters=(
                    VHOST,
                    Value("queue", "a queue, for that only; of the virtual host / unless vhost is given"),
                    Value("window", "hour or day", choices=(HOUR, DAY), default=HOUR),
                ),
                answers={
                    200: Answer(
                        "The steps, as columns.",
                        object_of(
                            window=TEXT_SCHEMA,
                            times={"type": "array", "items": {"type": "integer"}},
                            reasons=ANY_OBJECT,
                            **dict.fromkeys(COLUMNS, NUMBERS),
                        ),
                    )
                },
                further="the sums of all virtual hosts are for users that see all of them",
            ),
        ),
    ),
)
