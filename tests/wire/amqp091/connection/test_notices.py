from __future__ import annotations

import pytest

from annulet.wire.amqp091.connection.notices import Notices, reason_text
from annulet.wire.amqp091.connection.output import Channel, FrameWriter


def notices(*capabilities: str, running: bool = True) -> tuple[Notices, FrameWriter]:
    output = FrameWriter()
    output.running = running
    output.channels[1] = Channel(1)
    sender = Notices(output)
    sender.capabilities = dict.fromkeys(capabilities, True)
    return sender, output


def send_all(sender: Notices) -> None:
    sender.send_blocked("memory")
    sender.send_unblocked()
    sender.send_cancel(1, "c")


@pytest.mark.parametrize(
    ("capabilities", "sent"),
    [((), 0), (("connection.blocked",), 2), (("consumer_cancel_notify",), 1), (("basic.nack",), 0)],
)
def test_a_notice_goes_to_clients_that_understand_it(capabilities: tuple[str, ...], sent: int) -> None:
    sender, output = notices(*capabilities)
    send_all(sender)
    assert len(output.take()) == sent


def test_a_connection_that_closes_is_not_blocked() -> None:
    sender, output = notices("connection.blocked", running=False)
    sender.send_blocked("memory")
    sender.send_unblocked()
    assert output.take() == []


def test_a_reason_fits_a_short_string() -> None:
    assert len(reason_text("x" * 300).encode()) <= 255
