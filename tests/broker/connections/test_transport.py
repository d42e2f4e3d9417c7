from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from annulet import testing
from annulet.broker.broker import Broker
from annulet.broker.connections.transport import (
    ANSWER_BYTES_MAX,
    CLOSE_GRACE_SECONDS,
    OUTPUT_BYTES_MAX,
    UNREAD_LIMIT,
    WRITE_BYTES,
)
from annulet.broker.durability.blocked import BlockedTarget
from annulet.broker.network.large_writes import PIECE_BYTES
from annulet.broker.paging.look_turns import Scanning
from annulet.broker.settings.limits import Limits
from annulet.core.base.settings import BROWSE_FOLLOW, BROWSE_OFF, ConsumerSettings
from annulet.core.model.consumer import Consumer
from tests.broker.amqp091.peer import turns
from tests.broker.conftest import leave
from tests.broker.echo import EchoSession, connected
from tests.broker.timers import Timers
from tests.core.helpers import queue_of

# ---------------------------------------------------------------------- coming in


async def test_a_connection_has_a_name_and_is_known_while_it_lasts(broker: Broker) -> None:
    connection, transport = connected(broker)
    assert connection.name == "127.0.0.1:50000 -> 127.0.0.1:5672"
    assert broker.connections == {connection}
    connection.open()
    assert (connection.user_name, connection.publisher) == ("guest", "guest@127.0.0.1:50000")
    transport.abort()
    await turns()
    assert broker.connections == set()
    assert (connection.engine.lost, connection.endings, connection.lost) == (1, 1, True)


async def test_connections_of_a_user_are_counted_and_given_back() -> None:
    async with testing.broker(http=False, limits=Limits(max_connections_per_user=1)) as running:
        first, transport = connected(running.broker)
        first.open()
        second, _ = connected(running.broker)
        assert "max_connections_per_user" in second.log_in("guest")
        transport.abort()
        await turns()
        assert second.log_in("guest") == ""
        leave(running.broker)


async def test_who_may_not_come_in_is_told_when_he_logs_in(monkeypatch: pytest.MonkeyPatch) -> None:
    async with testing.broker(http=False, limits=Limits(max_connections=1)) as running:
        timers = Timers(running.broker, monkeypatch)
        connected(running.broker)
        second, transport = connected(running.broker)
        assert second.refusal
        assert not transport.closing
        assert second.log_in("guest") == second.refusal
        timers.fire(second)
        assert second.transport is not None
        assert second.transport.is_closing()
        assert running.broker.admission.handshakes_timed_out == 0, "it is counted as refused"
        leave(running.broker)


