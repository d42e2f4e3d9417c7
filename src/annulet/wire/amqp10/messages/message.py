"""AMQP 1.0 messages as they are stored, made from received transfers and converted to transfers to be sent.

========= =============================================================================================================
header    one octet, the form of the body; then the sections before the body, each behind its short descriptor: header,
          message-annotations, properties, application-properties. Delivery annotations end here (§3.2.2)
body      :data:`FORM_DATA`: the octets of the one data section, so that all protocols share them; :data:`FORM_ENCODED`:
          the body's sections and the footer as they came
========= =============================================================================================================
"""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from annulet.core.base.errors import InvalidArgument
from annulet.core.message.message import Message
from annulet.wire.amqp10.messages.facts import NAMES, SCHEDULE_NAMES, Facts, note, refused
from annulet.wire.amqp10.messages.names import GIVEN_DEATHS
from annulet.wire.amqp10.messages.sections import (
    APPLICATION_PROPERTIES,
    DATA,
    HEADER,
    LIMIT_HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    MessageSections,
    Section,
    decode_header,
    decode_properties,
    key_octets,
    split_message,
)
from annulet.wire.amqp10.types.encoding import encode_symbol, encode_value
from annulet.wire.amqp10.types.errors import DecodeError, MessageTooComplex
from annulet.wire.amqp10.types.values import compound_bounds, decode_value, skip_value, variable_bounds

FORM_ENCODED: Final = 0
FORM_DATA: Final = 1

TIME_TO_LIVE_MAX: Final = 0xFFFFFFFF  # §3.2.1: milliseconds, a uint

HEADER_BYTES_MAX: Final = 65_536
"""Bytes of the sections before the body, as of the headers of a STOMP frame: 16,000 of the shortest properties."""

FACTS_MAX: Final = 1024
"""Stored headers whose facts are remembered, at most about 1 KB each: senders without message ids repeat them."""
FACTS_HEADER_MAX: Final = 512
"""Octets of the largest header worth caching: a longer one is hardly ever sent twice."""


class IncomingMessage:
    """A message as received by transfer, ready to be stored. The facts are those of :class:`Facts`."""

    __slots__ = (
        "body",
        "cancels",
        "duplicate_id",
        "durable",
        "facts",
        "header",
        "priority",
        "schedule_id",
        "subject",
        "to",
        "user_id",
    )

    def __init__(self, header: bytes, body: bytes, facts: Facts) -> None:
        self.header = header
        self.body = body
        self.facts = facts
        self.durable = facts.durable
        self.priority = facts.priority
        self.to = facts.to
        self.subject = facts.subject
        self.user_id = facts.user_id
        self.schedule_id = facts.schedule_id
        self.cancels = facts.cancels
        self.duplicate_id = facts.duplicate_id

    def due_at(self, accepted_at: int) -> int:
        """Return :meth:`Facts.due_at`."""
        return self.facts.due_at(accepted_at)

    def expires_at(self, accepted_at: int) -> int:
        """Return :meth:`Facts.expires_at`."""
        return self.facts.expires_at(accepted_at)


_remembered: Final[dict[bytes, Facts]] = {}


def split_incoming(payload: bytes, header_bytes_max: int = HEADER_BYTES_MAX) -> IncomingMessage:
    """Take a transfer's payload apart. ``header_bytes_max``: of all sections before the body.

    Raises:
        DecodeError: octets that are no message (§3.2), or a header or properties section with a wrong field.
        InvalidArgument: a schedule, duplicate id or the like of the wrong type or range.
        MessageTooComplex: more sections before the body, or more body sections, than one message may have.
    """
    sections = split_message(payload)
    _check_header(payload, sections, header_bytes_max)
    form, body = _body_of(payload, sections)
    if sections.delivery_annotations is None:
        annotations = _short(payload, sections.message_annotations)
    else:
        annotations = _with_schedule(payload, sections.message_annotations, sections.delivery_annotations)
    header = b"".join(
        [
            form,
            _short(payload, sections.header),
            annotations,
            _short(payload, sections.properties),
            _short(payload, sections.application_properties),
        ]
    )
    facts = _remembered.get(header)
    if facts is None:
        facts = read_facts(header)
        if len(header) <= FACTS_HEADER_MAX and not facts.duplicate_id:
            if len(_remembered) >= FACTS_MAX:
                _remembered.clear()
            _remembered[header] = facts
    return IncomingMessage(header, body, facts)


def _check_header(payload: bytes, sections: MessageSections, most: int) -> None:
    if len(payload) <= most:
        return
    first = sections.body[0] if sections.body else sections.footer
    size = len(payload) if first is None else first.start
    if size > most:
        raise MessageTooComplex(
            f"message has {size} bytes before its body, {LIMIT_HEADER} is {most}; send fewer or shorter properties",
            LIMIT_HEADER,
        )


def _short(payload: bytes, section: Section | None) -> bytes:
    """Return a section behind the short form of its descriptor, nothing for a missing one."""
    if section is None:
        return b""
    return b"\x00\x53" + bytes((section.code,)) + payload[section.content : section.end]


