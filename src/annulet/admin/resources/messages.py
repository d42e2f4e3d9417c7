"""``GET /api/v1/queues/{vhost}/{name}/messages`` and ``.../messages/{id}``: messages in a queue, without touching
them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from annulet.admin.requests.access import broker_of, require_user
from annulet.admin.requests.parameters import path_segments, read_integer, read_parameters
from annulet.admin.requests.responses import ResourceError, json_response
from annulet.admin.resources.queues import queue_to_browse
from annulet.broker.operation.looking import STATES, Sample, find_message
from annulet.broker.operation.whole_messages import AUTO, BODY_RANGE_MAX, FORMS, BodyRange, describe_whole
from annulet.broker.settings.configuration import nearest_name
from annulet.core.management import select
from annulet.core.management.conditions import Conditions, conditions

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

LIMIT: Final = 50
"""Messages of an answer when the request does not say."""

LIMIT_MAX: Final = 500

BODY_BYTES_MAX: Final = 4096
"""Most bytes of each body in a listing: 2 MiB in all. A single message is shown with more."""

SKIP_MAX: Final = 100_000
"""Messages that are passed over at most: as many as one look examines."""

TEXT_CONDITIONS: Final = ("key", "routing_key", "text")
NUMBER_CONDITIONS: Final = ("since", "until", "first_id", "last_id")


async def list_messages(request: Request) -> Response:
    """The first messages: pending in order of dispatch, then scheduled by time, then in delivery by id.

    Parameters: ``selector``, ``state``, ``limit`` (1 to 500), ``skip`` (matching messages passed over first, so a
    position in the order), ``key``, ``routing_key``, ``text`` (in header or body), ``since``, ``until`` (accepted,
    milliseconds since 1970), ``first_id``, ``last_id``, ``body_bytes`` (number of leading bytes of each body, 0 to
    4096, in base64; if it cannot be read ``body`` is null and ``body_unavailable`` has the reason). ``complete`` is
    false when there may be more. Needs permission to browse the queue.
    """
    user = await require_user(request)
    names = ("selector", "state", "limit", "skip", "body_bytes", *TEXT_CONDITIONS, *NUMBER_CONDITIONS)
    parameters = read_parameters(request, names)
    limit = read_integer(parameters, "limit", LIMIT, 1, LIMIT_MAX)
    skip = read_integer(parameters, "skip", 0, 0, SKIP_MAX)
    body_bytes = read_integer(parameters, "body_bytes", 0, 0, BODY_BYTES_MAX)
    state = parameters.get("state", "")
    if state and state not in STATES:
        raise ResourceError(400, f"unknown state {state!r}{nearest_name(state, STATES)}")
    _, queue = queue_to_browse(request, user)
    text = parameters.get("selector", "")
    selection = select(selector=text, everything=not text, conditions=_conditions(parameters))
    sample = Sample(queue, selection, STATES.get(state), limit, body_bytes, skip=skip)
    await sample.run(broker_of(request).clock)
    return json_response(
        {
            "items": sample.items,
            "looked": sample.looked,
            "unreadable": sample.unreadable,
            "unsearched": sample.unsearched,
            "complete": sample.complete,
        }
    )


async def get_message(request: Request) -> Response:
    """One whole message: properties, headers, annotations, deaths, and a byte range of its body.

    Parameters: ``body`` (``auto``, ``text``, ``json``, ``base64`` or ``none``), ``offset``, ``length`` (1 to 1 MiB).
    Needs permission to browse the queue.
    """
    user = await require_user(request)
    parameters = read_parameters(request, ("body", "offset", "length"))
    form = parameters.get("body", AUTO)
    if form not in FORMS:
        raise ResourceError(
            400,
            f"query parameter body={form!r} is none of {', '.join(FORMS)}{nearest_name(form, dict.fromkeys(FORMS))}",
        )
    wanted = BodyRange(
        form,
        read_integer(parameters, "offset", 0, 0),
        read_integer(parameters, "length", BODY_RANGE_MAX, 1, BODY_RANGE_MAX),
    )
    number = path_segments(request)[-1]
    if not (number.isascii() and number.isdigit() and 0 < len(number) < 19 and int(number)):
        raise ResourceError(404, f"no message {number!r}; messages have whole numbers from 1, the ids of the listing")
    _, queue = queue_to_browse(request, user)
    entry = await find_message(queue, int(number), broker_of(request).clock)
    return json_response(describe_whole(entry, wanted))


def _conditions(parameters: dict[str, str]) -> Conditions:
    given: dict[str, Any] = {name: parameters[name] for name in TEXT_CONDITIONS if name in parameters}
    given.update({name: read_integer(parameters, name, 0, 0) for name in NUMBER_CONDITIONS if name in parameters})
    return conditions(**given)
