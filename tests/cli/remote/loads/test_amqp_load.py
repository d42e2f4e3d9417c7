from __future__ import annotations

from typing import Any

import pytest

from annulet.cli.remote.failures import EXIT_NOT_ALLOWED, EXIT_REFUSED_BY_BROKER, Failure
from annulet.cli.remote.loads.amqp_load import AmqpLoad, short


def test_messages_are_confirmed_and_come_in_order(annulet: Any, remote_to: Any) -> None:
    annulet.done("queue", "create", "load")
    client = AmqpLoad(remote_to())
    client.prepare("load")
    client.publish([b"%d" % number for number in range(300)], persistent=True)
    while client.confirmed < 300:
        client.read(10)
    client.close()
    consumer = AmqpLoad(remote_to())
    consumer.consume("load", 500)  # the first messages come together with the answer
    bodies: list[bytes] = []
    while len(bodies) < 300:
        found = consumer.read(10)
        bodies += [body for _, body in found]
        if found:
            consumer.acknowledge(found[-1][0])
    consumer.close()
    assert bodies == [b"%d" % number for number in range(300)]
    assert annulet.json("queue", "show", "load")["messages"] == 0


def test_the_broker_says_what_is_wrong(remote_to: Any) -> None:
    with AmqpLoad(remote_to()) as client, pytest.raises(Failure, match="nix") as caught:
        client.consume("nix", 1)
    assert caught.value.exit_code == EXIT_REFUSED_BY_BROKER
    wrong = remote_to(ANNULET_PASSWORD="wrong")
    wrong.__dict__["listeners"] = remote_to().listeners
    with pytest.raises(Failure) as caught:
        AmqpLoad(wrong)
    assert caught.value.exit_code == EXIT_NOT_ALLOWED


def test_names_are_bounded() -> None:
    assert short("ü") == b"\x02\xc3\xbc"
    with pytest.raises(Failure, match="255"):
        short("x" * 256)
