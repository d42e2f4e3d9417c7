"""``POST /api/exchanges/VHOST/NAME/publish`` and ``POST /api/queues/VHOST/NAME/get``."""

from __future__ import annotations

import base64
import contextlib
from typing import TYPE_CHECKING, Any, Final

from annulet.admin.rabbitmq.exchanges import chosen_exchange
from annulet.admin.rabbitmq.framework.bodies import Fields, read_fields
from annulet.admin.rabbitmq.framework.listing import ENCODER, respond
from annulet.admin.rabbitmq.framework.routing import Route
from annulet.admin.rabbitmq.queues import chosen_queue
from annulet.admin.requests.bodies import BODY_BYTES_MAX, arguments_of
from annulet.admin.requests.json_values import json_object
from annulet.admin.requests.local_requests import peer_address
from annulet.admin.requests.responses import ResourceError, bad_request, json_response, missing_field
from annulet.broker.amqp091.channel import delivered_header
from annulet.broker.connections.views import ConversionError, converted
from annulet.broker.operation.getting import GET_BODY_BYTES_MAX, GET_BYTES_MAX, GET_COUNT_MAX, Getter
from annulet.broker.operation.given_properties import HEADERS, NAMES, NUMBERS, TEXTS, octets_of
from annulet.broker.operation.publishing import Submission, publish
from annulet.broker.turns.list_turns import Turns
from annulet.core.base.errors import LimitExceeded
from annulet.wire.amqp091.messages.properties import VIEW, BasicProperties, decode_readable_properties

if TYPE_CHECKING:
    from starlette.responses import Response

    from annulet.admin.rabbitmq.framework.call import Call
    from annulet.core.message.message import Message
    from annulet.core.model.entry import QueueEntry

PUBLISH_FIELDS: Final = ("routing_key", "payload", "payload_encoding", "properties")
GET_FIELDS: Final = ("count", "ackmode", "encoding", "truncate", "requeue")

ACKMODES: Final = {
    "ack_requeue_true": (False, True),
    "ack_requeue_false": (False, False),
    "reject_requeue_true": (True, True),
    "reject_requeue_false": (True, False),
}
"""By name: whether the messages are rejected, and whether they go back to the queue."""

ENCODINGS: Final = ("auto", "base64")
PAYLOAD_ENCODINGS: Final = ("string", "base64")


async def publish_message(call: Call) -> Response:
    """Publish one message. ``routed``: whether a queue takes it. Persistent ones are on disk when this answers."""
    host, name = call.host(), call.name("name")
    access = call.access(host)
    access.require("write", name)
    fields = await read_fields(call, PUBLISH_FIELDS, bytes_max=BODY_BYTES_MAX)
    chosen_exchange(call)
    routing_key = fields.text("routing_key", remedy="give a routing key, empty for none")
    submission = Submission(
        name,
        routing_key,
        read_properties(fields),
        _payload(fields),
        f"{call.user.name}@{peer_address(call.request)}",
    )
    try:
        routed = await publish(call.broker, access, submission)
    except LimitExceeded as error:
        raise ResourceError(503, str(error)) from error
    return json_response({"routed": routed > 0})


def _payload(fields: Fields) -> bytes:
    encoding = fields.text("payload_encoding", remedy="give 'string' or 'base64'")
    if encoding not in PAYLOAD_ENCODINGS:
        raise bad_request("payload_encoding", encoding, "give 'string' or 'base64'")
    payload = fields.text("payload", remedy="give the body as a text")
    try:
        return octets_of(payload, base64_given=encoding == "base64")
    except ValueError as error:
        raise bad_request("payload", payload, "give base64, or payload_encoding 'string'") from error


def read_properties(fields: Fields) -> BasicProperties:
    """Return the properties of a message from the object ``properties``, each by its name in AMQP 0-9-1."""
    if not fields.given("properties"):
        raise missing_field("properties", "give an object, empty for none")
    members = fields.object("properties")
    given = Fields(members)
    properties = BasicProperties()
    for name in members:
        if name not in NAMES:
            raise bad_request(f"properties.{name}", members[name], f"give only {', '.join(NAMES)}")
        if not given.given(name):
            continue
        if name in TEXTS:
            value: Any = given.text(name)
        elif name == HEADERS:
            value = arguments_of("header", given.object(name))
        else:
            value = given.integer(name, None, *NUMBERS[name])
        setattr(properties, name, value)
    return properties


async def get_messages(call: Call) -> Response:
    """Take messages and settle them as ``ackmode`` says; with ``requeue`` they go back to their places."""
    host, name = call.host(), call.names["name"]
    access = call.access(host)
    access.require("read", name)
    fields = await read_fields(call, GET_FIELDS)
    count = fields.integer("count", None, 1, GET_COUNT_MAX)
    rejected, requeue = _settlement(fields)
    encoding = fields.text("encoding", remedy="give 'auto' or 'base64'")
    if encoding not in ENCODINGS:
        raise bad_request("encoding", encoding, "give 'auto' or 'base64'")
    truncate = min(fields.integer("truncate", GET_BODY_BYTES_MAX, 0), GET_BODY_BYTES_MAX)
    chosen_queue(call)
    queue = access.queue_to_read(name)
    turns = Turns()
    pieces: list[bytes] = []
    size = 0
    with Getter(call.broker.clock, f"get of {call.user.name}") as getter:
        while len(pieces) < count and size < GET_BYTES_MAX:
            taken = await getter.pull(queue)
            if taken is None:
                break
            item = describe(taken[0], encoding, truncate)
            size += len(item["payload"])
            item["message_count"] = queue.shown_count()
            pieces.append(ENCODER.encode(item))
            await turns.look()
        getter.settle_all(rejected=rejected, requeue=requeue)
    return respond(b"[", pieces, b"]")


def _settlement(fields: Fields) -> tuple[bool, bool]:
    remedy = f"give one of {', '.join(ACKMODES)}"
    ackmode = fields.text("ackmode", remedy=remedy)
    if ackmode not in ACKMODES:
        raise bad_request("ackmode", ackmode, remedy)
    return ACKMODES[ackmode]


def describe(entry: QueueEntry, encoding: str, truncate: int) -> dict[str, Any]:
    """Return a message's JSON, in the form that AMQP 0-9-1 has. ``truncate``: bytes of the body.

    A message that AMQP 0-9-1 cannot express is shown without properties, its body as it came.
    """
    own: Message | None = None
    with contextlib.suppress(ConversionError):  # counted and logged where it is raised
        own = converted(entry.message, VIEW)
    message = entry.message if own is None else own
    properties = {} if own is None else _properties(entry, own)
    body = message.body
    payload, name = _encoded(body[:truncate], encoding)
    return {
        "payload_bytes": len(body),
        "redelivered": entry.redelivered,
        "exchange": message.origin.exchange,
        "routing_key": message.origin.routing_key,
        "properties": properties,
        "payload": payload,
        "payload_encoding": name,
    }


def _properties(entry: QueueEntry, message: Message) -> dict[str, Any]:
    decoded = decode_readable_properties(delivered_header(entry, message))
    return json_object({name: getattr(decoded, name) for name in NAMES if getattr(decoded, name) is not None})


def _encoded(body: bytes, encoding: str) -> tuple[str, str]:
    if encoding == "auto":
        with contextlib.suppress(UnicodeDecodeError):  # no text: base64
            return body.decode(), "string"
    return base64.b64encode(body).decode("ascii"), "base64"


ROUTES: Final = (
    Route("exchanges/{vhost}/{name}/publish", {"POST": publish_message}),
    Route("queues/{vhost}/{name}/get", {"POST": get_messages}),
)
