from __future__ import annotations

from collections.abc import Sequence

import pytest
from pamqp import commands, frame, header

from annulet.wire.amqp091.types.constants import MAX_ROUTE_CACHE_ENTRIES
from annulet.wire.amqp091.types.errors import ChannelError, ConnectionFault
from tests.wire.amqp091.recorder import feed_variants, frame_of, frames, opened, publish

CLOSE = frame.marshal(commands.Channel.Close(200, "bye", 0, 0), 1)
CLOSE_OK = frame.marshal(commands.Channel.CloseOk(), 1)
OPEN = frame.marshal(commands.Channel.Open(), 1)


def test_open_close_and_open_again() -> None:
    engine, handler = opened(channels=0)
    engine.receive((OPEN + CLOSE) * 2)
    assert [method.name for _, method in frames(engine)] == ["Channel.OpenOk", "Channel.CloseOk"] * 2
    assert handler.calls == [("open_channel", 1), ("close_channel", 1)] * 2


@pytest.mark.parametrize("numbers", [range(1, 11), [65_535, 2048, 1, 2, 3, 4, 5, 6, 7, 11]], ids=["low", "any"])
def test_channel_max_bounds_how_many_are_open_whatever_their_numbers(numbers: Sequence[int]) -> None:
    engine, handler = opened(channels=0, channel_max=10)
    for number in numbers:
        engine.receive(frame.marshal(commands.Channel.Open(), number))
    assert handler.named("open_channel") == [(number,) for number in numbers]
    engine.receive(frame.marshal(commands.Channel.Close(200, "bye", 0, 0), numbers[0]))
    engine.receive(frame.marshal(commands.Channel.Open(), 10_000))
    assert (engine.running, engine.limit_hits) == (True, {})
    frames(engine)
    engine.receive(frame.marshal(commands.Channel.Open(), 10_001))
    assert engine.limit_hits == {"channel_max": 1}
    ((_, close),) = frames(engine)
    text = "NOT_ALLOWED - number of channels opened (10) has reached the negotiated channel_max (10)"
    assert (close.reply_code, close.reply_text) == (530, text)


def test_a_channel_that_closes_counts_until_close_ok() -> None:
    engine, _ = opened(channel_max=1)
    engine.channel_table.close_channel_with_error(1, 406, "no", 0, 0)
    engine.receive(frame.marshal(commands.Channel.CloseOk(), 1) + frame.marshal(commands.Channel.Open(), 2))
    assert engine.running
    engine.channel_table.close_channel_with_error(2, 406, "no", 0, 0)
    engine.receive(frame.marshal(commands.Channel.Open(), 3))
    assert not engine.running


def test_a_failed_channel_discards_everything_until_close_ok() -> None:
    engine, handler = opened()
    handler.failures["queue_declare"] = ChannelError(406, "inequivalent arg 'durable'")
    declare = frame.marshal(commands.Queue.Declare(queue="q"), 1)
    engine.receive(declare + publish(b"lost") + declare + frame_of(3, 1, b"stray") + frame_of(1, 1, b"\0\x63\0\1"))
    ((channel, close),) = frames(engine)
    assert (channel, close.reply_code, close.class_id, close.method_id) == (1, 406, 50, 10)
    assert [call[0] for call in handler.calls] == ["queue_declare", "close_channel"]
    engine.output.send_confirm(1, 1, multiple=False)
    assert engine.take_output() == []
    engine.receive(CLOSE)  # crossing closes: answered, and ours is still open
    assert [method.name for _, method in frames(engine)] == ["Channel.CloseOk"]
    engine.receive(CLOSE_OK + OPEN)
    assert [method.name for _, method in frames(engine)] == ["Channel.OpenOk"]
    assert len(handler.named("close_channel")) == 1


def test_an_error_in_the_middle_of_content_discards_the_rest() -> None:
    engine, handler = opened(max_message_size=100)
    engine.receive(publish(b"x" * 101, room=40) + publish(b"y"))
    ((_, close),) = frames(engine)
    assert (close.name, close.reply_code, close.class_id, close.method_id) == ("Channel.Close", 406, 60, 40)
    assert "message size 101 is larger than configured max size 100" in close.reply_text
    assert handler.calls == [("close_channel", 1)]


