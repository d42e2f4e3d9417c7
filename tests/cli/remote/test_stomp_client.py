from __future__ import annotations

from typing import Any

import pytest

from annulet.cli.remote.failures import EXIT_NOT_ALLOWED, EXIT_REFUSED_BY_BROKER, EXIT_UNREACHABLE, Failure
from annulet.cli.remote.stomp_client import StompClient, listener_of
from annulet.wire.stomp.frames import Frame, encode_frame


def test_a_listener_of_another_protocol_is_named_as_such(annulet: Any, remote_to: Any) -> None:
    remote = remote_to()
    (amqp,) = [one for one in remote.listeners if one["protocol"] == "amqp"]
    remote.__dict__["listeners"] = [{**amqp, "protocol": "stomp"}]
    with pytest.raises(Failure, match="does not speak STOMP") as caught:
        StompClient(remote)
    assert caught.value.exit_code == EXIT_UNREACHABLE


def test_the_broker_says_what_is_wrong(annulet: Any, remote_to: Any) -> None:
    remote = remote_to()
    with StompClient(remote) as client:
        client.subscribe("/amq/queue/nix", ack="client")
        with pytest.raises(Failure, match="nix") as caught:
            client.next_frame()
    assert caught.value.exit_code == EXIT_REFUSED_BY_BROKER
    listeners, wrong = remote.listeners, remote_to(ANNULET_PASSWORD="wrong")
    wrong.__dict__["listeners"] = listeners  # HTTP would refuse the login before
    with pytest.raises(Failure) as caught:
        StompClient(wrong)
    assert caught.value.exit_code == EXIT_NOT_ALLOWED


def test_a_broker_without_the_listener_is_named(annulet: Any, remote_to: Any) -> None:
    with pytest.raises(Failure, match="no listener for stomp/ssl"):
        listener_of(remote_to(), {"http": "stomp/ssl"})


def test_what_was_sent_is_done_at_the_end(annulet: Any, remote_to: Any) -> None:
    annulet.done("queue", "create", "sent")
    client = StompClient(remote_to())
    client.send("/amq/queue/sent", b"one", {"persistent": "true"})
    client.send_many([encode_frame(Frame("SEND", {"destination": "/amq/queue/sent"}, b"two"))])
    client.finish()
    assert annulet.json("queue", "show", "sent")["messages"] == 2
