from __future__ import annotations

from typing import Any

import pytest
from pamqp import commands, frame

from annulet.wire.amqp091.connection.dispatch import DISPATCHERS
from annulet.wire.amqp091.connection.methods import METHODS
from tests.wire.amqp091.recorder import opened

CALLS: list[tuple[Any, tuple[Any, ...]]] = [
    (
        commands.Exchange.Declare(exchange="e", exchange_type="topic", durable=True, internal=True, arguments={"a": 1}),
        ("exchange_declare", 1, "e", "topic", False, True, False, True, False, {"a": 1}),
    ),
    (commands.Exchange.Delete(exchange="e", if_unused=True), ("exchange_delete", 1, "e", True, False)),
    (
        commands.Exchange.Bind(destination="d", source="s", routing_key="k", nowait=True),
        ("exchange_bind", 1, "d", "s", "k", True, {}),
    ),
    (
        commands.Exchange.Unbind(destination="d", source="s", routing_key="k", arguments={"x": "y"}),
        ("exchange_unbind", 1, "d", "s", "k", False, {"x": "y"}),
    ),
    (
        commands.Queue.Declare(queue="q", passive=True, exclusive=True, nowait=True),
        ("queue_declare", 1, "q", True, False, True, False, True, {}),
    ),
    (
        commands.Queue.Declare(queue="q", durable=True, auto_delete=True, arguments={"n": 1}),
        ("queue_declare", 1, "q", False, True, False, True, False, {"n": 1}),
    ),
    (
        commands.Queue.Bind(queue="q", exchange="e", routing_key="k", nowait=True),
        ("queue_bind", 1, "q", "e", "k", True, {}),
    ),
    (commands.Queue.Unbind(queue="q", exchange="e", routing_key="k"), ("queue_unbind", 1, "q", "e", "k", {})),
    (commands.Queue.Purge(queue="q", nowait=True), ("queue_purge", 1, "q", True)),
    (commands.Queue.Delete(queue="q", if_empty=True), ("queue_delete", 1, "q", False, True, False)),
    (commands.Basic.Qos(prefetch_size=5, prefetch_count=7, global_=True), ("qos", 1, 5, 7, True)),
    (
        commands.Basic.Consume(queue="q", consumer_tag="t", no_ack=True, arguments={"x-priority": 3}),
        ("consume", 1, "q", "t", False, True, False, False, {"x-priority": 3}),
    ),
    (
        commands.Basic.Consume(queue="q", no_local=True, exclusive=True, nowait=True),
        ("consume", 1, "q", "", True, False, True, True, {}),
    ),
    (commands.Basic.Cancel(consumer_tag="t", nowait=True), ("cancel", 1, "t", True)),
    (commands.Basic.Get(queue="q", no_ack=True), ("get", 1, "q", True)),
    (commands.Basic.Ack(5, multiple=True), ("acknowledge", 1, 5, True)),
    (commands.Basic.Reject(5, requeue=False), ("reject", 1, 5, False)),
    (commands.Basic.Nack(5, multiple=True, requeue=False), ("negative_acknowledge", 1, 5, True, False)),
    (commands.Basic.Recover(requeue=True), ("recover", 1, True)),
    (commands.Confirm.Select(nowait=True), ("confirm_select", 1, True)),
    (commands.Tx.Select(), ("tx_select", 1)),
    (commands.Tx.Commit(), ("tx_commit", 1)),
    (commands.Tx.Rollback(), ("tx_rollback", 1)),
]


@pytest.mark.parametrize(("method", "call"), CALLS, ids=lambda value: getattr(value, "name", ""))
def test_every_method_reaches_its_handler(method: Any, call: tuple[Any, ...]) -> None:
    engine, handler = opened()
    engine.receive(frame.marshal(method, 1))
    assert handler.calls == [call]


def test_cancel_ok_of_a_client_is_accepted() -> None:
    engine, handler = opened()
    engine.receive(frame.marshal(commands.Basic.CancelOk("t"), 1))
    assert (engine.running, handler.calls) == (True, [])


def test_every_client_method_of_a_channel_is_served_somewhere() -> None:
    elsewhere = {"channel.open", "channel.flow", "channel.close", "channel.close-ok", "access.request", "basic.publish"}
    for identifier, specification in METHODS.items():
        if "C" in specification.senders and identifier >> 16 != 10:
            served = identifier in DISPATCHERS or specification.name in elsewhere
            assert served, specification.name
