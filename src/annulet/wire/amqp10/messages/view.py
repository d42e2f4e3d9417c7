"""The core's view of AMQP 1.0 messages. ``Message.header`` and body are those of :mod:`.message`."""

from __future__ import annotations

from typing import Any, Final

from annulet.core.base.death_trail import DeathRecord
from annulet.core.message.message import ContentView, Message, PropertyValue, StandardProperties
from annulet.core.message.message_id_texts import identifier_text
from annulet.core.message.neutral_content import MessageContent
from annulet.wire.amqp10.messages.conversion import text_keys, to_content
from annulet.wire.amqp10.messages.deaths import decode_deaths, encode_deaths
from annulet.wire.amqp10.messages.facts import SCHEDULE_NAMES, Facts
from annulet.wire.amqp10.messages.map_keys import INDEXED_BYTES, MapKeys
from annulet.wire.amqp10.messages.message import find_section, read_facts, rebuilt, section_with
from annulet.wire.amqp10.messages.names import (
    ANNOTATION_PREFIX,
    ANNOTATIONS,
    DEATHS,
    FIRST_DEATH,
    GIVEN_DEATHS,
    LAST_DEATH,
)
from annulet.wire.amqp10.messages.sections import (
    APPLICATION_PROPERTIES,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    Header,
    Properties,
    decode_header,
    decode_properties,
    encode_header,
    encode_properties,
    find_in_map,
    has_key,
)
from annulet.wire.amqp10.types.errors import DecodeError
from annulet.wire.amqp10.types.values import decode_value, skip_value

_NOT_OF_COPIES: Final = SCHEDULE_NAMES | {GIVEN_DEATHS.encode()}

GROUP_SEQUENCE: Final = "JMSXGroupSeq"
"""The property ``group-sequence`` by the name used in the core."""


class Amqp10View(ContentView):
    """The content view of AMQP 1.0 messages; use the shared :data:`VIEW`.

    The link refuses messages whose sections, header or properties are malformed, but looks neither into nested values
    nor at values the broker does not act on: those count as absent here.
    """

    def __init__(self) -> None:
        super().__init__("amqp-1.0", names_beside=frozenset({*ANNOTATIONS, GROUP_SEQUENCE}))

    def properties(self, message: Message) -> StandardProperties:
        """Decode the standard properties; ids that are no strings as :mod:`annulet.core.message.message_id_texts` has
        them.
        """
        header = message.header
        malformed = ""
        application: dict[str, PropertyValue] = {}
        try:
            properties = _properties_of(header)
        except DecodeError as error:
            properties = Properties()
            malformed = error.description
        try:
            content = find_section(header, APPLICATION_PROPERTIES)
            if content >= 0:
                application = text_keys(decode_value(header, content, len(header))[0])
        except DecodeError as error:
            malformed = malformed or error.description
        return StandardProperties(
            message_id=_identifier(properties.message_id),
            correlation_id=_identifier(properties.correlation_id),
            reply_to=properties.reply_to or "",
            subject=properties.subject or "",
            content_type=properties.content_type or "",
            content_encoding=properties.content_encoding or "",
            group_id=properties.group_id or "",
            user_id=(properties.user_id or b"").decode("utf-8", "backslashreplace"),
            timestamp=max(properties.creation_time or 0, 0),
            application=application,
            malformed=malformed,
        )

    def application_property(self, message: Message, name: str) -> PropertyValue:
        """Return one application property without decoding the others, ``None`` when it is absent or malformed.

        Headers of dead letters are annotations here, and the sequence in a group is a property.
        """
        value = _find(message.header, APPLICATION_PROPERTIES, name)
        if value is not None:
            return value
        annotation = ANNOTATIONS.get(name)
        if annotation is not None:
            return _find(message.header, MESSAGE_ANNOTATIONS, annotation)
        if name == GROUP_SEQUENCE:
            try:
                return _properties_of(message.header).group_sequence
            except DecodeError:  # as absent
                return None
        return None

    def annotation(self, message: Message, name: str) -> PropertyValue:
        """Return one message annotation, ``None`` when it is absent or malformed."""
        return _find(message.header, MESSAGE_ANNOTATIONS, name)

    def given_priority(self, message: Message) -> int:
        """Return the priority of the header section, -1 when it is absent."""
        try:
            content = find_section(message.header, HEADER)
            if content < 0:
                return -1
            priority = decode_header(message.header, content, _end_of(message.header, content)).priority
        except DecodeError:  # as absent
            return -1
        return -1 if priority is None else priority

    def deliver_at(self, message: Message) -> int:
        """Return when ``x-opt-delivery-time``, ``x-opt-delivery-delay`` and their like let it be delivered.

        Here and below a value of the wrong type counts as absent: the link has refused such messages.
        """
        return _facts(message.header).due_at(message.accepted_at)

    def schedule_id(self, message: Message) -> str:
        """Return ``x-opt-schedule-id`` or ``x-schedule-id``, empty when both are absent."""
        return _facts(message.header).schedule_id

    def duplicate_id(self, message: Message) -> str:
        """Return ``_AMQ_DUPL_ID`` or ``x-duplicate-id``, octets as hexadecimal digits, empty when both are absent."""
        return _facts(message.header).duplicate_id

    def annotated(
        self,
        message: Message,
        headers: dict[str, PropertyValue],
        *,
        without: tuple[str, ...] = (),
        expires: bool = True,
    ) -> bytes:
        """Return the stored header with the given changes, ``x-opt-`` names as annotations; all else keeps its octets.

        Raises:
            DecodeError: malformed octets, as far as they were read.
            LocalProtocolError: a value that AMQP 1.0 cannot carry.
        """
        leaving = frozenset(name.encode("utf-8") for name in without)
        return _changed(message.header, headers, {}, leaving, expires=expires)

    def content(self, message: Message) -> MessageContent:
        """Return the whole message decoded, as :mod:`annulet.wire.amqp10.messages.conversion` describes."""
        return to_content(message)

    def deaths(self, message: Message) -> list[DeathRecord]:
        """Return the records of ``x-opt-deaths``, latest first; none when it is malformed, or its publisher's."""
        if _find(message.header, MESSAGE_ANNOTATIONS, GIVEN_DEATHS) is not None:
            return []
        return decode_deaths(_find(message.header, MESSAGE_ANNOTATIONS, DEATHS))

    def forwarded_header(
        self, message: Message, deaths: list[DeathRecord], headers: dict[str, PropertyValue], *, rerouted: bool
    ) -> bytes:
        """Return the stored header of a dead letter: the trail as annotations, ``headers``, no expiry, no delay.

        There are no further routing keys here, so being rerouted changes nothing.

        Raises:
            DecodeError: malformed octets, as far as they were read.
            LocalProtocolError: a value that AMQP 1.0 cannot carry.
        """
        del rerouted
        header = message.header
        latest = deaths[0]
        trail = encode_deaths(deaths)
        time_to_live = _facts(header).time_to_live
        if time_to_live > 0 and latest.count == 1:
            trail[0]["original-expiration"] = str(time_to_live)
        annotations: dict[str, Any] = {DEATHS: trail}
        given = _find(header, MESSAGE_ANNOTATIONS, GIVEN_DEATHS) is not None
        first_known = not given and _find(header, MESSAGE_ANNOTATIONS, f"{FIRST_DEATH}reason") is not None
        for prefix in (LAST_DEATH,) if first_known else (FIRST_DEATH, LAST_DEATH):
            annotations[f"{prefix}exchange"] = latest.exchange
            annotations[f"{prefix}queue"] = latest.queue
            annotations[f"{prefix}reason"] = latest.reason
        return _changed(header, headers, annotations, _NOT_OF_COPIES, expires=False)


