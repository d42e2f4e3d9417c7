from __future__ import annotations

import pytest

from annulet.broker.broker import Broker
from annulet.broker.connections.sending import (
    DESTINATIONS_MAX,
    REMEMBERED_CHARACTERS_MAX,
    TARGET_BYTES,
    Destination,
    DiskFull,
    SendingCommit,
    SendingSession,
)
from annulet.core.base.errors import AccessRefused, LimitExceeded, NotFound, ResourceLocked
from annulet.core.host.transaction import Transaction
from annulet.core.message.message import Message
from annulet.store.files.errors import StoreError
from annulet.wire.amqp10.messages.message import split_incoming
from annulet.wire.amqp10.messages.view import VIEW
from tests.broker.amqp091.peer import turns
from tests.broker.amqp10.peer import message, permit, queue_of
from tests.broker.echo import EchoConnection, connected

PAYLOAD = message(b"x" * 100)


class Session(SendingSession):
    """Notes its answers."""

    def __init__(self, connection: EchoConnection) -> None:
        super().__init__("session", connection, VIEW)
        self.accepted: list[list[int]] = []
        self.failed: list[tuple[list[int], str]] = []
        self.holding: list[str] = []

    def sends_accepted(self, answers: list[int]) -> None:
        self.accepted.append(answers)

    def sends_failed(self, answers: list[int], text: str) -> None:
        self.failed.append((answers, text))

    def publishing_held(self) -> None:
        self.holding.append("held")

    def publishing_resumed(self) -> None:
        self.holding.append("resumed")

    def put(self, name: str, *, durable: bool = False, payload: bytes = PAYLOAD, **options: object) -> int:
        destination = self.destination(name)
        return self.send(self.taken(destination, payload, durable=durable), destination, **options)  # type: ignore[arg-type]

    def taken(self, destination: Destination, payload: bytes = PAYLOAD, *, durable: bool) -> Message:
        came, now = split_incoming(payload), self.connection.now
        return Message(came.header, came.body, destination.origin, durable=durable, accepted_at=now)


def full_disk(*_: object) -> None:
    raise StoreError("no space left")


def session_on(broker: Broker) -> Session:
    connection, _ = connected(broker)
    session = Session(connection.open())
    connection.channels[0] = session
    return session


def count(broker: Broker, name: str = "q") -> int:
    return broker.hosts["/"].queues[name].order.count


# ---------------------------------------------------------------------- names


async def test_a_destination_is_found_once_and_again_when_the_topology_changes(broker: Broker) -> None:
    queue_of(broker, "q")
    session = session_on(broker)
    first = session.destination("q")
    assert session.destination("q") is first
    assert (first.origin.exchange, first.origin.routing_key) == ("", "q")
    assert first.origin.publisher == "guest@127.0.0.1:50000"
    assert first.room == TARGET_BYTES
    queue_of(broker, "other")
    assert session.destination("q") is not first


async def test_an_exchange_without_a_key_takes_that_of_each_message(broker: Broker) -> None:
    queue = queue_of(broker, "q")
    broker.hosts["/"].bind_queue(queue, "amq.topic", "a.*", {})
    session = session_on(broker)
    assert session.destination("amq.topic").key_from_message
    assert session.destination("amq.topic", "", "a.b").origin.routing_key == "a.b"
    assert not session.destination("/exchanges/amq.topic/a.b").key_from_message
    assert not session.destination("q").key_from_message


async def test_destinations_are_bounded(broker: Broker) -> None:
    queue_of(broker, "q")
    session = session_on(broker)
    for number in range(DESTINATIONS_MAX):
        session.destination("amq.topic", "", f"k{number}")
    assert session.names_remembered == DESTINATIONS_MAX
    session.destination("q")
    assert session.names_remembered == 1


async def test_long_destinations_are_not_remembered(broker: Broker) -> None:
    session = session_on(broker)
    name = "/exchanges/amq.topic/".ljust(REMEMBERED_CHARACTERS_MAX, "k")
    for given in (name, f"{name}k"):
        assert session.destination(given).origin.routing_key == given.removeprefix("/exchanges/amq.topic/")
    assert session.names_remembered == 1


async def test_making_what_is_not_there_takes_permission_and_looking_does_not(broker: Broker) -> None:
    queue_of(broker, "q")
    permit(broker, configure="^mine$")
    session = session_on(broker)
    assert session.resolve("q").queue is not None
    with pytest.raises(AccessRefused, match="configure access to 'theirs'"):
        session.resolve("theirs")
    with pytest.raises(NotFound):
        session.resolve("mine", create=False)
    assert session.resolve("mine").created


async def test_writing_takes_permission_for_the_exchange(broker: Broker) -> None:
    queue_of(broker, "q")
    permit(broker, write="^other$")
    session = session_on(broker)
    with pytest.raises(AccessRefused, match=r"write access to 'amq\.default' in vhost '/' refused for user 'guest'"):
        session.destination("q")


async def test_replies_reach_a_queue_that_only_its_owner_may_consume_from(broker: Broker) -> None:
    owner, session = session_on(broker), session_on(broker)
    now = session.connection.now
    queue = broker.hosts["/"].declare_queue("replies", now=now, owner=owner.connection)
    with pytest.raises(ResourceLocked):
        session.resolve("replies")
    assert session.put("replies") == 1
    assert queue.order.count == 1


