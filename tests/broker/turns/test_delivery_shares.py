from __future__ import annotations

import pytest
from pamqp import commands, frame

from annulet.broker.broker import Broker
from annulet.broker.turns.delivery_shares import (
    DELIVERIES_TIMED,
    LEAST_SECONDS,
    NO_SHARE,
    SHARE_LEAST,
    TURN_DELIVERIES,
    TURN_SECONDS,
    DeliveryShares,
)
from annulet.core.base.settings import BROWSE_FOLLOW, BROWSE_OFF, ConsumerSettings
from annulet.core.model.consumer import Consumer
from annulet.core.sessions.session import Session
from tests.broker.amqp091.peer import Peer, publish, turns
from tests.broker.echo import EchoSession, connected
from tests.core.helpers import RecordingSession, queue_of


async def test_a_share_of_deliveries_is_enough_for_a_turn_however_small_they_are(broker: Broker) -> None:
    broker.shares.computed = lambda: 0.0  # they take no time, however busy the machine is
    connection, _ = connected(broker)
    session = EchoSession(connection.open())
    connection.channels[0] = session
    for _ in range(SHARE_LEAST - 1):
        connection.delivered()
    assert (session.writable, broker.shares.used_up) == (True, 0)
    connection.delivered()
    assert (session.writable, broker.shares.used_up) == (False, 1)
    connection.delivered()
    assert broker.shares.used_up == 1, "what is delivered beyond it all the same does not count again"
    await turns()
    assert session.woken == [True]
    assert connection._delivered == 0