async def test_a_handshake_that_takes_too_long_is_cut_and_an_open_connection_is_not(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers = Timers(broker, monkeypatch)
    slow, transport = connected(broker)
    timers.fire(slow)
    assert (transport.closing, broker.admission.handshakes_timed_out) == (True, 1)
    opened, transport = connected(broker)
    timers.fire(opened.open())
    assert (transport.closing, broker.admission.handshakes_timed_out) == (False, 1)


# ---------------------------------------------------------------------- input and output


async def test_output_of_a_turn_leaves_in_one_write(broker: Broker) -> None:
    connection, transport = connected(broker)
    writes: list[bytes] = []
    transport.write = writes.append  # type: ignore[method-assign]
    for piece in (b"a", b"b", b"c"):
        connection.data_received(piece)
    assert writes == []
    await turns()
    assert writes == [b"abc"]
    assert (connection.bytes_received, connection.bytes_sent) == (3, 3)


async def test_answers_are_given_before_the_write_once_a_turn(broker: Broker) -> None:
    connection, _ = connected(broker)
    session = EchoSession(connection.open())
    for _ in range(3):
        connection.answer_later(session)
    assert session.flushed == 0
    await turns()
    assert session.flushed == 1


async def test_a_defect_ends_one_connection_and_is_logged(broker: Broker) -> None:
    (crashing, crashed), (other, transport) = connected(broker), connected(broker)
    with capture_logs() as events:
        crashing.data_received(b"crash")
    other.data_received(b"fine")
    await turns()
    assert (crashed.closing, transport.closing, transport.written) == (True, False, b"fine")
    assert broker.connections == {other}
    (event,) = [event for event in events if event["log_level"] == "error"]
    assert (event["peer"], event["protocol"]) == (crashing.name, "echo")
    assert "exc_info" not in event, "a stranger causes as many as it likes"
    assert event["error"].startswith("ZeroDivisionError")


async def test_what_is_written_last_is_written_before_the_socket_closes(broker: Broker) -> None:
    connection, transport = connected(broker)
    connection.data_received(b"quit")
    await turns()
    assert transport.written == b"quit"
    assert transport.closing


async def test_nothing_is_written_to_a_lost_socket(broker: Broker) -> None:
    connection, transport = connected(broker)
    transport.abort()
    await turns()
    connection.engine.output.append(b"late")
    connection.flush()
    assert transport.written == b""
    assert connection.engine.output_size == 0


async def test_what_a_lost_connection_held_is_given_back_whatever_its_engine_does(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def defect() -> None:
        raise ZeroDivisionError

    connection, _ = connected(broker)
    monkeypatch.setattr(connection.engine, "connection_lost", defect)
    with pytest.raises(ZeroDivisionError):
        connection.connection_lost(None)
    assert (connection.endings, broker.connections) == (1, set())


async def test_an_end_of_input_closes_soon_even_when_the_peer_reads_nothing(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers = Timers(broker, monkeypatch)
    connection, transport = connected(broker)
    assert connection.eof_received() is False
    assert timers.fire(connection) == CLOSE_GRACE_SECONDS
    assert transport.closing
    connection.stop_timer()
    assert timers.waiting == []


# ---------------------------------------------------------------------- holding back


async def test_enough_output_stops_deliveries_for_the_turn(broker: Broker) -> None:
    connection, _ = connected(broker)
    session = EchoSession(connection.open())
    connection.channels[0] = session
    connection.engine.output.append(b"x" * (OUTPUT_BYTES_MAX - 1))
    connection.delivered()
    assert session.writable
    connection.engine.output.append(b"x")
    connection.delivered()
    assert not session.writable
    await turns()
    assert session.writable
    assert session.woken == [True]


async def test_many_deliveries_are_written_before_the_turn_ends_and_count_all_the_same(broker: Broker) -> None:
    connection, transport = connected(broker)
    session = EchoSession(connection.open())
    connection.channels[0] = session
    writes: list[bytes] = []
    transport.write = writes.append  # type: ignore[method-assign]
    pieces = [bytes([number]) * (WRITE_BYTES // 4) for number in range(OUTPUT_BYTES_MAX // (WRITE_BYTES // 4))]
    for number, piece in enumerate(pieces):
        assert session.writable, number
        connection.engine.output.append(piece)
        connection.delivered()
    assert not session.writable, "what was written counts"
    assert list(map(len, writes)) == [WRITE_BYTES] * (OUTPUT_BYTES_MAX // WRITE_BYTES - 1)
    await turns()
    assert b"".join(writes) == b"".join(pieces)
    assert (session.writable, session.woken, connection.bytes_sent) == (True, [True], OUTPUT_BYTES_MAX)
    connection.engine.output.append(pieces[0])
    connection.delivered()
    assert session.writable, "another turn has begun"


async def test_deliveries_to_a_lost_socket_are_written_nowhere(broker: Broker) -> None:
    connection, transport = connected(broker)
    connection.open()
    transport.abort()
    await turns()
    writes: list[bytes] = []
    transport.write = writes.append  # type: ignore[method-assign]
    connection.engine.output.append(bytes(WRITE_BYTES))
    connection.delivered()
    await turns()
    assert (writes, connection.bytes_sent) == ([], 0)


async def test_a_full_socket_stops_deliveries_until_it_has_room(broker: Broker) -> None:
    connection, _ = connected(broker)
    session = EchoSession(connection.open())
    connection.channels[0] = session
    connection.pause_writing()
    connection.data_received(b"x")
    await turns()
    assert not session.writable
    connection.resume_writing()
    assert (session.writable, session.woken) == (True, [True])


async def test_sessions_are_woken_in_turn(broker: Broker) -> None:
    connection, _ = connected(broker)
    connection.open()
    order: list[int] = []

    class Numbered(EchoSession):
        def wake(self, now: int) -> None:
            order.append(list(connection.channels.values()).index(self))

    for number in range(3):
        connection.channels[number] = Numbered(connection)
    for _ in range(3):
        connection.pause_writing()
        connection.resume_writing()
    assert order == [1, 2, 0, 2, 0, 1, 0, 1, 2]


async def test_who_reads_no_answers_is_not_read(broker: Broker) -> None:
    connection, transport = connected(broker)
    transport.buffered = 3 * ANSWER_BYTES_MAX  # one large delivery
    connection.open().pause_writing()
    transport.buffered += ANSWER_BYTES_MAX
    connection.flush()
    assert transport.reading
    transport.buffered += 1
    connection.flush()
    assert not transport.reading
    assert connection.reading_paused
    assert connection.engine.limit_hits == {UNREAD_LIMIT: 1}
    transport.buffered = 0
    connection.flush()
    assert transport.reading


async def test_all_of_a_large_delivery_waits_and_not_its_first_piece(broker: Broker) -> None:
    connection, transport = connected(broker)
    connection.open()

    def write(data: bytes) -> None:
        transport.buffered += len(data)
        if not connection.engine.limit_hits and transport.buffered == len(data):
            connection.pause_writing()  # asyncio tells it with the first piece

    transport.write = write  # type: ignore[method-assign]
    connection.engine.output += [bytes(PIECE_BYTES)] * 5
    connection.flush()
    assert transport.buffered == 5 * PIECE_BYTES
    assert transport.reading
    transport.buffered += ANSWER_BYTES_MAX + 1
    connection.flush()
    assert not transport.reading


@pytest.mark.parametrize(("publishes", "opened", "reading"), [(True, True, False), (False, True, True)])
async def test_publishers_are_not_read_during_the_memory_alarm(
    broker: Broker, publishes: bool, opened: bool, reading: bool
) -> None:
    connection, transport = connected(broker)
    connection.open().publishes = publishes
    broker.memory_blocked = True
    connection.flush()
    assert transport.reading is reading
    broker.memory_blocked = False
    connection.flush()
    assert transport.reading
    assert connection.told == ([] if reading else ["low on memory", ""])


@pytest.mark.parametrize(
    ("credit", "consumes", "reading"), [(False, False, False), (False, True, True), (True, False, True)]
)
async def test_a_publisher_into_a_full_queue_is_not_read_unless_credit_stops_it(
    broker: Broker, credit: bool, consumes: bool, reading: bool
) -> None:
    connection, transport = connected(broker)
    session = EchoSession(connection.open())
    connection.channels[0] = session
    connection.obeys_flow = credit
    target = BlockedTarget("queue 'q'")
    session.hold([target])
    if consumes:
        session.consumers = {"c": Consumer(session, queue_of(), "c")}
    connection.flush()
    assert transport.reading is reading
    assert connection.told == ([] if credit else ["queue 'q' full"])
    session.released(target)
    session.consumers = {}
    connection.flush()
    assert transport.reading
    assert connection.told == ([] if credit else ["queue 'q' full", ""])


async def test_what_browsers_are_sent_is_charged_to_the_scans_while_these_serve_browsers(
    disk_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = disk_broker
    assert broker.pager is not None
    connections = {browse: connected(broker)[0].open() for browse in (BROWSE_FOLLOW, BROWSE_OFF)}
    for browse, connection in connections.items():
        session = EchoSession(connection)
        session.consumers["c"] = Consumer(session, queue_of(), "c", settings=ConsumerSettings(browse=browse))
        connection.channels[0] = session
    scanning, charged = broker.pager.scanning, []
    monkeypatch.setattr(scanning, "charge", charged.append)
    for browsing, browse, times in (
        (False, BROWSE_FOLLOW, 0),
        (True, BROWSE_OFF, 0),
        (True, BROWSE_FOLLOW, 1),
    ):
        monkeypatch.setattr(Scanning, "browsing", browsing)
        connections[browse].delivered()
        broker.flush()
        assert len(charged) == times
    assert charged[0] > 0
