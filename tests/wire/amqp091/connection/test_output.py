from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands, header

from annulet.wire.amqp091.connection.engine import encode_destination, encode_short_string
from annulet.wire.amqp091.connection.output import COPY_BODY_BYTES, FRAGMENTS_PER_PART, Channel
from annulet.wire.amqp091.types.errors import LocalProtocolError
from tests.wire.amqp091.recorder import frames, frames_of, opened

HEADER = commands.Basic.Properties(delivery_mode=2, correlation_id="c").marshal()


def content(found: list[tuple[int, object]]) -> tuple[bytes, object]:
    """Return the joined body and the content header; checks the sizes."""
    start = found[1][1]
    assert isinstance(start, header.ContentHeader)
    body = b"".join(part.value for _, part in found[2:])  # type: ignore[attr-defined]
    assert start.body_size == len(body)
    return body, start


@pytest.mark.parametrize("size", [0, 1, COPY_BODY_BYTES - 1, COPY_BODY_BYTES, COPY_BODY_BYTES + 1, 4088, 4089, 9000])
@pytest.mark.parametrize("channel", [1, 40_000])
def test_deliveries_as_the_oracle_reads_them(size: int, channel: int) -> None:
    engine, _ = opened(frame_max=4096, channel_max=65535)
    engine.output.channels[channel] = Channel(channel)
    body = bytes(position % 251 for position in range(size))
    engine.output.send_deliver(
        channel, encode_short_string("tag"), 2**40, redelivered=True, destination=encode_destination("e", "k"),
        header=HEADER, body=body,
    )  # fmt: skip
    pending = engine.output_size
    buffers = engine.take_output()
    assert (pending, engine.output_size) == (sum(map(len, buffers)), 0)
    assert any(buffer is body for buffer in buffers) is (COPY_BODY_BYTES < size <= 4088)
    found = frames_of(b"".join(buffers))
    assert {number for number, _ in found} == {channel}
    method = found[0][1]
    assert (method.name, method.consumer_tag, method.delivery_tag) == ("Basic.Deliver", "tag", 2**40)
    assert (method.redelivered, method.exchange, method.routing_key) == (True, "e", "k")
    read, start = content(found)
    assert read == body
    assert start.properties.correlation_id == "c"  # type: ignore[attr-defined]
    assert all(len(part.value) <= 4088 for _, part in found[2:])


@given(st.binary(max_size=600), st.integers(1, 2**63 - 1), st.booleans(), st.text("abc.", max_size=20))
def test_get_ok_and_return(body: bytes, tag: int, redelivered: bool, key: str) -> None:
    engine, _ = opened()
    engine.output.send_get_ok(1, tag, redelivered, encode_destination("e", key), 5, HEADER, body)
    found = frames(engine)
    method = found[0][1]
    assert (method.name, method.delivery_tag, method.redelivered) == ("Basic.GetOk", tag, redelivered)
    assert (method.exchange, method.routing_key, method.message_count) == ("e", key, 5)
    assert content(found)[0] == body
    engine.output.send_return(1, 312, "NO_ROUTE", "e", key, HEADER, body)
    found = frames(engine)
    method = found[0][1]
    assert (method.name, method.reply_code, method.reply_text) == ("Basic.Return", 312, "NO_ROUTE")
    assert (method.exchange, method.routing_key, content(found)[0]) == ("e", key, body)


def test_confirms_and_refusals() -> None:
    engine, _ = opened()
    engine.output.send_confirm(1, 7, multiple=True)
    engine.output.send_refusal(1, 8, multiple=False)
    (_, ack), (_, nack) = frames(engine)
    assert (ack.name, ack.delivery_tag, ack.multiple) == ("Basic.Ack", 7, True)
    assert (nack.name, nack.delivery_tag, nack.multiple, nack.requeue) == ("Basic.Nack", 8, False, False)


def test_cancel_goes_only_to_those_who_understand() -> None:
    engine, _ = opened()
    engine.notices.send_cancel(1, "tag")
    ((_, cancel),) = frames(engine)
    assert (cancel.name, cancel.consumer_tag) == ("Basic.Cancel", "tag")
    engine.notices.capabilities = {}
    engine.notices.send_cancel(1, "tag")
    assert engine.take_output() == []


def test_sending_on_a_channel_nobody_opened_is_our_own_error() -> None:
    engine, _ = opened()
    for send in (
        lambda: engine.output.send_confirm(2, 1, multiple=False),
        lambda: engine.output.send_deliver(2, b"\0", 1, False, b"\0\0", b"\0\0", b""),
        lambda: engine.output.send_get_ok(2, 1, False, b"\0\0", 0, b"\0\0", b""),
        lambda: engine.output.send_return(2, 312, "NO_ROUTE", "", "", b"\0\0", b""),
        lambda: engine.replies.send_qos_ok(2),
    ):
        with pytest.raises(LocalProtocolError, match="channel 2 is not open"):
            send()
    engine.connection_lost()
    engine.output.send_confirm(2, 1, multiple=False)
    engine.output.send_deliver(1, b"\0", 1, False, b"\0\0", b"\0\0", b"x")
    assert engine.take_output() == []


def test_tiny_fragments_are_joined_on_the_way() -> None:
    channel = Channel(1)
    for _ in range(FRAGMENTS_PER_PART * 2 + 1):
        channel.add_fragment(b"ab")
    assert (len(channel.parts), len(channel.fragments)) == (2, 1)
    assert channel.take_body() == b"ab" * (FRAGMENTS_PER_PART * 2 + 1)
    assert (channel.parts, channel.fragments, channel.arrived) == ([], [], 0)
