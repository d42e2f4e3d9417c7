"""``/api/v1/queues/{vhost}/{queue}/messages``, one of them, and ``.../find``: messages in a queue, without touching
them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from annulet.admin.interface.operations import Answer, Fields, Need, Operation, Resource
from annulet.admin.interface.schemas import ANY_OBJECT, COUNT, SWITCH_SCHEMA, TEXT_SCHEMA, object_of
from annulet.admin.interface.values import Value
from annulet.admin.requests.bodies import INTEGER, INTEGERS, SWITCH, TEXT
from annulet.admin.requests.responses import ResourceError, json_response
from annulet.admin.resources.operations import OPERATION_SCHEMA, describe_operation, number_of, started
from annulet.broker.operation.looking import STATES, Sample, find_message
from annulet.broker.operation.operation_requests import CONDITIONS, FIND, OperationRequests
from annulet.broker.operation.whole_messages import AUTO, BODY_RANGE_MAX, FORMS, BodyRange, deaths_of, describe_whole
from annulet.core.management import select
from annulet.core.management.conditions import conditions

if TYPE_CHECKING:
    from starlette.responses import Response

    from annulet.admin.interface.call import Call

LIMIT: Final = 50
"""Messages of an answer when the request does not say."""

LIMIT_MAX: Final = 500

BODY_BYTES_MAX: Final = 4096
"""Most bytes of each body in a listing: 2 MiB in all. A single message is shown with more."""

SKIP_MAX: Final = 100_000
"""Messages that are passed over at most: as many as one look examines."""

ID_DIGITS_MAX: Final = 18


async def list_messages(call: Call) -> Response:
    """The first messages: pending in order of dispatch, then scheduled by time, then in delivery by id.

    A body that cannot be read is null, and ``body_unavailable`` has the reason. ``complete`` is false when there may be
    more.
    """
    queue, given = call.queue_to_browse(), call.parameters
    state, text = given.get("state", ""), given.get("selector", "")
    narrowed = conditions(**{name: given[name] for name in CONDITIONS if name in given})
    selection = select(selector=text, everything=not text, conditions=narrowed)
    further = deaths_of if given["deaths"] else None
    sample = Sample(
        queue, selection, STATES.get(state), given["limit"], given["body_bytes"], skip=given["skip"], further=further
    )
    await sample.run(call.broker.clock)
    return json_response(
        {
            "items": sample.items,
            "looked": sample.looked,
            "unreadable": sample.unreadable,
            "unsearched": sample.unsearched,
            "complete": sample.complete,
        }
    )


async def get_message(call: Call) -> Response:
    """One whole message: properties, headers, annotations, deaths, and a byte range of its body."""
    queue, given = call.queue_to_browse(), call.parameters
    number = call.names["message"]
    if not (number.isascii() and number.isdigit() and len(number) <= ID_DIGITS_MAX and int(number)):
        raise ResourceError(404, f"no message {number!r}; messages have whole numbers from 1, the ids of the listing")
    entry = await find_message(queue, int(number), call.broker.clock)
    return json_response(describe_whole(entry, BodyRange(given["body"], given["offset"], given["length"])))


async def start_find(call: Call) -> Response:
    """Begin to find messages: 202 with the id of the operation. It reports the ids of those that match."""
    queue = call.queue_to_browse()
    requests = OperationRequests(call.host(), call.broker.undo)
    operation = requests.build(queue, FIND, call.fields, user=call.user.name, now=call.now)
    return started(call, call.broker.management.start(operation), operation)


async def cancel_find(call: Call) -> Response:
    """End a search; what it has found stays."""
    queue, number = call.queue_to_browse(), number_of(call)
    management, host = call.broker.management, call.host().name
    if management.operation(number, host, queue.name).action.name != FIND:
        raise ResourceError(404, f"operation {number} is no search; cancel it at operations/{number}")
    return json_response(describe_operation(call, number, management.cancel(number, host, queue.name)))


NARROWING: Final = (
    Value("key", "a key of a last-value queue"),
    Value("routing_key", "the routing key"),
    Value("since", "the earliest time of acceptance, milliseconds since 1970", INTEGER),
    Value("until", "the time before which messages were accepted, milliseconds since 1970", INTEGER),
    Value("first_id", "the least id", INTEGER),
    Value("last_id", "the largest id", INTEGER),
    Value("text", "a text in header, routing key or body"),
)
"""Conditions that narrow a selection."""

SELECTING: Final = (
    Value("ids", "a list of ids of messages", INTEGERS),
    Value("selector", "a selector, for the messages that match it", TEXT),
    Value("everything", "true for all messages", SWITCH),
    Value("limit", "the most messages, or -1 for no limit", INTEGER, -1),
)

BROWSE: Final = (Need("browse", "queue"),)

MESSAGES_SCHEMA: Final = object_of(
    items={"type": "array", "items": ANY_OBJECT},
    looked=COUNT,
    unreadable=COUNT,
    unsearched=COUNT,
    complete=SWITCH_SCHEMA,
)
MESSAGE_SCHEMA: Final[dict[str, Any]] = object_of(
    id=COUNT, state=TEXT_SCHEMA, size=COUNT, properties=ANY_OBJECT, headers=ANY_OBJECT, annotations=ANY_OBJECT
)

RESOURCES: Final = (
    Resource(
        "queues/{vhost}/{queue}/messages",
        "messages",
        (
            Operation(
                "GET",
                "list_messages",
                "The first messages of a queue, without touching them.",
                list_messages,
                needs=BROWSE,
                parameters=(
                    Value("selector", "a selector, for the messages that match it", example="colour = 'red'"),
                    Value("state", "a state", choices=tuple(STATES)),
                    Value("limit", "how many messages", INTEGER, 1, LIMIT_MAX, LIMIT),
                    Value(
                        "skip",
                        "how many matching messages come before, a position in the order",
                        INTEGER,
                        0,
                        SKIP_MAX,
                        0,
                    ),
                    Value("deaths", "true for the deaths of each message, the latest first", SWITCH, default=False),
                    Value("body_bytes", "bytes of each body, in base64", INTEGER, 0, BODY_BYTES_MAX, 0),
                    *NARROWING,
                ),
                answers={200: Answer("The messages.", MESSAGES_SCHEMA)},
            ),
        ),
    ),
    Resource(
        "queues/{vhost}/{queue}/messages/{message}",
        "messages",
        (
            Operation(
                "GET",
                "get_message",
                "One whole message with a byte range of its body, without touching it.",
                get_message,
                needs=BROWSE,
                parameters=(
                    Value("body", "the form of the body", choices=FORMS, default=AUTO),
                    Value("offset", "the first byte of the body", INTEGER, default=0),
                    Value("length", "bytes of the body", INTEGER, 1, BODY_RANGE_MAX, BODY_RANGE_MAX),
                ),
                answers={200: Answer("The message.", MESSAGE_SCHEMA)},
            ),
        ),
    ),
    Resource(
        "queues/{vhost}/{queue}/find",
        "messages",
        (
            Operation(
                "POST",
                "start_find",
                "Begin to find messages in all of a queue, without touching them.",
                start_find,
                needs=BROWSE,
                body=Fields((*SELECTING, *NARROWING)),
                answers={202: Answer("The search has begun; Location has its path.", OPERATION_SCHEMA)},
            ),
        ),
    ),
    Resource(
        "queues/{vhost}/{queue}/find/{operation}",
        "messages",
        (
            Operation(
                "DELETE",
                "cancel_find",
                "End a search.",
                cancel_find,
                needs=BROWSE,
                answers={200: Answer("The search as it ended.", OPERATION_SCHEMA)},
            ),
        ),
    ),
)
