"""The versions of AMQP 0-x a connection may speak, and all that differs between them.

A client chooses by its protocol header (§4.2.2). States and dispatch know the methods of 0-9-1 only; a version adds its
own method table, a renumbering of methods with other numbers, and the types its field tables may contain. Sources: the
protocol definitions published with the standards (``amqp0-8.xml``, ``amqp0-9.xml``), named here by class and method
number, and RabbitMQ's behaviour towards clients of 0-8. Everything not listed here is the same on the wire as in 0-9-1.
"""

from __future__ import annotations

from typing import Final

from annulet.wire.amqp091.connection.methods import (
    METHODS,
    METHODS_0_9_1,
    MethodSpecification,
    MethodTable,
    encode_method,
    method_identifier,
    parse_methods,
)
from annulet.wire.amqp091.types.constants import PROTOCOL_HEADER

_EXTENSIONS: Final = frozenset(
    {
        "connection.blocked",
        "connection.unblocked",
        "connection.update-secret",
        "connection.update-secret-ok",
        "exchange.bind",
        "exchange.bind-ok",
        "exchange.unbind",
        "exchange.unbind-ok",
        "basic.nack",
        "confirm.select",
        "confirm.select-ok",
    }
)
"""RabbitMQ's additions to 0-9-1. The older versions get of them only basic.recover with its answer, as in RabbitMQ."""

_BEFORE_0_9_1: Final = """
basic.cancel                60  30 C  shortstr:consumer_tag bit:no_wait
basic.cancel-ok             60  31 S  shortstr:consumer_tag
basic.ack                   60  80 C  longlong:delivery_tag bit:multiple
"""
"""Both older versions: servers neither cancel nor acknowledge, which 0-9-1 has from RabbitMQ."""

_ONLY_0_8: Final = """
connection.redirect         10  50 S  shortstr:host shortstr:known_hosts
connection.close            10  60 CS short:reply_code shortstr:reply_text short:class_id short:method_id
connection.close-ok         10  61 CS
channel.open-ok             20  11 S
channel.alert               20  30 S  short:reply_code shortstr:reply_text table:details
basic.consume               60  20 C  short:ticket shortstr:queue shortstr:consumer_tag bit:no_local bit:no_ack bit:exclusive bit:no_wait absent:arguments
"""  # noqa: E501 - one row a line, to be compared with the standard
"""Class connection numbers redirect and close differently, open-ok of a channel is empty, consumers have no arguments.

``queue.unbind`` is not in ``amqp0-8.xml``; clients of 0-8 (amqplib) send it as RabbitMQ numbers it, which is as in 0-9.
"""

_ONLY_0_9: Final = """
connection.redirect         10  42 S  shortstr:host shortstr:known_hosts
"""

_UNSERVED_CLASSES: Final[dict[int, str]] = {
    70 << 16: "class file",
    80 << 16: "class stream",
    100 << 16: "class dtx",
    110 << 16: "class tunnel",
}

_UNSERVED_0_8: Final[dict[int, str]] = {**_UNSERVED_CLASSES, 120 << 16: "class test"}

_UNSERVED_0_9: Final[dict[int, str]] = {
    **_UNSERVED_CLASSES,
    120 << 16: "class message",
    20 << 16 | 50: "channel.resume",
    20 << 16 | 60: "channel.ping",
    20 << 16 | 70: "channel.pong",
    20 << 16 | 80: "channel.ok",
}
"""Classes of the standards that brokers in use never served."""


