"""``POST /api/v1/exchanges/{vhost}/{exchange}/publish``: a message through the same checks as a client's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.admin.interface.operations import Answer, Document, Need, Operation, Resource
from annulet.admin.interface.schemas import COUNT, object_of
from annulet.admin.requests.bodies import BODY_BYTES_MAX, arguments_of, read_object
from annulet.admin.requests.local_requests import peer_address
from annulet.admin.requests.responses import ResourceError, json_response
from annulet.broker.operation.given_properties import ENCODINGS, HEADERS, TEXT, read_body, read_properties
from annulet.broker.operation.publishing import Submission, publish
from annulet.broker.security.authentication import DEFAULT_EXCHANGE_IN_PERMISSIONS
from annulet.broker.settings.configuration import nearest_name
from annulet.core.base.errors import LimitExceeded

if TYPE_CHECKING:
    from starlette.responses import Response

    from annulet.admin.interface.call import Call

FIELDS: Final = {"routing_key": str, "body": str, "body_encoding": str, "properties": dict}
"""The members of a request; all may be left out."""


async def publish_message(call: Call) -> Response:
    """Publish one message and return to how many queues it went; 0 if none takes it. A persistent one is on disk then.

    503 while a queue is full or publishers are held back.
    """
    given = await read_object(call.request, BODY_BYTES_MAX)
    for name, value in given.items():
        if name not in FIELDS:
            raise ResourceError(400, f"unknown field {name!r}{nearest_name(name, FIELDS)}")
        if not isinstance(value, FIELDS[name]):
            kind = "an object" if FIELDS[name] is dict else "a text"
            raise ResourceError(400, f"field {name!r} must be {kind}, not {value!r}")
    encoding = given.get("body_encoding", TEXT)
    if encoding not in ENCODINGS:
        raise ResourceError(400, f"field 'body_encoding' is {encoding!r}; give one of {', '.join(ENCODINGS)}")
    exchange = call.names["exchange"]
    properties = dict(given.get("properties", {}))
    if isinstance(properties.get(HEADERS), dict):
        properties[HEADERS] = arguments_of("header", properties[HEADERS])
    submission = Submission(
        "" if exchange == DEFAULT_EXCHANGE_IN_PERMISSIONS else exchange,
        given.get("routing_key", ""),
        read_properties(properties),
        read_body(given.get("body", ""), encoding),
        f"{call.user.name}@{peer_address(call.request)}",
    )
    try:
        routed = await publish(call.broker, call.access(), submission)
    except LimitExceeded as error:
        raise ResourceError(503, str(error)) from error
    return json_response({"queues": routed})


RESOURCES: Final = (
    Resource(
        "exchanges/{vhost}/{exchange}/publish",
        "messages",
        (
            Operation(
                "POST",
                "publish",
                "Publish a message; the default exchange is amq.default.",
                publish_message,
                needs=(Need("write", "exchange"),),
                body=Document(
                    "An object with routing_key, body (up to 4 MiB with all else), body_encoding (text or base64), and "
                    "properties by their names in AMQP 0-9-1, headers among them; none for an empty message.",
                    required=False,
                ),
                answers={200: Answer("To how many queues the message went.", object_of(queues=COUNT))},
            ),
        ),
    ),
)
