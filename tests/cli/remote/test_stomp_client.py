from __future__ import annotations

from typing import Any

import pytest

from annulet.cli.remote.failures import EXIT_NOT_ALLOWED, EXIT_REFUSED_BY_BROKER, Failure
from annulet.cli.remote.stomp_client import Frame, StompClient, frame_of, listener_of, take_frame


def test_a_frame_is_read_as_it_was_written_whatever_the_cuts() -> None:
    headers = {"a:b": "c\\d\n\r", "content-length": "3"}
    octets = frame_of("SEND", headers, b"x\0y") + b"\n" + frame_of("MESSAGE", {"n": "1"}, b"text")
    for cut in range(1, len(octets)):
        read = bytearray(octets[:cut])
        found = list(iter(lambda read=read: take_frame(read), None))
        read += octets[cut:]
        found += list(iter(lambda read=read: take_frame(read), None))
        assert found == [Frame("SEND", headers, b"x\0y"), Frame("MESSAGE", {"n": "1"}, b"text")]


def test_login_is_not_escaped() -> None:
    assert frame_of("CONNECT", {"passcode": "a:b"}, b"", escaped=False) == b"CONNECT\npasscode:a:b\n\n\0"


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
    client.send_many([frame_of("SEND", {"destination": "/amq/queue/sent"}, b"two")])
    client.finish()
    assert annulet.json("queue", "show", "sent")["messages"] == 2