def _with_schedule(payload: bytes, own: Section | None, delivery: Section) -> bytes:
    """Return the message annotations with the schedule requested in the annotations of this delivery.

    Delivery annotations end here (§3.2.2); the time of delivery must be known after a restart too.
    """
    asked: dict[str, Any] = {}
    kind: i64 = payload[delivery.content]
    _, at, stop = compound_bounds(payload, kind, i64(delivery.content) + 1, i64(delivery.end), "map")
    while at < stop:
        key_end: i64 = skip_value(payload, int(at), int(stop))
        key = key_octets(payload, at, key_end)
        if key in SCHEDULE_NAMES:
            value, at = decode_value(payload, int(key_end), int(stop))
            asked[key.decode("ascii")] = value
        else:
            at = skip_value(payload, int(key_end), int(stop))
    if not asked:
        return _short(payload, own)
    start, end = (-1, 0) if own is None else (own.content, own.end)
    return section_with(payload, start, end, asked, frozenset(), MESSAGE_ANNOTATIONS)


def _body_of(payload: bytes, sections: MessageSections) -> tuple[bytes, bytes]:
    """Return the octet for the form of a message's body, and the body as it is stored."""
    body = sections.body
    if len(body) == 1 and sections.body_kind == DATA and sections.footer is None:
        code: i64 = payload[body[0].content]
        start, stop = variable_bounds(payload, code, i64(body[0].content) + 1, i64(body[0].end), "data")
        return b"\x01", payload[int(start) : int(stop)]
    first: Section | None = body[0] if body else sections.footer
    return b"\x00", b"" if first is None else payload[first.start :]


# ---------------------------------------------------------------------- stored headers


def find_section(header: bytes, code: int) -> int:
    """Return where the value of a section of a stored header starts; -1 when it has none of this descriptor.

    Raises:
        DecodeError: octets that no stored header has.
    """
    position: i64 = 1
    end: i64 = len(header)
    while position < end:
        found: i64 = _code_at(header, position, end)
        if found >= code:
            return int(position) + 3 if found == code else -1
        position = skip_value(header, int(position) + 3, int(end))
    return -1


def _code_at(header: bytes, position: i64, end: i64) -> i64:
    """Return the descriptor of the section at ``position``."""
    if position + 4 > end or header[position] != 0 or header[position + 1] != 0x53:
        raise DecodeError(f"stored header has no section at octet {int(position)}")
    code: i64 = header[position + 2]
    return code


def rebuilt(header: bytes, replaced: dict[int, bytes]) -> bytes:
    """Return a stored header with some sections replaced, by descriptor; nothing in place of one leaves it out.

    Raises:
        DecodeError: octets that no stored header has.
    """
    kept: dict[int, bytes] = {}
    position = 1
    end = len(header)
    while position < end:
        start = position
        code = int(_code_at(header, start, end))
        position = skip_value(header, start + 3, end)
        kept[code] = header[start:position]
    kept.update(replaced)
    return header[:1] + b"".join([kept[code] for code in sorted(kept)])


def with_given_deaths(header: bytes) -> bytes:
    """Return a stored header with the mark that its trail of deaths is its publisher's."""
    content = find_section(header, MESSAGE_ANNOTATIONS)
    end = len(header) if content < 0 else skip_value(header, content, len(header))
    marked = section_with(header, content, end, {GIVEN_DEATHS: True}, frozenset(), MESSAGE_ANNOTATIONS)
    return rebuilt(header, {MESSAGE_ANNOTATIONS: marked})


def read_facts(header: bytes, *, strict: bool = True) -> Facts:
    """Read the facts in a stored header.

    ``strict=False`` treats a value of the wrong type as absent: for messages already in the broker.

    Raises:
        DecodeError: malformed octets, as far as they were read.
        InvalidArgument: a value of the wrong type or range, and a cancellation that does not say of what.
    """
    facts = Facts()
    end = len(header)
    position = 1
    while position < end:
        code = int(_code_at(header, position, end))
        content = position + 3
        position = skip_value(header, content, end)
        if code == HEADER:
            given = decode_header(header, content, position)
            facts.durable = given.durable
            facts.priority = -1 if given.priority is None else given.priority
            facts.time_to_live = -1 if given.ttl is None else given.ttl
        elif code == PROPERTIES:
            properties = decode_properties(header, content, position)
            facts.to = properties.to or ""
            facts.subject = properties.subject or ""
            facts.user_id = properties.user_id or b""
            facts.absolute_expiry_time = max(properties.absolute_expiry_time or 0, 0)
        elif code in (MESSAGE_ANNOTATIONS, APPLICATION_PROPERTIES) and (strict or _may_ask(header)):
            _read_map(facts, header, content, position, strict=strict)
    if strict and facts.cancels and not facts.schedule_id:
        raise refused("x-schedule-cancel", True, "give the name of the message to take back in 'x-schedule-id'")
    return facts


def _may_ask(header: bytes) -> bool:
    """Return whether a header may have one of the names; as a rule it has none."""
    return b"x-" in header or b"_AMQ_" in header