# ---------------------------------------------------------------------- sending


async def test_a_message_goes_to_its_queues_and_the_rest_is_counted(broker: Broker) -> None:
    queue_of(broker, "q")
    session = session_on(broker)
    assert session.put("q") == 1
    assert count(broker) == 1
    assert session.put("/exchanges/amq.direct/nowhere") == 0
    assert broker.unroutable == 1
    assert (session.messages_published, session.connection.publishes) == (2, True)


async def test_a_full_disk_refuses_what_is_durable_only(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    queue_of(broker, "q")
    session = session_on(broker)
    asked: list[int] = []

    def full(size: int, now: int) -> bool:
        asked.append(size)
        return False

    monkeypatch.setattr(broker, "accepts_durable", full)
    with pytest.raises(DiskFull, match="disk of the message log is full; free space"):
        session.put("q", durable=True)
    came = split_incoming(PAYLOAD)
    assert asked == [len(came.header) + len(came.body) + TARGET_BYTES]
    assert session.put("q") == 1
    assert (broker.refused_publishes, count(broker)) == (1, 1)


async def test_a_store_that_fails_meanwhile_is_a_full_disk(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    queue_of(broker, "q")
    session = session_on(broker)
    destination = session.destination("q")
    monkeypatch.setattr(broker.log, "append", full_disk)
    with pytest.raises(DiskFull, match="no space left"):
        session.send(session.taken(destination, durable=True), destination)
    assert broker.refused_publishes == 1


async def test_a_queue_that_refuses_says_so(broker: Broker) -> None:
    queue_of(broker, "small", {"x-max-length": 1, "x-overflow": "reject-publish"})
    session = session_on(broker)
    session.put("small")
    with pytest.raises(LimitExceeded, match="small"):
        session.put("small")


# ---------------------------------------------------------------------- transactions


async def test_a_transaction_collects_until_its_commit(broker: Broker) -> None:
    queue_of(broker, "q")
    session = session_on(broker)
    transaction = Transaction(session)
    assert session.put("q", transaction=transaction) == 1
    assert session.put("/exchanges/amq.direct/nowhere", transaction=transaction) == 1
    assert count(broker) == 0
    session.commit(transaction, SendingCommit(session))
    assert (count(broker), broker.unroutable) == (1, 1)


async def test_a_transaction_the_disk_has_no_room_for_is_rolled_back(
    disk_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue_of(disk_broker, "q")
    session = session_on(disk_broker)
    transaction = Transaction(session)
    session.put("q", durable=True, transaction=transaction)
    monkeypatch.setattr(disk_broker, "accepts_durable", lambda size, now: False)
    with pytest.raises(DiskFull, match="transaction of"):
        session.commit(transaction, SendingCommit(session))
    assert count(disk_broker) == 0


async def test_a_store_that_fails_at_the_commit_is_told_too(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    queue_of(broker, "q")
    session = session_on(broker)
    transaction = Transaction(session)
    session.put("q", durable=True, transaction=transaction)
    monkeypatch.setattr(broker.log, "commit", full_disk)
    with pytest.raises(DiskFull, match="not durable: no space left"):
        session.commit(transaction, SendingCommit(session))


async def test_a_transaction_that_fills_a_blocking_queue_holds_its_publisher(broker: Broker) -> None:
    queue_of(broker, "small", {"x-max-length": 1, "x-overflow": "block"})
    session = session_on(broker)
    transaction = Transaction(session)
    for _ in range(2):
        session.put("small", transaction=transaction)
    assert session.holding == []
    session.commit(transaction, SendingCommit(session))
    assert session.holding == ["held"]


# ---------------------------------------------------------------------- answers


async def test_answers_without_the_disk_come_after_the_turn_together(broker: Broker) -> None:
    session = session_on(broker)
    for number in range(3):
        session.answer_when_durable(number, stored=False)
    assert session.accepted == []
    await turns()
    assert session.accepted == [[0, 1, 2]]


async def test_answers_of_a_window_come_when_it_is_durable(broker: Broker) -> None:
    session = session_on(broker)
    pipeline = broker.commit
    window = pipeline.window
    session.answer_when_durable(1, stored=True)
    session.answer_when_durable(2, stored=True)
    session.window_committed(window - 1)
    assert session.accepted == []
    session.window_committed(window)
    session.window_committed(window)
    assert session.accepted == [[1, 2]]


async def test_answers_of_a_failed_window_say_so(broker: Broker) -> None:
    session = session_on(broker)
    session.answer_when_durable(1, stored=True)
    session.window_failed(broker.commit.window)
    ((answers, text),) = session.failed
    assert answers == [1]
    assert "disk" in text
    assert session.accepted == []


async def test_a_closed_session_answers_nothing(broker: Broker) -> None:
    session = session_on(broker)
    session.answer_when_durable(1, stored=False)
    session.answer_when_durable(2, stored=True)
    session.close(session.connection.now)
    session.close(session.connection.now)
    await turns()
    session.window_committed(broker.commit.window)
    assert (session.accepted, session.failed) == ([], [])