@pytest.mark.parametrize("share", [TURN_DELIVERIES, TURN_DELIVERIES // 2])
@pytest.mark.parametrize(("part", "woken"), [(1.0, 1), (0.5, 0)])
async def test_deliveries_that_take_long_are_enough_for_a_turn_however_few_they_are(
    broker: Broker, share: int, part: float, woken: int
) -> None:
    """1000 of a deep sorted queue, each read from another place, held the event loop for up to 48 ms."""
    now = [0.0]
    broker.shares.computed = lambda: now[0]
    broker.shares.share = share
    seconds = part * TURN_SECONDS * share / TURN_DELIVERIES
    connection, _ = connected(broker)
    session = EchoSession(connection.open())
    connection.channels[0] = session
    connection.delivered()
    now[0] = seconds
    for _ in range(DELIVERIES_TIMED - 2):
        connection.delivered()
    assert session.writable, "the time is looked at now and then only"
    connection.delivered()
    assert (session.writable, broker.shares.used_up) == (not woken, woken)
    for _ in range(DELIVERIES_TIMED):
        connection.delivered()
    assert broker.shares.used_up == woken, "what is delivered beyond it all the same does not count again"
    await turns()
    assert session.woken == [True] * woken
    connection.delivered()
    assert session.writable, "the next turn has its own time"


@pytest.mark.parametrize(
    ("part", "took", "delivered"), [(1.0, 1.0, DELIVERIES_TIMED), (1.0, 0.9, SHARE_LEAST), (0.8, 1.0, SHARE_LEAST)]
)
async def test_a_turn_whose_time_is_up_leaves_few_deliveries_to_each_connection(
    broker: Broker, part: float, took: float, delivered: int
) -> None:
    """What others settled, and what was read before the first delivery, was in no connection's time."""
    now = [0.0]
    broker.shares.computed = lambda: now[0]
    connection, _ = connected(broker)
    session = EchoSession(connection.open())
    connection.channels[0] = session
    connection.mark_dirty()
    await turns(1)
    now[0] = part * TURN_SECONDS
    connection.delivered()
    now[0] += took * LEAST_SECONDS
    while session.writable:
        connection.delivered()
    assert connection._delivered == delivered
    await turns(1)
    while session.writable:
        connection.delivered()
    assert connection._delivered == TURN_DELIVERIES, "the next turn has its own time"


async def test_who_comes_first_by_priority_has_no_time_either(broker: Broker) -> None:
    class First(EchoSession):
        @property
        def outranks(self) -> bool:
            return True

    now = [0.0]
    broker.shares.computed = lambda: now[0]
    connection, _ = connected(broker)
    session = First(connection.open())
    connection.channels[0] = session
    for _ in range(2 * SHARE_LEAST):
        connection.delivered()
        now[0] += TURN_SECONDS
    assert (session.writable, broker.shares.used_up) == (True, 0)


async def test_connections_whose_turn_would_get_too_long_are_written_to_in_the_next_one(broker: Broker) -> None:
    """Four consumers beside a browser, served one after the other in one turn, held the event loop for 22 ms."""
    now = [0.0]
    broker.shares.computed = lambda: now[0]
    written: list[str] = []

    class Slow(EchoSession):
        def flush_answers(self) -> None:
            written.append(self.name)
            now[0] += 0.6 * TURN_SECONDS

    connections = [connected(broker)[0].open() for _ in range(3)]
    for name, connection in zip("abc", connections, strict=True):
        session = Slow(connection)
        session.name = name
        connection.delivered()
        connection.answer_later(session)
    await turns(1)
    assert (written, broker.shares.rounds_cut) == (["a", "b"], 1)
    connections[0].mark_dirty()
    await turns(1)
    assert written == ["a", "b", "c"]
    assert connections[0]._dirty, "who has more waits until everybody was written to"
    assert broker.shares.share == TURN_DELIVERIES // 3, "the turns in which all were written to count as one"
    await turns(1)
    assert not connections[0]._dirty
    assert broker.shares.rounds_cut == 1


async def test_who_ends_his_half_while_he_waits_to_be_written_to_loses_no_answer(broker: Broker) -> None:
    """asyncio closes the transport then, and what is written to it afterwards is dropped."""
    now = [0.0]
    broker.shares.computed = lambda: now[0]

    class Slow(EchoSession):
        def flush_answers(self) -> None:
            now[0] += TURN_SECONDS

    (slow, _), (echo, transport), (other, answers) = connected(broker), connected(broker), connected(broker)
    peer = Peer(broker)
    slow.answer_later(Slow(slow.open()))
    echo.data_received(b"asked")
    peer.receive(b"HTTP/1.1")  # is answered with the protocol header
    other.data_received(b"asked")
    await turns(1)
    assert (transport.written, peer.transport.written) == (b"", b""), "the turn is over"
    assert echo.eof_received() is peer.connection.eof_received() is False
    assert transport.written == b"asked"
    assert peer.transport.written.startswith(b"AMQP")
    transport.abort()
    await turns()
    assert answers.written == b"asked", "nobody else has lost his place"


async def test_what_is_delivered_long_after_the_last_turn_of_writing_is_not_cut_by_it(
    broker: Broker,
) -> None:
    """What computed meanwhile, as scans and paging do, has used the time of a turn that is long over."""
    now = [0.0]
    broker.shares.computed = lambda: now[0]
    peer = await Peer(broker).open(1)
    await peer.send(1, commands.Queue.Declare(queue="q"), commands.Basic.Qos(prefetch_count=SHARE_LEAST))
    await peer.send(1, publish(1, "q", b"") * (2 * SHARE_LEAST))
    await peer.send(1, commands.Basic.Consume(queue="q"))
    queue = broker.hosts["/"].queues["q"]
    assert queue.order.count == SHARE_LEAST
    now[0] += 10 * TURN_SECONDS
    peer.receive(frame.marshal(commands.Basic.Ack(0, multiple=True), 1))
    assert queue.order.count == 0


async def test_connections_share_a_turn_by_how_many_got_deliveries_in_the_one_before(broker: Broker) -> None:
    connections = [connected(broker)[0].open() for _ in range(2)]
    for connection in connections:
        connection.delivered()
    broker.flush()
    assert broker.shares.share == TURN_DELIVERIES // 2
    connections[0].mark_dirty()
    connections[1].delivered()
    broker.flush()
    assert broker.shares.share == TURN_DELIVERIES, "who got nothing does not count"
    broker.flush()
    assert broker.shares.share == SHARE_LEAST


def test_a_share_is_never_less_than_what_is_worth_a_write() -> None:
    shares = DeliveryShares()
    shares.served = 100
    shares.round_ended()
    assert (shares.share, shares.served) == (SHARE_LEAST, 0)


@pytest.mark.parametrize(("browse", "share"), [([], 400), ([BROWSE_FOLLOW], 200), ([BROWSE_FOLLOW, BROWSE_OFF], 400)])
def test_who_only_browses_gets_part_of_a_share(browse: list[str], share: int) -> None:
    shares = DeliveryShares()
    shares.share = 400
    session = Session("s")
    queue = queue_of()
    for number, browses in enumerate(browse):
        settings = ConsumerSettings(browse=browses)
        session.consumers[str(number)] = Consumer(session, queue, str(number), settings=settings)
    assert shares.after(1, [session]) == share
    assert (shares.used_up, shares.used_up_by_browsers) == (0, 0)
    assert shares.after(share, [session]) == share
    assert (shares.used_up, shares.used_up_by_browsers) == (1, int(share == 200))


@pytest.mark.parametrize(("priority", "share"), [(0, 400), (1, NO_SHARE)])
def test_a_share_that_does_not_bind_who_comes_first_by_priority_is_not_used_up(priority: int, share: int) -> None:
    shares, queue = DeliveryShares(), queue_of()
    first, other = RecordingSession("first"), RecordingSession("other")
    first.consume(queue, priority=priority)
    other.consume(queue)
    assert shares.after(400, [first]) == share
    assert shares.used_up == (share == 400)
