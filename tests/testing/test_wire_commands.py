from __future__ import annotations

import pytest
from pamqp import body, commands, frame, header

from annulet.testing.wire_commands import IN, KNOWN, OUT, Command, Splitter
from annulet.wire.amqp091.connection.methods import METHODS

PUBLISH = b"".join(
    [
        frame.marshal(commands.Basic.Publish(0, "", "q"), 1),
        frame.marshal(header.ContentHeader(0, 5, commands.Basic.Properties()), 1),
        frame.marshal(body.ContentBody(b"ab"), 1),
        frame.marshal(body.ContentBody(b"cde"), 1),
    ]
)
EMPTY = frame.marshal(commands.Basic.Publish(0, "", "q"), 2) + frame.marshal(
    header.ContentHeader(0, 0, commands.Basic.Properties()), 2
)
ACK = frame.marshal(commands.Basic.Ack(1), 1)
HEARTBEAT = b"\x08\0\0\0\0\0\0\xce"

OPEN_1_0 = bytes.fromhex("0000000d 02000000 00 53 10 45 00".replace(" ", ""))
TRANSFER_1_0 = bytes.fromhex("00000014 02000000 00 80 0000000000000014 45 00".replace(" ", ""))
EMPTY_1_0 = bytes.fromhex("0000000802000000")

SEND = b"SEND\ndestination:/queue/q\ncontent-length:3\n\na\0b\0"
STOMP_ACK = b"ACK\r\nid:1\r\n\r\n\0"


def cut(protocol: str, octets: bytes, size: int) -> list[Command]:
    splitter = Splitter(IN, protocol)
    found = []
    for at in range(0, len(octets), size):
        found += splitter.feed(octets[at : at + size])
    return found


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(
    ("protocol", "octets", "names"),
    [
        ("AMQP 0-9-1", b"AMQP\0\0\x09\x01" + PUBLISH + ACK + HEARTBEAT + EMPTY,
         ["protocol-header", "basic.publish", "basic.ack", "heartbeat", "basic.publish"]),
        ("AMQP 1.0", b"AMQP\0\x01\0\0" + OPEN_1_0 + EMPTY_1_0 + TRANSFER_1_0,
         ["protocol-header", "open", "heartbeat", "transfer"]),
        ("STOMP 1.2", SEND + b"\n" + STOMP_ACK, ["SEND", "heartbeat", "ACK"]),
    ],
    ids=["0-9-1", "1.0", "stomp"],
)  # fmt: skip
def test_octets_are_cut_into_commands_however_they_come(
    protocol: str, octets: bytes, names: list[str], size: int
) -> None:
    found = cut(protocol, octets, size)
    assert [one.name for one in found] == names
    assert b"".join(one.octets for one in found) == octets


def test_contents_of_several_channels_may_mix() -> None:
    parts = PUBLISH[: len(frame.marshal(commands.Basic.Publish(0, "", "q"), 1))]
    found = cut("AMQP 0-9-1", parts + EMPTY + PUBLISH[len(parts) :], 1000)
    assert [one.octets for one in found] == [EMPTY, PUBLISH]


def test_an_incomplete_command_waits() -> None:
    assert cut("AMQP 0-9-1", PUBLISH[:-1], 1000) == []
    assert cut("AMQP 1.0", OPEN_1_0[:-1], 1000) == []
    assert cut("STOMP 1.2", SEND[:-1], 1000) == []


def test_names_are_those_of_protocols_and_of_all() -> None:
    assert Command(IN, "basic.ack", b"").named("ack")
    assert Command(OUT, "basic.ack", b"").named("confirm")
    assert not Command(OUT, "basic.ack", b"").named("ack")
    assert Command(IN, "basic.ack", b"").named("basic.ack")
    assert {"publish", "queue.declare", "attach", "SUBSCRIBE"} <= KNOWN
    assert {method.name for method in METHODS.values()} <= KNOWN
