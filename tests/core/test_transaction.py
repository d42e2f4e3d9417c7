"""Sends and settlements that take effect together."""

from __future__ import annotations

import pytest

from annulet.core.session import UnknownDeliveryTag
from annulet.core.transaction import Transaction
from annulet.core.virtual_host import VirtualHost
from tests.core.helpers import NOW, RecordingEffects, RecordingSession, make_message, pending


@pytest.fixture
def host():
    host = VirtualHost("/", RecordingEffects())
    host.declare_queue("q", now=NOW, durable=True)
    return host


def test_commit_stores_and_settles_inside_one_bracket_and_names_the_unroutable(host):
    session = RecordingSession()
    session.consume(host.queues["q"], messages=1)
    host.publish(make_message("old", durable=True), host.route("", "q"), NOW)
    host.effects.calls.clear()
    transaction, lost = Transaction(session), make_message("lost")
    transaction.send(make_message("new", durable=True), host.route("", "q"))
    transaction.send(lost, host.route("", "nowhere"))
    transaction.acknowledge(1)
    assert not transaction.empty
    assert transaction.commit(host, NOW) == [lost]
    assert host.effects.calls == [("begin", None), ("store", b"new"), ("settle", b"old"), ("end", None)]
    assert transaction.empty
    assert session.received == ["old", "new"]


def test_rollback_gives_deliveries_back_in_order_of_their_tags(host):
    session = RecordingSession()
    session.consume(host.queues["q"])
    for body in "ABC":
        host.publish(make_message(body), host.route("", "q"), NOW)
    transaction = Transaction(session)
    transaction.reject(3, requeue=False)
    transaction.acknowledge(1)
    with pytest.raises(UnknownDeliveryTag):
        transaction.acknowledge(1)
    transaction.rollback()
    assert list(session.unacknowledged) == [1, 2, 3]
    session.close(NOW)
    assert pending(host.queues["q"]) == ["A", "B", "C"]
