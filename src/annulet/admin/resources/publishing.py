"""``POST /api/v1/exchanges/{vhost}/{exchange}/publish``: a message through the same checks as a client's.

``POST …/route`` says where such a message would go, and why, and publishes nothing.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from annulet.admin.interface.operations import Answer, Document, Need, Operation, Resource
from annulet.admin.interface.schemas import ANY_OBJECT, COUNT, SWITCH_SCHEMA, TEXT_SCHEMA, object_of
from annulet.admin.interface.values import Value
from annulet.admin.requests.access import API_TAGS
from annulet.admin.requests.bodies import BODY_BYTES_MAX, arguments_of, read_object
from annulet.admin.requests.local_requests import peer_address
from annulet.admin.requests.responses import ResourceError, json_response
from annulet.broker.operation.given_properties import ENCODINGS, HEADERS, TEXT, read_body, read_properties
from annulet.broker.operation.publishing import Submission, prepare, publish
from annulet.broker.operation.route_explaining import explain_route
from annulet.broker.security.authentication import DEFAULT_EXCHANGE_IN_PERMISSIONS
from annulet.broker.settings.configuration import nearest_name
from annulet.core.base.errors import LimitExceeded
from annulet.core.routing.exchanges.address import ROUTING_TYPE_NAMES

if TYPE_CHECKING:
    from starlette.responses import Response

    from annulet.admin.interface.call import Call

FIELDS: Final = {"routing_key": str, "body": str, "body_encoding": str, "properties": dict}
"""The members of a request; all may be left out."""


async def publish_message(call: Call) -> Response:
    """Publish one message and return to how many queues it went; 0 if none takes it. A persistent one is on disk then.

    503 while a queue is full or publishers are held back.
    """
    submission = await _submission(call)
    try:
        routed = await publish(call.broker, call.access(), submission)
    except LimitExceeded as error:
        raise ResourceError(503, str(error)) from error
    return json_response({"queues": routed})


async def explain_publish(call: Call) -> Response:
    """Say where the message would go, and why; nothing is published."""
    submission, host = await _submission(call), call.host()
    access = call.access()
    node = host.exchanges.get(submission.exchange)
    if node is None:
        raise ResourceError(404, f"no exchange and no address {submission.exchange!r} in virtual host {host.name!r}")
    message, facts = prepare(call.broker, access, submission, call.now)
    routing_type = call.parameters["routing_type"]
    route = host.route(submission.exchange, submission.routing_key, routing_type)
    found = explain_route(host, message, route, facts.further_keys)
    return json_response(
        {
            "queues": found.queues,
            "refusals": found.refusals,
            "edges": [asdict(edge) for edge in found.edges],
            "left_out": found.left_out,
        }
    )


async def _submission(call: Call) -> Submission:
    """Return the message that the body describes; 400 for a field that is unknown or wrong."""
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
    return Submission(
        "" if exchange == DEFAULT_EXCHANGE_IN_PERMISSIONS else exchange,
        given.get("routing_key", ""),
        read_properties(properties),
        read_body(given.get("body", ""), encoding),
        f"{call.user.name}@{peer_address(call.request)}",
    )


MESSAGE: Final = Document(
    "An object with routing_key, body (up to 4 MiB with all else), body_encoding (text or base64), and properties by "
    "their names in AMQP 0-9-1, headers among them; none for an empty message.",
    required=False,
)

TEXTS_SCHEMA: Final = {"type": "array", "items": TEXT_SCHEMA}
EDGE_SCHEMA: Final = object_of(
    source=TEXT_SCHEMA,
    key=TEXT_SCHEMA,
    kind=TEXT_SCHEMA,
    target=TEXT_SCHEMA,
    fits=SWITCH_SCHEMA,
    why=TEXT_SCHEMA,
    copy_of=TEXT_SCHEMA,
)
EXPLANATION_SCHEMA: Final = object_of(
    queues=TEXTS_SCHEMA, refusals=ANY_OBJECT, edges={"type": "array", "items": EDGE_SCHEMA}, left_out=COUNT
)

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
                body=MESSAGE,
                answers={200: Answer("To how many queues the message went.", object_of(queues=COUNT))},
            ),
        ),
    ),
    Resource(
        "exchanges/{vhost}/{exchange}/route",
        "routing",
        (
            Operation(
                "POST",
                "explain_route",
                "Say where a message would go, and why; nothing is published.",
                explain_publish,
                tags=API_TAGS,
                needs=(Need("read", "exchange"),),
                parameters=(
                    Value(
                        "routing_type",
                        "of an address: to its anycast or its multicast queues only",
                        choices=("", *ROUTING_TYPE_NAMES),
                        default="",
                    ),
                ),
                body=MESSAGE,
                answers={
                    200: Answer(
                        "The queues that would get it, and each edge that it meets with the reason.",
                        EXPLANATION_SCHEMA,
                    )
                },
            ),
        ),
    ),
)
