"""Messages of another broker, as ``annulet browse QUEUE --whole`` wrote them, published again at their times."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from annulet.broker.connections.access import Access
from annulet.broker.operation.given_properties import NUMBERS, TEXTS, read_body, read_properties
from annulet.broker.operation.publishing import Submission, publish
from annulet.broker.security.file_users import FIRST_USER
from annulet.core.base.errors import CoreError

if TYPE_CHECKING:
    from annulet.testing.kit_broker import KitBroker

OF_THE_BROKER: Final = frozenset({"user_id", "expiration", "priority", "delivery_mode"})
"""Properties that are not taken as recorded: the user is another, and the other ones follow from members of a line."""

TAKEN: Final = frozenset({*TEXTS, *NUMBERS}) - OF_THE_BROKER

PERSISTENT: Final = 2
TRANSIENT: Final = 1

DELAY: Final = "x-delay"


class RecordedMessage(msgspec.Struct):
    """One line of a recording. Times are milliseconds since 1970, 0 for none."""

    routing_key: str
    accepted_at: int
    body: str
    exchange: str = ""
    body_encoding: str = "text"
    priority: int = 4
    durable: bool = False
    expires_at: int = 0
    deliver_at: int = 0
    properties: dict[str, Any] = {}
    headers: dict[str, Any] = {}

    def submission(self, queue: str | None) -> Submission:
        """Return the message to be published: to a queue, or as it was. Raises ``InvalidArgument``."""
        headers = {name: value for name, value in self.headers.items() if value is not None}
        if self.deliver_at > self.accepted_at:
            headers.setdefault(DELAY, self.deliver_at - self.accepted_at)
        given: dict[str, Any] = {name: value for name, value in self.properties.items() if name in TAKEN}
        given["delivery_mode"] = PERSISTENT if self.durable else TRANSIENT
        given["priority"] = self.priority
        if self.expires_at:
            given["expiration"] = str(max(self.expires_at - self.accepted_at, 0))
        if headers:
            given["headers"] = headers
        exchange, key = (self.exchange, self.routing_key) if queue is None else ("", queue)
        return Submission(exchange, key, read_properties(given), read_body(self.body, self.body_encoding), "recording")


def read_recording(path: Path | str) -> list[RecordedMessage]:
    """Return the messages of a file, a line of JSON each, in the order in which they were accepted.

    Raises ``ValueError`` with the line and the member that is wrong.
    """
    found = []
    for number, line in enumerate(Path(path).read_bytes().splitlines(), 1):
        try:
            found.append(msgspec.json.decode(line, type=RecordedMessage))
        except msgspec.MsgspecError as error:
            raise ValueError(
                f"{path}, line {number}: {error}; record messages with `annulet browse QUEUE --whole`"
            ) from error
    return sorted(found, key=lambda message: message.accepted_at)


async def publish_recorded(broker: KitBroker, message: RecordedMessage, queue: str | None, vhost: str) -> int:
    """Publish a message now and return how many queues took it. Raises ``ValueError`` where the broker refuses it."""
    access = Access(broker.authenticator, broker.catalogue, broker.hosts[vhost], FIRST_USER)
    try:
        return await publish(broker, access, message.submission(queue))
    except CoreError as error:
        where = f"exchange {message.exchange!r}, routing key {message.routing_key!r}"
        raise ValueError(f"a recorded message ({where}) cannot be published: {error}") from error