class ProtocolVersion:
    """One version. Compared by identity: there are only those below."""

    __slots__ = (
        "channel_open_ok",
        "extended",
        "extended_form",
        "field_types",
        "headers",
        "major",
        "methods",
        "minor",
        "name",
        "renumbered",
    )

    def __init__(
        self,
        methods: MethodTable,
        headers: tuple[bytes, ...],
        shown: tuple[int, int],
        *,
        renumbered: dict[int, int],
        field_types: bytes,
        extended: bool,
        extended_form: ProtocolVersion | None = None,
    ) -> None:
        self.name = methods.protocol  # "AMQP 0-8"
        self.methods = methods
        self.headers = headers  # protocol headers that select it, eight octets each
        self.major, self.minor = shown  # of connection.start (§1.4.2.1)
        self.renumbered = renumbered  # identifiers of 0-9-1, by those of this version, where they differ
        self.field_types = field_types  # letters of the types the broker may write into tables (§4.2.5.5); b"" = all
        self.extended = extended  # RabbitMQ's extensions exist, so capabilities mean something
        self.extended_form = extended_form  # the version for a client that announces capabilities; None: the same
        self.channel_open_ok = encode_method("channel.open-ok", None, methods)


def _older_methods(rows: str) -> dict[int, MethodSpecification]:
    """Return the methods of 0-9-1 without the extensions, with ``rows`` in the place of those with the same name."""
    changed = {**parse_methods(_BEFORE_0_9_1), **parse_methods(rows)}
    names = _EXTENSIONS | {specification.name for specification in changed.values()}
    kept = {identifier: known for identifier, known in METHODS.items() if known.name not in names}
    return {**kept, **changed}


AMQP_0_9_1: Final = ProtocolVersion(
    METHODS_0_9_1, (PROTOCOL_HEADER,), (0, 9), renumbered={}, field_types=b"", extended=True
)
"""The newest version: an unknown protocol header is answered with its header."""

AMQP_0_9_EXTENDED: Final = ProtocolVersion(
    MethodTable("AMQP 0-9", METHODS, _UNSERVED_0_9), (), (0, 9), renumbered={}, field_types=b"SIDTFVAt", extended=True
)
"""0-9 as RabbitMQ serves it, with the methods of 0-9-1: what Perl's AnyEvent::RabbitMQ means by the header of 0-9.

It is selected not by a header but by ``capabilities`` in the client's properties: they are RabbitMQ's, like the
extensions. The types are those that client reads: arrays and booleans beside the standard's, and no integer but ``I``.
"""

AMQP_0_9: Final = ProtocolVersion(
    MethodTable("AMQP 0-9", _older_methods(_ONLY_0_9), _UNSERVED_0_9),
    (b"AMQP\x01\x01\x00\x09", b"AMQP\x00\x00\x09\x00"),
    (0, 9),
    renumbered={},
    field_types=b"SIDTFV",
    extended=False,
    extended_form=AMQP_0_9_EXTENDED,
)
"""The first header is the standard's; the second is 0-9-1's form with revision 0."""

AMQP_0_8: Final = ProtocolVersion(
    MethodTable("AMQP 0-8", _older_methods(_ONLY_0_8), _UNSERVED_0_8),
    (b"AMQP\x01\x01\x08\x00", b"AMQP\x01\x01\x09\x01"),
    (8, 0),
    renumbered={
        10 << 16 | 50: 10 << 16 | 42,  # redirect; as 0-9 has it, so that it is not taken for 0-9-1's close
        10 << 16 | 60: method_identifier("connection.close"),
        10 << 16 | 61: method_identifier("connection.close-ok"),
    },
    field_types=b"SIDTF",
    extended=False,
)
"""The standard calls itself 8-0, and so does connection.start.

The second header is sent by amqplib and similar clients.
"""

VERSIONS: Final = (AMQP_0_9_1, AMQP_0_9, AMQP_0_8)
"""All that are served, newest first."""

VERSIONS_BY_HEADER: Final[dict[bytes, ProtocolVersion]] = {
    header: version for version in VERSIONS for header in version.headers
}
"""The version selected by each protocol header."""


def may_become_header(received: bytes) -> bool:
    """Return whether ``received``, at most eight octets, is a served protocol header or the beginning of one."""
    return any(header.startswith(received) for header in VERSIONS_BY_HEADER)
