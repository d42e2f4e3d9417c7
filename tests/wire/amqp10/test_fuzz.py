"""Mutations of valid AMQP 1.0 octets: only declared errors, positions that advance, what was read can be written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from annulet.wire.amqp10.frames.frames import (
    AMQP_HEADER,
    FRAME_AMQP,
    FRAME_SASL,
    HEARTBEAT_FRAME,
    encode_frame,
    next_frame,
)
from annulet.wire.amqp10.frames.performatives import decode_performative, encode_performative
from annulet.wire.amqp10.frames.trace import describe_frame
from annulet.wire.amqp10.messages.sections import (
    Section,
    decode_header,
    decode_properties,
    encode_properties,
    encode_section,
    find_in_map,
    split_message,
)
from annulet.wire.amqp10.types.errors import ConnectionFault, DecodeError
from annulet.wire.amqp10.types.values import decode_value, encode_value, skip_value
from tests.wire.amqp10.samples import COMPOSITES, MESSAGE
from tests.wire.fuzzing import SOAK_INPUTS, TEST_INPUTS, fuzz

MAX_FRAME_SIZE = 4096
FRAMES = [
    encode_frame(FRAME_SASL if body[2] >= 0x40 else FRAME_AMQP, 1, body + payload)
    for body, payload in zip(map(encode_performative, COMPOSITES), [MESSAGE, b""] * len(COMPOSITES), strict=False)
]
MESSAGES = [
    MESSAGE,
    encode_section(0x76, [1, "a", None]) + encode_section(0x76, []),
    encode_section(0x74, {"a": [1.5, True]}) + encode_section(0x77, {"b": {"c": b"d"}}),
]


def frames_target(data: bytes) -> None:
    position = 0
    while True:
        try:
            frame = next_frame(data, position, len(data), MAX_FRAME_SIZE)
            if frame is None:
                return
            assert position < frame.start <= frame.end <= len(data)
            position = frame.end
            if frame.start == frame.end:
                continue
            performative, stop = decode_performative(data, frame.start, frame.end)
        except ConnectionFault as error:
            assert error.condition in {"amqp:decode-error", "amqp:connection:framing-error"}  # noqa: PT017
            assert len(error.description) < 1000  # noqa: PT017 - the text goes into a frame of its own
            return
        assert frame.start < stop <= frame.end
        written = encode_performative(performative)
        again, end = decode_performative(written, 0, len(written))
        assert end == len(written)
        assert encode_performative(again) == written
        assert describe_frame(frame.kind, frame.channel, performative, frame.end - stop, data[stop:]).isprintable()


def contents(sections_of: bytes) -> list[Section]:
    sections = split_message(sections_of)
    single = (
        sections.header, sections.delivery_annotations, sections.message_annotations, sections.properties,
        sections.application_properties, *sections.body, sections.footer,
    )  # fmt: skip
    return [section for section in single if section is not None]


def messages_target(data: bytes) -> None:
    try:
        found = contents(data)
    except DecodeError:
        return
    assert sum(section.end - section.start for section in found) == len(data)
    for section in found:
        try:
            if section.code == 0x70:
                decode_header(data, section.content, section.end)
            elif section.code == 0x73:
                properties = decode_properties(data, section.content, section.end)
                assert (
                    decode_properties(encode_properties(properties), 3, len(encode_properties(properties)))
                    == properties
                )
            elif section.code == 0x74:
                find_in_map(data, section.content, section.end, b"ratio")
            value, stop = decode_value(data, section.content, section.end)
        except DecodeError:
            continue
        assert stop == section.end
        assert encode_value(decode_value(encode_value(value), 0, len(encode_value(value)))[0]) == encode_value(value)


def values_target(data: bytes) -> None:
    position = 0
    while position < len(data):
        try:
            value, stop = decode_value(data, position, len(data))
        except DecodeError:
            return
        assert position < stop <= len(data)
        assert skip_value(data, position, len(data)) == stop
        assert encode_value(decode_value(encode_value(value), 0, len(encode_value(value)))[0]) == encode_value(value)
        position = stop


TARGETS: dict[str, tuple[Callable[[bytes], None], list[bytes]]] = {
    "frames": (frames_target, [*FRAMES, b"".join(FRAMES[:3]), HEARTBEAT_FRAME + FRAMES[0], AMQP_HEADER]),
    "messages": (messages_target, MESSAGES),
    "values": (values_target, [message[3:] for message in MESSAGES] + [frame[11:] for frame in FRAMES]),
}


@pytest.mark.parametrize("name", TARGETS)
def test_a_thousand_mutations(name: str) -> None:
    target, corpus = TARGETS[name]
    for data in corpus:
        target(data)
    fuzz(target, corpus, TEST_INPUTS)


@pytest.mark.soak
@pytest.mark.parametrize("name", TARGETS)
def test_very_many_mutations(name: str) -> None:
    target, corpus = TARGETS[name]
    fuzz(target, corpus, SOAK_INPUTS)
