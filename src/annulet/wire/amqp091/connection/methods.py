"""Every method of AMQP 0-9-1 (§1.5 to §1.8) and of RabbitMQ's extensions as one table; decoding and encoding from it.

The tables of older versions are derived from this one in :mod:`annulet.wire.amqp091.connection.versions`.

A row reads ``class.method``, class and method id, the sending side (``C`` client, ``S`` server), ``+`` if content
follows, and the arguments in wire order with their domain types (§4.2.5). Consecutive bits share octets. Names starting
with ``reserved`` are written as zero and ignored on reading, as RabbitMQ does.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i16_be, read_i32_be, read_i64_be
from mypy_extensions import i64

from annulet.core.message.message import PropertyValue
from annulet.wire.amqp091.types.constants import COMMAND_INVALID, NOT_IMPLEMENTED, SYNTAX_ERROR
from annulet.wire.amqp091.types.errors import LocalProtocolError, RemoteProtocolError
from annulet.wire.amqp091.types.values import (
    encode_long_string,
    encode_short_string,
    encode_table,
    read_long_string,
    read_short_string,
    read_table,
)

_TABLE: Final = """
connection.start            10  10 S  octet:version_major octet:version_minor table:server_properties longstr:mechanisms longstr:locales
connection.start-ok         10  11 C  table:client_properties shortstr:mechanism longstr:response shortstr:locale
connection.secure           10  20 S  longstr:challenge
connection.secure-ok        10  21 C  longstr:response
connection.tune             10  30 S  short:channel_max long:frame_max short:heartbeat
connection.tune-ok          10  31 C  short:channel_max long:frame_max short:heartbeat
connection.open             10  40 C  shortstr:virtual_host shortstr:reserved_1 bit:reserved_2
connection.open-ok          10  41 S  shortstr:reserved_1
connection.close            10  50 CS short:reply_code shortstr:reply_text short:class_id short:method_id
connection.close-ok         10  51 CS
connection.blocked          10  60 S  shortstr:reason
connection.unblocked        10  61 S
connection.update-secret    10  70 C  longstr:new_secret shortstr:reason
connection.update-secret-ok 10  71 S
channel.open                20  10 C  shortstr:reserved_1
channel.open-ok             20  11 S  longstr:reserved_1
channel.flow                20  20 CS bit:active
channel.flow-ok             20  21 CS bit:active
channel.close               20  40 CS short:reply_code shortstr:reply_text short:class_id short:method_id
channel.close-ok            20  41 CS
access.request              30  10 C  shortstr:realm bit:exclusive bit:passive bit:active bit:write bit:read
access.request-ok           30  11 S  short:ticket
exchange.declare            40  10 C  short:reserved_1 shortstr:exchange shortstr:type bit:passive bit:durable bit:auto_delete bit:internal bit:no_wait table:arguments
exchange.declare-ok         40  11 S
exchange.delete             40  20 C  short:reserved_1 shortstr:exchange bit:if_unused bit:no_wait
exchange.delete-ok          40  21 S
exchange.bind               40  30 C  short:reserved_1 shortstr:destination shortstr:source shortstr:routing_key bit:no_wait table:arguments
exchange.bind-ok            40  31 S
exchange.unbind             40  40 C  short:reserved_1 shortstr:destination shortstr:source shortstr:routing_key bit:no_wait table:arguments
exchange.unbind-ok          40  51 S
queue.declare               50  10 C  short:reserved_1 shortstr:queue bit:passive bit:durable bit:exclusive bit:auto_delete bit:no_wait table:arguments
queue.declare-ok            50  11 S  shortstr:queue long:message_count long:consumer_count
queue.bind                  50  20 C  short:reserved_1 shortstr:queue shortstr:exchange shortstr:routing_key bit:no_wait table:arguments
queue.bind-ok               50  21 S
queue.purge                 50  30 C  short:reserved_1 shortstr:queue bit:no_wait
queue.purge-ok              50  31 S  long:message_count
queue.delete                50  40 C  short:reserved_1 shortstr:queue bit:if_unused bit:if_empty bit:no_wait
queue.delete-ok             50  41 S  long:message_count
queue.unbind                50  50 C  short:reserved_1 shortstr:queue shortstr:exchange shortstr:routing_key table:arguments
queue.unbind-ok             50  51 S
basic.qos                   60  10 C  long:prefetch_size short:prefetch_count bit:global
basic.qos-ok                60  11 S
basic.consume               60  20 C  short:reserved_1 shortstr:queue shortstr:consumer_tag bit:no_local bit:no_ack bit:exclusive bit:no_wait table:arguments
basic.consume-ok            60  21 S  shortstr:consumer_tag
basic.cancel                60  30 CS shortstr:consumer_tag bit:no_wait
basic.cancel-ok             60  31 CS shortstr:consumer_tag
basic.publish               60  40 C+ short:reserved_1 shortstr:exchange shortstr:routing_key bit:mandatory bit:immediate
basic.return                60  50 S+ short:reply_code shortstr:reply_text shortstr:exchange shortstr:routing_key
basic.deliver               60  60 S+ shortstr:consumer_tag longlong:delivery_tag bit:redelivered shortstr:exchange shortstr:routing_key
basic.get                   60  70 C  short:reserved_1 shortstr:queue bit:no_ack
basic.get-ok                60  71 S+ longlong:delivery_tag bit:redelivered shortstr:exchange shortstr:routing_key long:message_count
basic.get-empty             60  72 S  shortstr:reserved_1
basic.ack                   60  80 CS longlong:delivery_tag bit:multiple
basic.reject                60  90 C  longlong:delivery_tag bit:requeue
basic.recover-async         60 100 C  bit:requeue
basic.recover               60 110 C  bit:requeue
basic.recover-ok            60 111 S
basic.nack                  60 120 CS longlong:delivery_tag bit:multiple bit:requeue
confirm.select              85  10 C  bit:no_wait
confirm.select-ok           85  11 S
tx.select                   90  10 C
tx.select-ok                90  11 S
tx.commit                   90  20 C
tx.commit-ok                90  21 S
tx.rollback                 90  30 C
tx.rollback-ok              90  31 S
"""  # noqa: E501 - one row a line, to be compared with the standard

_SIZES: Final[dict[str, int]] = {"octet": 1, "short": 2, "long": 4, "longlong": 8}


class MethodSpecification:
    """One row of the table."""

    __slots__ = ("absent", "arguments", "has_content", "identifier", "name", "senders")

    def __init__(
        self, name: str, identifier: int, senders: str, arguments: list[tuple[str, str]], *, has_content: bool
    ) -> None:
        self.name = name  # class.method as in the standard
        self.identifier = identifier  # class id << 16 | method id
        self.senders = senders  # "C", "S" or "CS"
        self.has_content = has_content
        self.arguments = [pair for pair in arguments if pair[1] != "absent"]  # (argument name, domain type), wire order
        self.absent = [name for name, kind in arguments if kind == "absent"]  # tables this version has not: empty


class Method:
    """A decoded method. The typed accessors are for callers that know the table; a wrong name raises ``KeyError``."""

    __slots__ = ("arguments", "specification")

    def __init__(self, specification: MethodSpecification, arguments: dict[str, PropertyValue]) -> None:
        self.specification = specification
        self.arguments = arguments

    def text(self, name: str) -> str:
        """Return a short string argument."""
        value = self.arguments[name]
        if not isinstance(value, str):
            raise self._mismatch(name)
        return value

    def octets(self, name: str) -> bytes:
        """Return a long string argument."""
        value = self.arguments[name]
        if not isinstance(value, bytes):
            raise self._mismatch(name)
        return value

    def integer(self, name: str) -> int:
        """Return an integer argument."""
        value = self.arguments[name]
        if not isinstance(value, int):
            raise self._mismatch(name)
        return value

    def flag(self, name: str) -> bool:
        """Return a bit argument."""
        value = self.arguments[name]
        if not isinstance(value, bool):
            raise self._mismatch(name)
        return value

    def table(self, name: str) -> dict[str, PropertyValue]:
        """Return a field table argument."""
        value = self.arguments[name]
        if not isinstance(value, dict):
            raise self._mismatch(name)
        return value

    def _mismatch(self, name: str) -> LocalProtocolError:
        return LocalProtocolError(f"{self.specification.name} {name} is {self.arguments[name]!r}; use another accessor")


class MethodTable:
    """The methods of one version of the protocol."""

    __slots__ = ("by_identifier", "by_name", "protocol", "unserved")

    def __init__(
        self, protocol: str, methods: dict[int, MethodSpecification], unserved: dict[int, str] | None = None
    ) -> None:
        self.protocol = protocol  # for error texts: "AMQP 0-9-1"
        self.by_identifier = methods
        self.by_name = {specification.name: specification for specification in methods.values()}
        self.unserved = {} if unserved is None else unserved  # names of unserved methods of the version, by
        # method identifier, or by class id << 16 for a whole class


def parse_methods(text: str) -> dict[int, MethodSpecification]:
    """Return the rows of a table in the format of the module docstring, by method identifier.

    The domain ``absent`` marks a table argument that a version lacks: it is not on the wire, and reads as empty.
    """
    methods: dict[int, MethodSpecification] = {}
    for line in text.strip().splitlines():
        name, class_id, method_id, senders, *arguments = line.split()
        identifier = int(class_id) << 16 | int(method_id)
        pairs = [(argument.partition(":")[2], argument.partition(":")[0]) for argument in arguments]
        methods[identifier] = MethodSpecification(
            name, identifier, senders.rstrip("+"), pairs, has_content=senders.endswith("+")
        )
    return methods


METHODS: Final = parse_methods(_TABLE)
"""Every method by its identifier."""

METHODS_BY_NAME: Final = {specification.name: specification for specification in METHODS.values()}
"""Every method by ``class.method``."""

METHODS_0_9_1: Final = MethodTable("AMQP 0-9-1", METHODS)
"""The same as a table among those of other versions."""


def method_identifier(name: str) -> int:
    """Return ``class id << 16 | method id`` of ``class.method``; ``KeyError`` if it is not in the table."""
    return METHODS_BY_NAME[name].identifier


def find_method(identifier: int, sender: str, table: MethodTable = METHODS_0_9_1) -> MethodSpecification:
    """Return the specification of a method that arrived from ``sender``, ``"C"`` or ``"S"``.

    Raises:
        RemoteProtocolError: 540 for a method outside the table, 503 for one the other side has to send.
    """
    specification = table.by_identifier.get(identifier)
    if specification is None:
        raise RemoteProtocolError(NOT_IMPLEMENTED, _why_not_served(identifier, table))
    if sender not in specification.senders:
        side = "a client" if sender == "C" else "a server"
        raise RemoteProtocolError(
            COMMAND_INVALID, f"{specification.name} is not for {side} to send in {table.protocol}"
        )
    return specification


def _why_not_served(identifier: int, table: MethodTable) -> str:
    unserved = table.unserved.get(identifier) or table.unserved.get(identifier & 0xFFFF0000)
    if unserved is not None:
        return f"{unserved} of {table.protocol} is not served; use class basic"
    newer = METHODS.get(identifier)
    if newer is not None:
        return f"{newer.name} is not in {table.protocol}; connect with the protocol header AMQP 0 0 9 1 to use it"
    return f"method {identifier & 0xFFFF} of class {identifier >> 16} is not in {table.protocol}"


def decode_method(payload: bytes, sender: str, table: MethodTable = METHODS_0_9_1) -> Method:
    """Decode the payload of a method frame (§4.2.4) that arrived from ``sender``.

    Raises:
        RemoteProtocolError: 540 or 503 as :func:`find_method`; 502 when the arguments are malformed, cut or too long.
    """
    if len(payload) < 4:
        raise RemoteProtocolError(
            SYNTAX_ERROR, f"method frame has {len(payload)} octets, class and method id need 4; send the whole method"
        )
    specification = find_method(int.from_bytes(payload[:4], "big"), sender, table)
    arguments: dict[str, PropertyValue] = {}
    for name in specification.absent:
        arguments[name] = {}
    position = 4
    bit = 0  # of the octet at `position`; 0 = no octet of bits begun
    for name, kind in specification.arguments:
        if kind == "bit":
            if position >= len(payload):
                raise RemoteProtocolError(SYNTAX_ERROR, f"{specification.name} ends before {name}; send all arguments")
            arguments[name] = payload[position] & (1 << bit) != 0
            bit += 1
            if bit == 8:
                bit = 0
                position += 1
            continue
        if bit:
            bit = 0
            position += 1
        arguments[name], position = _decode_argument(payload, position, kind, f"{specification.name} {name}")
    if bit:
        position += 1
    if position != len(payload):
        raise RemoteProtocolError(
            SYNTAX_ERROR,
            f"{specification.name} has {len(payload) - position} octets too many; end it after its arguments",
        )
    return Method(specification, arguments)


def _decode_argument(payload: bytes, position: int, kind: str, what: str) -> tuple[PropertyValue, int]:
    end = len(payload)
    if kind == "shortstr":
        return read_short_string(payload, position, end, what)
    if kind == "longstr":
        return read_long_string(payload, position, end, what)
    if kind == "table":
        return read_table(payload, position, end)
    size = _SIZES[kind]
    if position + size > end:
        raise RemoteProtocolError(SYNTAX_ERROR, f"{what} needs {size} octets, {end - position} are left; send them")
    at: i64 = position
    if size == 1:
        return payload[position], position + 1
    if size == 2:
        return int(read_i16_be(payload, at)) & 0xFFFF, position + 2
    if size == 4:
        return int(read_i32_be(payload, at)) & 0xFFFFFFFF, position + 4
    return int(read_i64_be(payload, at)) & 0xFFFFFFFFFFFFFFFF, position + 8


def encode_method(
    name: str, arguments: dict[str, PropertyValue] | None = None, table: MethodTable = METHODS_0_9_1
) -> bytes:
    """Encode the payload of a method frame. Arguments that are not given are zero, empty or false.

    Raises:
        LocalProtocolError: the method or an argument is unknown, or a value has the wrong type or range.
    """
    specification = table.by_name.get(name)
    if specification is None:
        raise LocalProtocolError(
            f"unknown method {name!r}; the names are those of {table.protocol}, as in basic.get-ok"
        )
    values = {} if arguments is None else arguments
    unknown = values.keys() - {argument for argument, _ in specification.arguments}
    if unknown:
        raise LocalProtocolError(f"{name} has no argument {', '.join(sorted(unknown))}")
    parts = [specification.identifier.to_bytes(4, "big")]
    bits: list[bool] = []
    for argument, kind in specification.arguments:
        value = values.get(argument)
        if kind == "bit":
            bits.append(bool(value))
            continue
        if bits:
            parts.append(_encode_bits(bits))
            bits = []
        parts.append(_encode_argument(value, kind, f"{name} {argument}"))
    if bits:
        parts.append(_encode_bits(bits))
    return b"".join(parts)


def _encode_bits(bits: list[bool]) -> bytes:
    number = 0
    for position, bit in enumerate(bits):
        if bit:
            number |= 1 << position
    return number.to_bytes((len(bits) + 7) // 8, "little")


def _encode_argument(value: PropertyValue, kind: str, what: str) -> bytes:
    if kind == "shortstr" and (value is None or isinstance(value, str)):
        return encode_short_string(value or "")
    if kind == "longstr" and (value is None or isinstance(value, (str, bytes))):
        return encode_long_string(value.encode("utf-8") if isinstance(value, str) else value or b"")
    if kind == "table" and (value is None or isinstance(value, dict)):
        return encode_table(value or {})
    size = _SIZES.get(kind, 0)
    if size and (value is None or isinstance(value, int)):
        number = value or 0
        if 0 <= number < 1 << (8 * size):
            return number.to_bytes(size, "big")
    raise LocalProtocolError(f"{what} is {value!r}; it needs a value of the domain {kind}")