@pytest.mark.parametrize(("size", "accepted"), [(99, True), (100, True), (101, False)])
@pytest.mark.parametrize("warm", [False, True])
def test_message_size_at_its_bound(size: int, accepted: bool, warm: bool) -> None:
    engine, handler = opened(max_message_size=100)
    engine.receive(publish(b"warm") if warm else b"")
    handler.calls.clear()
    engine.receive(publish(b"x" * size))
    assert [call[0] for call in handler.calls] == (["publish"] if accepted else ["close_channel"])
    assert engine.limit_hits == ({} if accepted else {"max_message_size": 1})


def test_a_channel_the_handler_refuses_was_never_open() -> None:
    engine, handler = opened(channels=0)
    handler.failures["open_channel"] = ChannelError(403, "no more channels")
    engine.receive(OPEN)
    assert [method.name for _, method in frames(engine)] == ["Channel.Close"]
    handler.failures["open_channel"] = ConnectionFault(530, "no more channels")
    engine.receive(CLOSE_OK + OPEN)
    assert [method.name for _, method in frames(engine)] == ["Connection.Close"]
    assert handler.named("close_channel") == []


def test_content_interleaves_between_channels() -> None:
    engine, handler = opened(channels=2)
    one = feed_frames(publish(b"a" * 10, channel=1, room=3))
    two = feed_frames(publish(b"b" * 10, channel=2, room=4))
    while one or two:
        for pieces in (one, two):
            if pieces:
                engine.receive(pieces.pop(0))
    assert [call[0] for call in handler.named("publish")] == [2, 1]
    assert {call[-1] for call in handler.named("publish")} == {b"a" * 10, b"b" * 10}


def feed_frames(data: bytes) -> list[bytes]:
    pieces = []
    while data:
        size = int.from_bytes(data[3:7], "big") + 8
        pieces.append(data[:size])
        data = data[size:]
    return pieces


@pytest.mark.parametrize("size", [0, 1, 7, 4088, 4089, 8176, 8177, 50_000])
def test_bodies_of_every_number_of_frames(size: int) -> None:
    body = bytes(position % 251 for position in range(size))
    engine, handler = opened(frame_max=4096)
    for _ in range(2):
        engine.receive(publish(body, room=4088))
    assert [call[-1] for call in handler.named("publish")] == [body, body]
    engine, handler = opened()
    data = publish(body[:5000], room=1) + frame_of(8, 0, b"")
    for pieces in feed_variants(data).values():
        for piece in pieces:
            engine.receive(piece)
    assert [call[-1] for call in handler.named("publish")] == [body[:5000]] * 3


def test_empty_body_frames_add_nothing() -> None:
    engine, handler = opened()
    start = frame.marshal(commands.Basic.Publish(), 1) + frame.marshal(header.ContentHeader(0, 2), 1)
    engine.receive(start + frame_of(3, 1, b"") * 3000)
    assert engine.output.channels[1].fragments == []
    engine.receive(frame_of(3, 1, b"ab"))
    assert handler.named("publish")[0][-1] == b"ab"


OUT_OF_ORDER = [
    ([2], 505),
    ([3], 505),
    ([1, 1], 505),
    ([1, 3], 505),
    ([1, 2, 1], 505),
    ([1, 2, 2], 505),
    ([1, 2, 3, 3], 501),
    ([1, 9], 505),
    ([1, 10], 505),
    ([1, 11], 502),
]
PARTS = {
    1: frame.marshal(commands.Basic.Publish(), 1),
    2: frame.marshal(header.ContentHeader(0, 4), 1),
    3: frame_of(3, 1, b"abc"),
    9: frame_of(2, 1, b"\x00\x32" + b"\0" * 12),
    10: frame_of(2, 1, b"\x00\x3c\x00\x01" + b"\0" * 10),
    11: frame_of(2, 1, b"\x00\x3c\x00\x00" + b"\0" * 9),
}


@pytest.mark.parametrize(("sequence", "code"), OUT_OF_ORDER)
def test_content_out_of_order(sequence: list[int], code: int) -> None:
    engine, handler = opened()
    engine.receive(b"".join(PARTS[part] for part in sequence))
    assert [method.reply_code for _, method in frames(engine)] == [code]
    assert handler.named("publish") == []
    assert handler.named("close_channel") == [(1,)]


