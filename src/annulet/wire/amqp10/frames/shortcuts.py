"""Transfers and dispositions written without an object, flows without tables: the per-message work.

All fields are written, as explained in :mod:`annulet.wire.amqp10.types.composite_encoding`.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i32_be
from mypy_extensions import i32, i64

from annulet.wire.amqp10.frames.link_frames import MAX_DELIVERY_TAG_OCTETS, Flow
from annulet.wire.amqp10.types.encoding import (
    ENCODED_FALSE,
    ENCODED_NULL,
    ENCODED_TRUE,
    encode_list,
    encode_unsigned_int,
)
from annulet.wire.amqp10.types.errors import LocalProtocolError

NULL_STATE: Final[bytes] = ENCODED_NULL
ACCEPTED_STATE: Final[bytes] = b"\x00\x53\x24\x45"

# heads of lists with 11, 6 and 11 fields; the size is put in when it is known
_TRANSFER_HEAD: Final[bytes] = b"\x00\x53\x14\xc0\x00\x0b"
_DISPOSITION_HEAD: Final[bytes] = b"\x00\x53\x15\xc0\x00\x06"
_FLOW_HEAD: Final[bytes] = b"\x00\x53\x13\xc0\x00\x0b"
_SIZE_AT: Final = 4
_COUNT_AT: Final = 5
_TRANSFER_REST: Final[bytes] = b"\x40\x40\x40\x40\x40\x40"  # from more to batchable
_TRANSFER_REST_MORE: Final[bytes] = b"\x41\x40\x40\x40\x40\x40"
_FLOW_REST: Final[bytes] = b"\x40\x40\x40\x40\x40\x40\x40"  # from handle to properties
_SHORT_STATE_OCTETS: Final = 200  # a longer state might not fit a list with one octet of size
_SIGN: Final = 0x80000000
_MODULUS: Final = 0x100000000


def _write_unsigned_int(writer: BytesWriter, value: i64) -> None:
    if 0 < value <= 0xFF:
        writer.append(0x52)
        writer.append(value)
    elif value == 0:
        writer.append(0x43)
    elif 0 < value < _MODULUS:
        writer.append(0x70)
        write_i32_be(writer, i32(value - _MODULUS if value >= _SIGN else value))
    else:
        raise LocalProtocolError(f"a value of type uint is {value}, allowed are 0 to {_MODULUS - 1}")


def encode_transfer_head(
    handle: i64, delivery_id: i64, delivery_tag: bytes, message_format: i64, settled: bool, more: bool
) -> bytes:
    """Encode a transfer (§2.7.5) without frame header and payload: the first frame of a delivery.

    Raises:
        LocalProtocolError: a number beyond 32 bits, or a tag of more than 32 octets.
    """
    size = len(delivery_tag)
    if size > MAX_DELIVERY_TAG_OCTETS:
        raise LocalProtocolError(f"delivery-tag has {size} octets, at most {MAX_DELIVERY_TAG_OCTETS} are allowed")
    writer = BytesWriter()
    writer.write(_TRANSFER_HEAD)
    _write_unsigned_int(writer, handle)
    _write_unsigned_int(writer, delivery_id)
    writer.append(0xA0)
    writer.append(size)
    writer.write(delivery_tag)
    _write_unsigned_int(writer, message_format)
    writer.append(0x41 if settled else 0x42)
    writer.write(_TRANSFER_REST_MORE if more else _TRANSFER_REST)
    writer[_SIZE_AT] = len(writer) - _COUNT_AT
    return writer.getvalue()


def encode_disposition(role: bool, first: i64, last: i64, settled: bool, encoded_state: bytes) -> bytes:
    """Encode a disposition (§2.7.6); ``encoded_state`` is one of the constants here, or another encoded state.

    Raises:
        LocalProtocolError: a number beyond 32 bits.
    """
    if len(encoded_state) > _SHORT_STATE_OCTETS:
        return b"\x00\x53\x15" + encode_list(
            [
                ENCODED_TRUE if role else ENCODED_FALSE,
                encode_unsigned_int(int(first)),
                encode_unsigned_int(int(last)),
                ENCODED_TRUE if settled else ENCODED_FALSE,
                encoded_state,
                ENCODED_NULL,
            ]
        )
    writer = BytesWriter()
    writer.write(_DISPOSITION_HEAD)
    writer.append(0x41 if role else 0x42)
    _write_unsigned_int(writer, first)
    if last == first:
        writer.append(0x40)
    else:
        _write_unsigned_int(writer, last)
    writer.append(0x41 if settled else 0x42)
    writer.write(encoded_state)
    writer.append(0x40)
    writer[_SIZE_AT] = len(writer) - _COUNT_AT
    return writer.getvalue()


def _write_optional(writer: BytesWriter, value: int | None) -> None:
    if value is None:
        writer.append(0x40)
    else:
        _write_unsigned_int(writer, value)


def encode_flow(flow: Flow) -> bytes:
    """Encode a flow (§2.7.4) that has no properties.

    Raises:
        LocalProtocolError: a number beyond 32 bits.
    """
    writer = BytesWriter()
    writer.write(_FLOW_HEAD)
    _write_optional(writer, flow.next_incoming_id)
    _write_unsigned_int(writer, flow.incoming_window)
    _write_unsigned_int(writer, flow.next_outgoing_id)
    _write_unsigned_int(writer, flow.outgoing_window)
    if (
        flow.handle is not None
        or flow.delivery_count is not None
        or flow.link_credit is not None
        or flow.available is not None
        or flow.drain
        or flow.echo
    ):
        _write_optional(writer, flow.handle)
        _write_optional(writer, flow.delivery_count)
        _write_optional(writer, flow.link_credit)
        _write_optional(writer, flow.available)
        writer.append(0x41 if flow.drain else 0x42)
        writer.append(0x41 if flow.echo else 0x42)
        writer.append(0x40)
    else:
        writer.write(_FLOW_REST)
    writer[_SIZE_AT] = len(writer) - _COUNT_AT
    return writer.getvalue()
