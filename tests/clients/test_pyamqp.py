"""Azure's client pyamqp, a part of azure-eventhub and azure-servicebus: it reads the fields of frames by position."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from tests.clients.support import PATIENCE_SECONDS, Peer, Scene, bodies

BODIES = [b"one", b"x" * 300_000, b""]  # the second one takes more than one frame


def modules_of(package: str) -> SimpleNamespace:
    """Return the modules of the client in a package that has it."""
    names = ("authentication", "client", "constants", "error", "message")
    return SimpleNamespace(**{name: importlib.import_module(f"{package}._pyamqp.{name}") for name in names})


@pytest.fixture(params=["azure.eventhub", "azure.servicebus"])
def pyamqp(request: pytest.FixtureRequest) -> SimpleNamespace:
    """Return the modules of the client as one of the packages has it."""
    pytest.importorskip(request.param, reason=f"{request.param} is not installed")
    return modules_of(request.param)


@contextmanager
def opened(pyamqp: SimpleNamespace, peer: Peer, kind: str, address: str | None, **settings: Any) -> Iterator[Any]:
    """Open a client of a kind that logs in by SASL PLAIN, and close it; it traces what it receives."""
    client = getattr(pyamqp.client, kind)(
        f"{peer.host}:{peer.port}",
        address,
        auth=pyamqp.authentication.SASLPlainAuth("guest", "guest"),
        use_tls=False,
        network_trace=True,
        **settings,
    )
    try:
        client.open()
        yield client
    finally:
        client.close()


def send(pyamqp: SimpleNamespace, peer: Peer, address: str) -> None:
    """Send the messages from one that asks for receiver-settle-mode second, and wait for each to be settled."""
    modes = {
        "send_settle_mode": pyamqp.constants.SenderSettleMode.Unsettled,
        "receive_settle_mode": pyamqp.constants.ReceiverSettleMode.Second,
    }
    with opened(pyamqp, peer, "SendClient", address, **modes) as sender:
        for body in BODIES:
            sender.send_message(pyamqp.message.Message(data=[body]), timeout=PATIENCE_SECONDS)


def received(client: Any) -> list[tuple[Any, Any]]:
    """Return the first frame and the message of as many deliveries as were sent."""
    taken: list[tuple[Any, Any]] = []
    client._message_received = lambda frame, message: taken.append((frame, message))
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(taken) < len(BODIES):
        assert time.monotonic() < deadline, f"{len(taken)} deliveries came"
        client.do_work()
    return taken


@pytest.mark.parametrize("mode", ["First", "Second"])
def test_what_is_sent_is_settled_received_and_settled(pyamqp: SimpleNamespace, scene: Scene, mode: str) -> None:
    channel = scene.channel()
    name = scene.queue(channel)
    send(pyamqp, scene.peer, name)
    settings = {"receive_settle_mode": getattr(pyamqp.constants.ReceiverSettleMode, mode), "link_credit": 10}
    for outcome in ("released", "modified", "accepted"):
        with opened(pyamqp, scene.peer, "ReceiveClient", name, **settings) as client:
            deliveries = received(client)
            assert [b"".join(message.data) for _, message in deliveries] == BODIES
            for frame, _ in deliveries:
                client.settle_messages(frame[1], frame[2], outcome)
    assert bodies(channel, name) == []


@pytest.mark.parametrize("outcome", ["modified", "rejected", "accepted"])
def test_a_receiver_that_awaits_the_outcome_is_told(scene: Scene, outcome: str) -> None:
    pytest.importorskip("azure.servicebus", reason="azure.servicebus is not installed")
    pyamqp = modules_of("azure.servicebus")
    channel = scene.channel()
    name = scene.queue(channel)
    send(pyamqp, scene.peer, name)
    settings = {"receive_settle_mode": pyamqp.constants.ReceiverSettleMode.Second, "link_credit": 10}
    with opened(pyamqp, scene.peer, "ReceiveClient", name, **settings) as client:
        for frame, _ in received(client):
            client.settle_messages(frame[1], frame[2], outcome, await_outcome=True, outcome_timeout=PATIENCE_SECONDS)
    assert bodies(channel, name) == (BODIES if outcome == "modified" else [])


def test_an_error_is_read_with_its_text(pyamqp: SimpleNamespace, ours: Peer) -> None:
    message = pyamqp.message.Message(data=[b""], properties=pyamqp.message.Properties(to="$management"))
    with opened(pyamqp, ours, "SendClient", None) as sender, pytest.raises(pyamqp.error.MessageSendFailed) as rejected:
        sender.send_message(message, timeout=PATIENCE_SECONDS)
    with (
        opened(pyamqp, ours, "SendClient", "$management") as sender,
        pytest.raises(pyamqp.error.AMQPLinkError) as refused,
    ):
        sender.send_message(message, timeout=PATIENCE_SECONDS)
    for caught in (rejected, refused):
        assert "no management node '$management'" in str(caught.value)