@pytest.mark.parametrize(("limit", "accepted"), [(7, False), (8, True), (9, True)])
def test_unfinished_bodies_of_all_channels_are_bounded(limit: int, accepted: bool) -> None:
    engine, handler = opened(channels=2, max_assembling_bytes=limit)
    for channel in (1, 2):
        engine.receive(publish(b"abcde", channel=channel)[:-13])  # without its body frame
        engine.receive(frame_of(3, channel, b"abcd"))
    assert engine.running is accepted
    if accepted:
        engine.channel_table.close_channel_with_error(1, 404, "gone", 60, 40)
        engine.receive(CLOSE_OK + OPEN + publish(b"abcd", channel=1))
        assert len(handler.named("publish")) == 1
        assert engine.running  # what the closed channel had collected no longer counts
    else:
        assert [method.reply_code for _, method in frames(engine)] == [506]
        assert engine.limit_hits == {"max_assembling_bytes": 1}


def test_the_route_cache_is_bounded_and_right() -> None:
    engine, handler = opened()
    for number in range(MAX_ROUTE_CACHE_ENTRIES + 5):
        engine.receive(publish(b"x", key=f"key{number}") * 2)
    assert len(engine.channel_table.routes) == 5
    assert [call[2] for call in handler.named("publish")][-2:] == [f"key{MAX_ROUTE_CACHE_ENTRIES + 4}"] * 2


def test_a_name_that_is_not_text_is_a_syntax_error() -> None:
    engine, _ = opened()
    engine.receive(frame_of(1, 1, b"\x00\x3c\x00\x28\x00\x00\x01\xff\x00\x00"))
    assert [method.reply_code for _, method in frames(engine)] == [502]


def test_flow_recover_and_access_are_answered_here() -> None:
    engine, handler = opened()
    engine.receive(frame.marshal(commands.Channel.Flow(False), 1))
    ((_, flow_ok),) = frames(engine)
    assert (flow_ok.name, flow_ok.active) == ("Channel.FlowOk", False)
    engine.receive(frame.marshal(commands.Basic.Recover(True), 1))
    engine.receive(frame_of(1, 1, b"\x00\x3c\x00\x64\x01"))  # recover-async has no answer
    assert [method.name for _, method in frames(engine)] == ["Basic.RecoverOk"]
    engine.receive(frame_of(1, 1, b"\x00\x1e\x00\x0a\x05/data\x1f"))
    assert b"".join(engine.take_output()) == frame_of(1, 1, b"\x00\x1e\x00\x0b\x00\x01")
    assert handler.calls == [("channel_flow", 1, False), ("recover", 1, True), ("recover", 1, True)]


def test_a_method_is_announced_and_its_end_too_whatever_comes_of_it() -> None:
    engine, handler = opened()
    handler.answers_due.clear()
    handler.actions["qos"] = lambda: handler.answers_due.append(None)  # type: ignore[arg-type]
    engine.receive(frame.marshal(commands.Basic.Qos(prefetch_count=1), 1))
    handler.failures["qos"] = ChannelError(406, "no")
    engine.receive(frame.marshal(commands.Basic.Qos(prefetch_count=1), 1))
    assert handler.answers_due == [True, None, False, True, False]


def test_recover_ok_comes_before_the_return_of_deliveries() -> None:
    engine, handler = opened()
    handler.actions["recover"] = lambda: engine.replies.send_qos_ok(1)
    engine.receive(frame.marshal(commands.Basic.Recover(True), 1))
    assert [method.name for _, method in frames(engine)] == ["Basic.RecoverOk", "Basic.QosOk"]


def test_closing_a_channel_from_our_side() -> None:
    engine, handler = opened()
    engine.channel_table.close_channel_with_error(1, 404, "gone", 60, 20)
    engine.channel_table.close_channel_with_error(1, 404, "gone", 60, 20)
    engine.channel_table.close_channel_with_error(7, 404, "gone", 60, 20)
    ((_, close),) = frames(engine)
    assert (close.reply_code, close.reply_text, close.class_id, close.method_id) == (404, "NOT_FOUND - gone", 60, 20)
    assert handler.calls == [("close_channel", 1)]