def _read_map(facts: Facts, header: bytes, content: int, end: int, *, strict: bool) -> None:
    code: i64 = header[content]
    _, at, stop = compound_bounds(header, code, i64(content) + 1, i64(end), "map")
    while at < stop:
        key_end: i64 = skip_value(header, int(at), int(stop))
        key = key_octets(header, at, key_end)
        what = NAMES.get(key, 0)
        if what:
            name = key.decode("ascii")
            value, behind = decode_value(header, int(key_end), int(stop))
            try:
                note(facts, what, name, value)
            except InvalidArgument:
                if strict:
                    raise
            at = behind
        else:
            at = skip_value(header, int(key_end), int(stop))


# ---------------------------------------------------------------------- going out


def encode_delivery(
    message: Message,
    *,
    delivery_count: int,
    first_acquirer: bool,
    now: int,
    annotations: dict[str, Any] | None = None,
) -> bytes:
    """Return the payload of a transfer: a header section of this delivery, and the message as it is stored.

    ``annotations`` override the message's own annotations. The time to live is the remaining one at ``now``, at least a
    millisecond: 0 would mean unlimited.

    Raises:
        DecodeError: a stored header that cannot be read.
        LocalProtocolError: an annotation AMQP 1.0 cannot carry.
    """
    header = message.header
    end = len(header)
    rest = 1
    priority = -1
    time_to_live = -1
    if end > 4 and header[3] == HEADER:
        rest = skip_value(header, 4, end)
        given = decode_header(header, 4, rest)
        if given.priority is not None:
            priority = given.priority
        if given.ttl and message.expires_at:
            time_to_live = min(max(message.expires_at - now, 1), TIME_TO_LIVE_MAX)
    parts = [_header_section(message.durable, priority, time_to_live, first_acquirer, delivery_count)]
    if annotations:
        has = rest < end and header[rest + 2] == MESSAGE_ANNOTATIONS
        stop = skip_value(header, rest + 3, end) if has else rest
        parts.append(section_with(header, rest + 3 if has else -1, stop, annotations, frozenset(), MESSAGE_ANNOTATIONS))
        rest = stop
    if rest < end:
        parts.append(header[rest:])
    body = message.body
    if end and header[0] == FORM_DATA:
        size = len(body)
        if size < 256:
            parts.append(b"\x00\x53\x75\xa0" + bytes((size,)))
        else:
            parts.append(b"\x00\x53\x75\xb0" + size.to_bytes(4, "big"))
    parts.append(body)
    return b"".join(parts)


def _header_section(
    durable: bool,
    priority: int,
    time_to_live: int,
    first_acquirer: bool,
    delivery_count: int,
) -> bytes:
    """Encode a header section (§3.2.1) by hand: every delivery has its own."""
    fields = b"\x41" if durable else b"\x42"
    fields += b"\x40" if priority < 0 else bytes((0x50, priority))
    fields += b"\x40" if time_to_live < 0 else b"\x70" + time_to_live.to_bytes(4, "big")
    fields += b"\x41" if first_acquirer else b"\x42"
    count = 4
    if delivery_count:
        count = 5
        if delivery_count < 256:
            fields += bytes((0x52, delivery_count))
        else:
            fields += b"\x70" + min(delivery_count, 0xFFFFFFFF).to_bytes(4, "big")
    return b"\x00\x53\x70\xc0" + bytes((len(fields) + 1, count)) + fields


def section_with(
    data: bytes, content: int, end: int, values: dict[str, Any], without: frozenset[bytes], code: int
) -> bytes:
    """Return a map section with ``values`` put over its own and what ``without`` names left out.

    ``content`` is where its map starts in ``data``, -1 for a message without the section; then and now empty is no
    section. Everything else keeps its octets.

    Raises:
        DecodeError: malformed octets, as far as they were read.
        LocalProtocolError: a value AMQP 1.0 cannot carry.
    """
    leaving = without | {name.encode("utf-8") for name in values}
    parts: list[bytes] = []
    count = 0
    if content >= 0:
        kind: i64 = data[content]
        _, at, stop = compound_bounds(data, kind, i64(content) + 1, i64(end), "map")
        while at < stop:
            key_end: i64 = skip_value(data, int(at), int(stop))
            behind: i64 = skip_value(data, int(key_end), int(stop))
            if key_octets(data, at, key_end) not in leaving:
                parts.append(data[at:behind])
                count += 2
            at = behind
    for name, value in values.items():
        parts.append(encode_symbol(name) if code == MESSAGE_ANNOTATIONS else encode_value(name))
        parts.append(encode_value(value))
        count += 2
    if not count:
        return b""
    octets = b"".join(parts)
    size = len(octets)
    head = b"\x00\x53" + bytes((code,))
    if size < 255 and count < 256:
        return head + b"\xc1" + bytes((size + 1, count)) + octets
    return head + b"\xd1" + (size + 4).to_bytes(4, "big") + count.to_bytes(4, "big") + octets
