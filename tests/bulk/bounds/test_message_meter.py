"""What clients of bulk transfer may send: messages at the limits and above, in any cut."""

from __future__ import annotations

import pyarrow as pa
import pytest

from annulet.bulk.bounds import message_meter
from annulet.bulk.bounds.http2_frames import DATA, END_STREAM, HEADERS, PREFACE, RST_STREAM
from annulet.bulk.bounds.message_meter import (
    COPIES,
    HEADER_FIELD,
    REQUEST_BYTES_MAX,
    ROWS_FIELD,
    STRANGER_STREAMS_MAX,
    STREAMS_MAX,
    UNFINISHED_MESSAGES,
    MessageRefusedError,
    RequestMeter,
    ResponseMeter,
    is_compressed,
)
from tests.bulk.bounds.test_http2_frames import frame

MOST = 20_000


def varint(value: int) -> bytes:
    octets = bytearray()
    while value > 0x7F:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    octets.append(value)
    return bytes(octets)


def field(number: int, value: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(value)) + value


def message(content: bytes, *, compressed: bool = False) -> bytes:
    return bytes((compressed,)) + len(content).to_bytes(4, "big") + content


def descriptions(batch: pa.RecordBatch, compression: str | None = None) -> dict[str, bytes]:
    """Return Arrow's descriptions of a stream with one batch, by their kinds."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_batch(batch)
    return {one.type: one.metadata.to_pybytes() for one in pa.ipc.MessageReader.open_stream(sink.getvalue())}


def described(batch: pa.RecordBatch, compression: str | None = None) -> bytes:
    return descriptions(batch, compression)["record batch"]


def meter(streams: int = 1) -> RequestMeter:
    made = RequestMeter(MOST)
    made.read(PREFACE)
    for number in range(streams):
        made.read(frame(HEADERS, b"h", stream=2 * number + 1))
    return made


def send(made: RequestMeter, content: bytes, size: int = 16_384, stream: int = 1) -> None:
    for place in range(0, len(content), size):
        made.read(frame(DATA, content[place : place + size], stream=stream))


BATCH = pa.record_batch({"body": [b"abc"]})
ROWS = field(1000, bytes(10_000))


@pytest.mark.parametrize("size", [1, 5, 7, 16_384])
def test_usual_messages_pass(size: int) -> None:
    made = meter()
    request = message(field(1, b"login") + field(2, b'{"type":"login"}') + b"\x18\x96\x01" + b"\x21" + bytes(8))
    rows = message(field(2, described(BATCH)) + field(3, b"") + ROWS + b"\x2d" + bytes(4))
    send(made, request + message(b"") + rows * 3, size)


def test_a_message_of_the_limit_passes_and_a_larger_one_does_not() -> None:
    made = meter()
    content = field(1000, bytes(MOST - 5))
    assert len(content) == MOST
    send(made, message(content))
    with pytest.raises(MessageRefusedError, match=r"has 20001 bytes, 20000 are allowed \(bulk_message_bytes_max\)"):
        send(made, (MOST + 1).to_bytes(5, "big"))


def test_a_request_of_the_limit_passes_and_a_larger_one_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_meter, "REQUEST_BYTES_MAX", 100)
    made = meter()
    send(made, message(field(1, b"x" * 100) + field(2, b"x" * 100) + ROWS))
    for number in (1, 2, 3, 999, 1001):
        with pytest.raises(MessageRefusedError, match=r"101 bytes, 100 are allowed \(request_bytes_max\)"):
            send(meter(), message(field(number, b"x" * 101)))
    assert REQUEST_BYTES_MAX == 4 * 1024 * 1024


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
@pytest.mark.parametrize("size", [1, 16_384])
def test_compressed_batches_are_refused(codec: str, size: int) -> None:
    header = described(BATCH, codec)
    with pytest.raises(MessageRefusedError, match="compressed record batches"):
        send(meter(), message(ROWS + field(2, described(BATCH)) + field(2, header)), size)
    assert is_compressed(header)
    assert not is_compressed(described(BATCH))


@pytest.mark.parametrize("above", [1 << 32, 1 << 40, 1 << 62])
def test_keys_and_lengths_with_bits_that_the_library_drops_are_refused(above: int) -> None:
    """A7: with such a key a compressed batch passed for another field, with such a length for the rows before it."""
    header = described(BATCH, "zstd")
    key = varint((HEADER_FIELD << 3 | 2) + above)
    rows = varint(ROWS_FIELD << 3 | 2) + varint(1 + above) + b"x"
    for content in (key + varint(len(header)) + header, rows + field(HEADER_FIELD, header)):
        with pytest.raises(MessageRefusedError, match="none of Protocol Buffers"):
            send(meter(), message(content))


def test_compressed_dictionaries_are_refused() -> None:
    coded = pa.record_batch({"body": pa.array(["a" * 1000, "b" * 1000]).dictionary_encode()})
    for codec, expected in ((None, False), ("zstd", True)):
        kinds = {kind: is_compressed(text) for kind, text in descriptions(coded, codec).items()}
        assert kinds == {"schema": False, "dictionary": expected, "record batch": expected}


@pytest.mark.parametrize(
    "header", [b"", b"\0", b"\xff" * 8, b'{"type":"login"}', bytes(40), b"\x04\0\0\0" + b"\xff" * 9]
)
def test_what_is_no_description_is_not_compressed(header: bytes) -> None:
    assert not is_compressed(header)
    assert is_compressed(header + b"ARROW:experimental_compression")


def test_messages_compressed_by_grpc_are_refused() -> None:
    with pytest.raises(MessageRefusedError, match="compressed by gRPC"):
        send(meter(), message(b"x", compressed=True))


@pytest.mark.parametrize("content", [b"\x0b", b"\x04", b"\x02", b"\xff" * 11])
def test_what_is_no_message_is_refused(content: bytes) -> None:
    with pytest.raises(MessageRefusedError, match="Protocol Buffers"):
        send(meter(), message(content))


def test_other_protocols_are_refused() -> None:
    with pytest.raises(MessageRefusedError, match="HTTP/2"):
        RequestMeter(MOST).read(b"AMQP\0\0\x09\x01")


def test_unfinished_messages_of_a_connection_are_bounded() -> None:
    made = meter(UNFINISHED_MESSAGES + 2)
    part = message(field(1000, bytes(MOST - 5)))[:-1]
    for number in range(UNFINISHED_MESSAGES):
        send(made, part, stream=2 * number + 1)
    made.ended(1)
    send(made, bytes(MOST), stream=1)  # of a call that has ended
    send(made, part, stream=2 * UNFINISHED_MESSAGES + 1)
    with pytest.raises(MessageRefusedError, match="bulk_unfinished_bytes_max"):
        send(made, part, stream=2 * UNFINISHED_MESSAGES + 3)


def test_what_is_in_hand_is_counted_until_its_call_ends() -> None:
    made = meter(2)
    large, small = message(field(1000, bytes(5000))), message(field(1000, bytes(500)))
    head = 5
    send(made, large[:-1])
    assert made.held == COPIES * (len(large) - head - 1)
    send(made, large[-1:])
    assert made.held == COPIES * (len(large) - head)
    send(made, small + small[:-100])  # the handler may still have the large one
    assert made.held == COPIES * (len(large) + len(small) - 2 * head - 100)
    send(made, small, stream=3)
    made.ended(1)
    assert made.held == COPIES * (len(small) - head)
    made.ended(3)
    made.ended(3)
    assert made.held == 0


def test_calls_of_a_connection_are_bounded() -> None:
    made = meter(STREAMS_MAX)
    made.read(frame(HEADERS, b"trailers", stream=1))
    with pytest.raises(MessageRefusedError, match=f"more than {STREAMS_MAX} calls"):
        made.read(frame(HEADERS, b"h", stream=2 * STREAMS_MAX + 1))
    made = meter(STREAMS_MAX)
    made.read(frame(RST_STREAM, bytes(4), stream=1))
    made.read(frame(HEADERS, b"h", stream=2 * STREAMS_MAX + 1))


@pytest.mark.parametrize("size", [1, 7, 16_384])
def test_calls_before_the_login_wait_beyond_the_bound(size: int) -> None:
    made = RequestMeter(MOST)
    first = PREFACE + b"".join(frame(HEADERS, b"h", stream=2 * number + 1) for number in range(STRANGER_STREAMS_MAX))
    more = frame(HEADERS, b"one too many", stream=2 * STRANGER_STREAMS_MAX + 1) + frame(DATA, b"d", stream=1)
    sent = first + more
    passed = 0
    for place in range(0, len(sent), size):
        piece = sent[place : place + size]
        allowed = made.read(piece)
        passed += allowed
        if allowed < len(piece) or passed >= len(first) + 9:
            break
    assert passed == len(first) + 9, "the head of a frame without its payload begins no call"


def test_a_strangers_call_counts_until_the_server_answers() -> None:
    made = meter(STRANGER_STREAMS_MAX)
    made.read(frame(RST_STREAM, bytes(4), stream=1))
    one = frame(HEADERS, b"h", stream=2 * STRANGER_STREAMS_MAX + 1)
    assert made.read(one) == 9, "a cancelled call still has its thread"
    made.answered(1)
    made.answered(3)
    two = frame(HEADERS, b"h", stream=2 * STRANGER_STREAMS_MAX + 3)
    assert made.read(two) == len(two)
    three = frame(HEADERS, b"h", stream=2 * STRANGER_STREAMS_MAX + 5)
    made.log_in()
    assert made.read(three) == len(three)


def test_calls_that_the_server_ends() -> None:
    response = ResponseMeter()
    sent = frame(HEADERS, b"h", stream=1) + frame(DATA, b"d", stream=1)
    assert response.read(sent) == []
    ends = frame(HEADERS, b"t", END_STREAM, 1) + frame(RST_STREAM, bytes(4), 0, 3) + frame(DATA, b"d", END_STREAM, 5)
    assert response.read(ends) == [1, 3, 5]
    assert response.between_frames
    assert response.started