def _changed(
    header: bytes,
    headers: dict[str, PropertyValue],
    annotations: dict[str, Any],
    leaving: frozenset[bytes],
    *,
    expires: bool,
) -> bytes:
    """Return a stored header with values put over its own and names left out, of annotations and properties alike."""
    annotations = dict(annotations)
    properties: dict[str, Any] = {}
    names = {*leaving}
    for name in leaving:
        known_as = ANNOTATIONS.get(name.decode("utf-8"))
        if known_as is not None:
            names.add(known_as.encode("utf-8"))
    for header_name, value in headers.items():
        known_as = ANNOTATIONS.get(header_name)
        if header_name.startswith(ANNOTATION_PREFIX):
            annotations[header_name] = value
        elif known_as is None:
            properties[header_name] = value
        else:
            annotations[known_as] = value
            names.add(header_name.encode("utf-8"))
    without = frozenset(names)
    replaced: dict[int, bytes] = {}
    for code, values in ((MESSAGE_ANNOTATIONS, annotations), (APPLICATION_PROPERTIES, properties)):
        content = find_section(header, code)
        if values or (content >= 0 and _names_any(header, content, without)):
            end = len(header) if content < 0 else _end_of(header, content)
            replaced[code] = section_with(header, content, end, values, without, code)
    if not expires:
        replaced.update(_without_expiry(header))
    return rebuilt(header, replaced) if replaced else header


def _names_any(header: bytes, content: int, names: frozenset[bytes]) -> bool:
    """Return whether a map has one of these names: if not, its section keeps its octets (§3.2: immutable)."""
    sought = [name for name in names if name in header]  # as a rule none is
    return bool(sought) and has_key(header, content, len(header), frozenset(sought))


def _without_expiry(header: bytes) -> dict[int, bytes]:
    """Return the sections that say when a message expires, without that."""
    replaced: dict[int, bytes] = {}
    content = find_section(header, HEADER)
    if content >= 0:
        given = decode_header(header, content, _end_of(header, content))
        if given.ttl is not None:
            replaced[HEADER] = encode_header(Header(given.durable, given.priority))
    content = find_section(header, PROPERTIES)
    if content >= 0:
        properties = decode_properties(header, content, _end_of(header, content))
        if properties.absolute_expiry_time is not None:
            properties.absolute_expiry_time = None
            replaced[PROPERTIES] = encode_properties(properties)
    return replaced


def _end_of(header: bytes, content: int) -> int:
    return skip_value(header, content, len(header))


def _properties_of(header: bytes) -> Properties:
    content = find_section(header, PROPERTIES)
    return Properties() if content < 0 else decode_properties(header, content, _end_of(header, content))


def _identifier(identifier: str | bytes | int | None) -> str:
    return "" if identifier is None else identifier_text(identifier)


def _find(header: bytes, code: int, name: str) -> PropertyValue:
    """Return one entry of a map section, ``None`` when it is absent or malformed."""
    sought = name.encode("utf-8")
    if sought not in header:  # most messages lack most of the requested names
        return None
    try:
        content = find_section(header, code)
        if content < 0:
            return None
        if len(header) > INDEXED_BYTES:
            value: PropertyValue = _latest_keys.find(header, content, sought)
        else:
            value = find_in_map(header, content, len(header), sought)
    except DecodeError:  # as absent
        return None
    return value


def _facts(header: bytes) -> Facts:
    """Return the requests in the headers of a message in the broker; none if they cannot be read."""
    try:
        return read_facts(header, strict=False)
    except DecodeError:  # as absent
        return Facts()


_latest_keys: Final = MapKeys()


VIEW: Final = Amqp10View()
"""The one instance: views have no state."""
