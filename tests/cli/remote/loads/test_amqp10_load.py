from __future__ import annotations

from typing import Any

import pytest

from annulet.cli.remote.failures import EXIT_NOT_ALLOWED, EXIT_REFUSED_BY_BROKER, Failure
from annulet.cli.remote.loads.amqp10_load import FRAME_MAX, Amqp10Load


def read_until(client: Amqp10Load, confirmed: int) -> None:
    while client.confirmed < confirmed:
        client.read(10)


def test_messages_are_confirmed_and_come_in_order(annulet: Any, remote_to: Any) -> None:
    annulet.done("queue", "create", "load10")
    sent = 0
    with Amqp10Load(remote_to()) as client:
        client.prepare("load10")
        while client.confirmed < 3000:
            upto = min(sent + client.room(500), 3000)
            if upto > sent:
                client.publish([b"%d" % number for number in range(sent, upto)], persistent=True)
                sent = upto
            client.read(10)
        client.close()
    bodies: list[bytes] = []
    with Amqp10Load(remote_to()) as consumer:
        consumer.consume("load10", 100)
        while len(bodies) < 3000:
            found = consumer.read(10)
            bodies += [body for _, body in found]
            if found:
                consumer.acknowledge(found[-1][0])
        consumer.close()
    assert bodies == [b"%d" % number for number in range(3000)]
    assert annulet.json("queue", "show", "load10")["messages"] == 0


def test_the_broker_says_what_is_wrong(remote_to: Any) -> None:
    with Amqp10Load(remote_to()) as client, pytest.raises(Failure, match="nnn") as caught:
        client.consume("n" * 300, 1)
    assert caught.value.exit_code == EXIT_REFUSED_BY_BROKER
    wrong = remote_to(ANNULET_PASSWORD="wrong")
    wrong.__dict__["listeners"] = remote_to().listeners
    with pytest.raises(Failure, match="login refused") as caught:
        Amqp10Load(wrong)
    assert caught.value.exit_code == EXIT_NOT_ALLOWED


def test_a_full_queue_refuses(annulet: Any, remote_to: Any) -> None:
    annulet.done("queue", "create", "full10", "-a", "x-max-length=1", "-a", "x-overflow=reject-publish")
    with Amqp10Load(remote_to()) as client:
        client.prepare("full10")
        while client.room(10) < 2:
            client.read(10)
        client.publish([b"a", b"b"], persistent=False)
        with pytest.raises(Failure, match="not accepted") as caught:
            read_until(client, 2)
    assert caught.value.exit_code == EXIT_REFUSED_BY_BROKER


def test_a_body_beyond_a_frame_is_refused(annulet: Any, remote_to: Any) -> None:
    annulet.done("queue", "create", "large10")
    with Amqp10Load(remote_to()) as client:
        client.prepare("large10")
        with pytest.raises(Failure, match="--size"):
            client.publish([bytes(FRAME_MAX)], persistent=False)
