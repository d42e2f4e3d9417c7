"""The core's view of STOMP messages. ``Message.header`` is a block of ``header_block``."""

from __future__ import annotations

from typing import Final

from annulet.core.base.death_trail import GIVEN, DeathRecord
from annulet.core.message.message import ContentView, Message, PropertyValue, StandardProperties
from annulet.core.message.neutral_content import MessageContent
from annulet.wire.stomp import names
from annulet.wire.stomp.conversion import to_content
from annulet.wire.stomp.deaths import decode_deaths, encode_deaths
from annulet.wire.stomp.errors import RemoteProtocolError
from annulet.wire.stomp.header_block import changed_block, decode_block, find_header
from annulet.wire.stomp.send_headers import PRIORITY_MAX, TIME_MAX, SendFacts, read_header, read_number
from annulet.wire.stomp.texts import text_of

_GROUP_SEQUENCES: Final = frozenset(names.GROUP_SEQUENCE_NAMES)
_LIFETIMES: Final = frozenset({names.TIME_TO_LIVE, names.EXPIRES})


class StompView(ContentView):
    """The content view of STOMP messages; use the shared :data:`VIEW`.

    SEND refuses a value that its header does not allow, so an unreadable value was not set by SEND.
    """

    def __init__(self) -> None:
        super().__init__("stomp")

    def properties(self, message: Message) -> StandardProperties:
        """Decode the standard properties; every other header is an application property, a text."""
        headers = decode_block(message.header)
        return StandardProperties(
            message_id=first_of(headers, names.SENDER_MESSAGE_ID_NAMES),
            correlation_id=first_of(headers, names.CORRELATION_ID_NAMES),
            reply_to=first_of(headers, names.REPLY_TO_NAMES),
            subject=first_of(headers, names.SUBJECT_NAMES),
            content_type=first_of(headers, names.CONTENT_TYPE_NAMES),
            content_encoding=first_of(headers, names.CONTENT_ENCODING_NAMES),
            group_id=first_of(headers, names.GROUP_ID_NAMES),
            user_id=first_of(headers, names.USER_ID_NAMES),
            timestamp=number_in(headers, names.TIMESTAMP_NAMES, TIME_MAX),
            application=application_properties(headers),
        )

    def application_property(self, message: Message, name: str) -> PropertyValue:
        """Return any header as a text, ``None`` when it is absent; JMSXGroupSeq as the number it is."""
        value = find_header(message.header, name)
        if value is None:
            return find_header(message.header, names.APPLICATION_PREFIX + name) if name in names.STANDARD else None
        if name in _GROUP_SEQUENCES:
            try:
                return read_number(name, value, "", -(2**31), 2**32 - 1)
            except RemoteProtocolError:  # as absent
                return None
        return value

    def given_priority(self, message: Message) -> int:
        """Return the priority header, -1 when it is absent."""
        value = find_header(message.header, names.PRIORITY)
        if value is None:
            return -1
        try:
            return read_number(names.PRIORITY, value, "", 0, PRIORITY_MAX)
        except RemoteProtocolError:  # as absent
            return -1

    def deliver_at(self, message: Message) -> int:
        """Return when the sender wants it delivered, of several the latest."""
        facts = SendFacts(b"")
        for name in (*names.DELAY_NAMES, *names.DELIVER_AT_NAMES):
            value = find_header(message.header, name)
            if value is not None:
                _read_leniently(facts, name, value)
        return facts.due_at(message.accepted_at)

    def schedule_id(self, message: Message) -> str:
        """Return ``x-schedule-id``, empty when it is absent."""
        return find_header(message.header, names.SCHEDULE_ID) or ""

    def duplicate_id(self, message: Message) -> str:
        """Return ``_AMQ_DUPL_ID`` or ``x-duplicate-id``, empty when both are absent."""
        for name in names.DUPLICATE_ID_NAMES:
            value = find_header(message.header, name)
            if value:
                return value
        return ""

    def annotated(
        self,
        message: Message,
        headers: dict[str, PropertyValue],
        *,
        without: tuple[str, ...] = (),
        expires: bool = True,
    ) -> bytes:
        """Return the message's block with the given changes, values as texts; everything else keeps its octets."""
        leaving = frozenset(without) if expires else _LIFETIMES.union(without)
        return changed_block(message.header, _as_texts(headers), leaving)

    def content(self, message: Message) -> MessageContent:
        """Return the whole message decoded, as :mod:`annulet.wire.stomp.conversion` describes."""
        return to_content(message)

    def deaths(self, message: Message) -> list[DeathRecord]:
        """Return the records of ``x-death``, latest first; none when it is malformed, or its publisher's."""
        if find_header(message.header, GIVEN) is not None:
            return []
        return decode_deaths(find_header(message.header, names.DEATHS))

    def forwarded_header(
        self, message: Message, deaths: list[DeathRecord], headers: dict[str, PropertyValue], *, rerouted: bool
    ) -> bytes:
        """Return the block of a dead letter: the trail, ``headers``, no lifetime, no delay, no destination of before.

        There are no further routing keys here, so being rerouted changes nothing.
        """
        del rerouted
        block = message.header
        given = find_header(block, GIVEN) is not None
        trail = encode_deaths(
            deaths,
            first_known=not given and find_header(block, f"{names.FIRST_DEATH}reason") is not None,
            original_expiration=find_header(block, names.TIME_TO_LIVE) or "",
        )
        trail.update(_as_texts(headers))
        return changed_block(block, trail, _LIFETIMES.union(names.SCHEDULE_NAMES, (names.DESTINATION, GIVEN)))


def first_of(headers: dict[str, str], known: tuple[str, ...]) -> str:
    """Return the first non-empty one of several headers; empty if there is none."""
    for name in known:
        value = headers.get(name, "")
        if value:
            return value
    return ""


def number_in(headers: dict[str, str], known: tuple[str, ...], most: int) -> int:
    """Return the first of several headers as a number, 0 when there is none or it is none."""
    text = first_of(headers, known).strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= most else 0


def application_properties(headers: dict[str, str]) -> dict[str, PropertyValue]:
    """Return the headers that are application properties, by the names the application gave them."""
    found: dict[str, PropertyValue] = {}
    for name, value in headers.items():
        if name not in names.STANDARD:
            found[name.removeprefix(names.APPLICATION_PREFIX)] = value
    return found


def _as_texts(headers: dict[str, PropertyValue]) -> dict[str, str]:
    return {name: text_of(value) for name, value in headers.items()}


def _read_leniently(facts: SendFacts, name: str, value: str) -> None:
    try:
        read_header(facts, name, value)
    except RemoteProtocolError:  # as absent: it was not set by SEND
        return


VIEW: Final = StompView()
"""The one instance: views have no state."""
