from __future__ import annotations

import pytest

from annulet.broker.broker import Broker
from annulet.broker.durability.blocked import BlockedTarget
from annulet.core.base.errors import ResourceLocked
from annulet.core.model.consumer import Consumer
from tests.broker.amqp10.peer import queue_of
from tests.broker.connections.test_sending import session_on
from tests.broker.echo import EchoSession, connected


async def test_a_blocking_queue_holds_its_publisher_until_there_is_room(broker: Broker) -> None:
    queue = queue_of(broker, "small", {"x-max-length": 1, "x-overflow": "block"})
    session = session_on(broker)
    session.put("small")
    assert session.holding == []
    session.put("small")
    assert session.holding == ["held"]
    session.put("small")  # what is on its way is taken
    assert session.holding == ["held"]
    assert [target.name for target in session.held_by] == ["queue 'small'"]
    queue.purge(session.connection.now)
    assert (session.holding, session.held_by) == (["held", "resumed"], {})


async def test_a_session_that_ends_is_not_told_to_go_on(broker: Broker) -> None:
    queue = queue_of(broker, "small", {"x-max-length": 1, "x-overflow": "block"})
    session = session_on(broker)
    session.put("small")
    session.put("small")
    (target,) = session.held_by
    session.close(session.connection.now)
    assert target.publishers == {}
    queue.purge(session.connection.now)
    assert session.holding == ["held"]


async def test_the_connection_is_told_of_the_first_that_holds_and_of_the_last(broker: Broker) -> None:
    connection, _ = connected(broker)
    session = EchoSession(connection.open())
    connection.channels[0] = session
    first, second = BlockedTarget("queue 'a'"), BlockedTarget("address 'b'")
    session.hold([first, second, first])
    connection.flush()
    session.released(first)
    connection.flush()
    assert (connection.told, list(session.held_by)) == (["queue 'a', address 'b' full"], [second])
    session.released(second)
    connection.flush()
    assert connection.told[1:] == [""]


async def test_a_session_that_ends_no_longer_blocks_its_connection(broker: Broker) -> None:
    connection, _ = connected(broker)
    session = EchoSession(connection.open())
    connection.channels[0] = session
    target = BlockedTarget("queue 'a'")
    session.hold([target])
    connection.flush()
    session.close(connection.now)
    connection.flush()
    assert (connection.told, target.publishers) == (["queue 'a' full", ""], {})


async def test_the_exclusive_queue_of_another_connection_is_locked_for_consumers(broker: Broker) -> None:
    session = session_on(broker)
    for owner, locked in ((object(), True), (session.connection, False)):
        queue = broker.hosts["/"].declare_queue(f"private-{locked}", now=0, owner=owner)
        consumer = Consumer(session, queue, f"tag-{locked}")
        if locked:
            with pytest.raises(ResourceLocked, match="'private-True'"):
                session.attach(consumer, 0)
        else:
            session.attach(consumer, 0)
        assert (queue.users, consumer.tag in session.consumers) == (not locked, not locked)
