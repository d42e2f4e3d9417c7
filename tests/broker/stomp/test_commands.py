from __future__ import annotations

import pytest

from annulet.broker.broker import Broker
from annulet.broker.stomp import commands
from annulet.core.base.removal_reasons import RemovalReason
from annulet.testing.clock import VirtualClock
from tests.broker.stomp.peer import Peer

QUEUE = "/queue/q"


async def consume(broker: Broker, mode: str = "client-individual", **headers: str) -> Peer:
    peer = await Peer(broker).open()
    return await peer.request("SUBSCRIBE", id="s", destination=QUEUE, ack=mode, **headers)


async def test_send_and_receive_with_any_octets(broker: Broker) -> None:
    peer = await consume(broker)
    await peer.send("SEND", {"destination": QUEUE, "a:b": "c\nd\\e", "content-type": "x/y"}, b"\0\n\xff")
    (message,) = await peer.messages(1)
    assert message.body == b"\0\n\xff"
    identifier = message.headers.pop("message-id")
    assert message.headers == {
        "subscription": "s",
        "ack": identifier,
        "content-length": "3",
        "destination": QUEUE,
        "a:b": "c\nd\\e",
        "content-type": "x/y",
    }


async def test_a_receipt_for_a_persistent_message_waits_for_the_disk(disk_broker: Broker) -> None:
    peer = await Peer(disk_broker).open()
    await peer.send("SEND", destination=QUEUE, persistent="true", receipt="1")
    assert (await peer.next("RECEIPT")).headers["receipt-id"] == "1"
    (entry,) = disk_broker.hosts["/"].queues["q"].order.entries()
    assert entry.message.record > 0


async def test_receipts_keep_their_order_whatever_needs_the_disk(disk_broker: Broker) -> None:
    peer = await Peer(disk_broker).open()
    for number in range(6):
        await peer.send("SEND", destination=QUEUE, persistent=str(number % 2 == 0).lower(), receipt=str(number))
    found = []
    while len(found) < 6:
        found += peer.take()
        await peer.settle()
    assert [frame.headers["receipt-id"] for frame in found] == list("012345")


async def test_disconnect_waits_for_what_was_sent_before(disk_broker: Broker) -> None:
    peer = await Peer(disk_broker).open()
    await peer.send("SEND", destination=QUEUE, persistent="true", receipt="1")
    await peer.send("DISCONNECT", receipt="2")
    found = []
    while len(found) < 2:
        found += peer.take()
        await peer.settle()
    assert [frame.headers["receipt-id"] for frame in found] == ["1", "2"]


async def test_auto_takes_the_message_away_at_once(broker: Broker) -> None:
    peer = await consume(broker, "auto")
    await peer.send("SEND", destination=QUEUE)
    (message,) = await peer.messages(1)
    assert "ack" not in message.headers
    peer.lose()
    await peer.settle()
    queue = broker.hosts["/"].queues.get("q")  # made automatically, it goes when it is empty and unused
    assert queue is None or queue.order.count == 0


async def test_client_mode_acknowledges_everything_up_to_the_message(broker: Broker) -> None:
    peer = await consume(broker, "client")
    for _ in range(3):
        await peer.send("SEND", destination=QUEUE)
    first, second, third = await peer.messages(3)
    await peer.request("ACK", id=second.headers["ack"])
    session = peer.connection.session
    assert session is not None
    assert list(session.unacknowledged) == [3]
    await peer.send("ACK", id=first.headers["ack"])
    assert "is not outstanding" in await peer.error()
    assert broker.hosts["/"].queues["q"].order.count == 1
    assert third.headers["ack"].endswith("-3")


async def test_client_individual_acknowledges_one(broker: Broker) -> None:
    peer = await consume(broker)
    for _ in range(2):
        await peer.send("SEND", destination=QUEUE)
    _, second = await peer.messages(2)
    await peer.request("ACK", id=second.headers["ack"])
    session = peer.connection.session
    assert session is not None
    assert list(session.unacknowledged) == list(session.holders) == [1]


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_older_versions_settle_by_message_id(broker: Broker, version: str) -> None:
    peer = await Peer(broker).open(version)
    named = {} if version == "1.0" else {"id": "s"}
    await peer.request("SUBSCRIBE", named, destination=QUEUE, ack="client")
    await peer.send("SEND", {"destination": QUEUE, "x": "a:b"}, b"body")
    (message,) = await peer.messages(1)
    assert "ack" not in message.headers
    assert message.headers.get("subscription") == named.get("id")
    assert message.headers["destination"] == QUEUE
    assert message.headers["x"] == "a:b"
    settled = {"message-id": message.headers["message-id"]} | ({"subscription": "s"} if named else {})
    await peer.request("ACK", settled)
    assert not broker.hosts["/"].queues["q"].delivering


async def test_1_1_wants_the_subscription_that_got_it(broker: Broker) -> None:
    peer = await Peer(broker).open("1.1")
    await peer.request("SUBSCRIBE", id="s", destination=QUEUE, ack="client")
    await peer.send("SEND", destination=QUEUE)
    (message,) = await peer.messages(1)
    await peer.send("ACK", message_id=message.headers["message-id"], subscription="other")
    assert "was delivered to subscription 's'" in await peer.error()


async def test_nack_returns_the_message_or_lets_it_die(broker: Broker) -> None:
    peer = await consume(broker)
    await peer.send("SEND", destination=QUEUE)
    (message,) = await peer.messages(1)
    await peer.send("NACK", id=message.headers["ack"])
    (again,) = await peer.messages(1)
    assert (again.headers["redelivered"], again.headers["x-delivery-count"]) == ("true", "1")
    await peer.request("NACK", id=again.headers["ack"], requeue="false")
    assert broker.hosts["/"].queues["q"].counters.removed[RemovalReason.REJECTED] == 1


async def test_an_unknown_message_cannot_be_settled(broker: Broker) -> None:
    for identifier in ("1", "x-1", "9" * 40):
        peer = await consume(broker)
        await peer.send("ACK", id=identifier)
        assert "is not outstanding" in await peer.error()


async def test_what_is_outstanding_survives_unsubscribe_and_returns_with_the_connection(broker: Broker) -> None:
    peer = await consume(broker)
    for _ in range(2):
        await peer.send("SEND", destination=QUEUE)
    first, _ = await peer.messages(2)
    await peer.request("UNSUBSCRIBE", id="s")
    await peer.request("ACK", id=first.headers["ack"])
    queue = broker.hosts["/"].queues["q"]
    assert (len(queue.delivering), queue.order.count) == (1, 0)
    peer.lose()
    await peer.settle()
    assert (len(queue.delivering), queue.order.count) == (0, 1)


async def test_unsubscribing_what_is_not_there_is_an_error(broker: Broker) -> None:
    peer = await Peer(broker).open()
    await peer.send("UNSUBSCRIBE", id="s")
    assert await peer.error() == "UNSUBSCRIBE: this connection has no subscription 's'"


async def test_transactions_take_effect_together(broker: Broker) -> None:
    peer = await consume(broker, prefetch_count="1")
    await peer.send("SEND", {"destination": QUEUE}, b"first")
    (first,) = await peer.messages(1)
    await peer.request("BEGIN", transaction="t")
    await peer.request("BEGIN", transaction="u")
    await peer.request("SEND", {"destination": QUEUE}, b"second", transaction="t")
    await peer.request("SEND", {"destination": QUEUE}, b"never", transaction="u")
    await peer.request("ACK", id=first.headers["ack"], transaction="t")
    queue = broker.hosts["/"].queues["q"]
    assert (queue.order.count, len(queue.delivering)) == (0, 1)
    await peer.send("COMMIT", transaction="t", receipt="c")
    frames = peer.take()
    assert sorted(frame.command for frame in frames) == ["MESSAGE", "RECEIPT"]
    assert [frame.body for frame in frames if frame.body] == [b"second"]
    await peer.request("ABORT", transaction="u")
    assert queue.order.count == 0


async def test_abort_makes_settled_deliveries_outstanding_again(broker: Broker) -> None:
    peer = await consume(broker, "client")
    for _ in range(2):
        await peer.send("SEND", destination=QUEUE)
    first, second = await peer.messages(2)
    await peer.request("BEGIN", transaction="t")
    await peer.request("ACK", id=second.headers["ack"], transaction="t")
    await peer.request("ABORT", transaction="t")
    await peer.request("ACK", id=first.headers["ack"])
    await peer.request("ACK", id=second.headers["ack"])
    assert not broker.hosts["/"].queues["q"].delivering


async def test_an_open_transaction_ends_with_the_connection(broker: Broker) -> None:
    peer = await consume(broker)
    await peer.send("SEND", {"destination": QUEUE}, b"one")
    (message,) = await peer.messages(1)
    await peer.request("BEGIN", transaction="t")
    await peer.request("SEND", {"destination": QUEUE}, b"two", transaction="t")
    await peer.request("ACK", id=message.headers["ack"], transaction="t")
    peer.lose()
    await peer.settle()
    queue = broker.hosts["/"].queues["q"]
    assert [entry.message.body for entry in queue.order.entries()] == [b"one"]


@pytest.mark.parametrize("command", ["COMMIT", "ABORT"])
async def test_a_transaction_that_is_not_open(broker: Broker, command: str) -> None:
    peer = await Peer(broker).open()
    await peer.send(command, transaction="t", receipt="r")
    frame = await peer.next("ERROR")
    assert frame.headers["message"] == "transaction 't' is not open; BEGIN it first"
    assert frame.headers["receipt-id"] == "r"


async def test_a_transaction_opened_twice_and_too_many(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "TRANSACTIONS_MAX", 2)
    peer = await Peer(broker).open()
    for name in ("a", "b"):
        await peer.request("BEGIN", transaction=name)
    await peer.send("BEGIN", transaction="c")
    assert "this connection has 2 open transactions" in await peer.error()
    assert broker.admission.limit_hits == {("STOMP 1.2", "stomp_transactions_max"): 1}
    other = await Peer(broker).open()
    await other.request("BEGIN", transaction="a")
    await other.send("BEGIN", transaction="a")
    assert "is open already" in await other.error()


async def test_subscriptions_of_a_connection_are_bounded(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "SUBSCRIPTIONS_MAX", 2)
    peer = await Peer(broker).open()
    for number in range(2):
        await peer.request("SUBSCRIBE", id=str(number), destination=QUEUE)
    await peer.send("SUBSCRIBE", id="3", destination=QUEUE)
    assert "this connection has 2 subscriptions" in await peer.error()
    assert broker.admission.limit_hits == {("STOMP 1.2", "stomp_subscriptions_max"): 1}


async def test_lifetime_priority_and_delay(broker: Broker) -> None:
    clock = broker.clock
    assert isinstance(clock, VirtualClock)
    peer = await Peer(broker).open()
    now = clock()
    await peer.request("SEND", destination=QUEUE, expiration="1000", priority="7")
    await peer.request("SEND", destination=QUEUE, expires=str(now + 5000))
    await peer.request("SEND", {"destination": QUEUE, "AMQ_SCHEDULED_DELAY": "2000"})
    queue = broker.hosts["/"].queues["q"]
    first, second = queue.order.entries()
    assert (first.message.priority, first.message.expires_at, second.message.expires_at) == (7, now + 1000, now + 5000)
    (later,) = queue.schedule.entries()
    assert later.message.deliver_at == now + 2000


async def test_a_scheduled_message_can_be_taken_back(broker: Broker) -> None:
    peer = await Peer(broker).open()
    scheduled = {"destination": QUEUE, "x-delay": "60000", "x-schedule-id": "s"}
    await peer.request("SEND", scheduled)
    queue = broker.hosts["/"].queues["q"]
    assert queue.schedule.count == 1
    await peer.request("SEND", {"destination": QUEUE, "x-schedule-id": "s", "x-schedule-cancel": "true"})
    assert queue.schedule.count == 0
    await peer.request("SEND", scheduled)
    await peer.request("BEGIN", transaction="t")
    cancel = {"destination": QUEUE, "x-schedule-id": "s", "x-schedule-cancel": "true", "transaction": "t"}
    await peer.request("SEND", cancel)
    assert queue.schedule.count == 1
    await peer.request("COMMIT", transaction="t")
    assert queue.schedule.count == 0


async def test_duplicates_are_dropped(broker: Broker) -> None:
    peer = await Peer(broker).open()
    for _ in range(2):
        await peer.request("SEND", {"destination": QUEUE, "_AMQ_DUPL_ID": "d"})
    assert broker.hosts["/"].queues["q"].order.count == 1


async def test_a_full_queue_that_refuses_is_an_error_that_says_so(broker: Broker) -> None:
    peer = await Peer(broker).open()
    arguments = {"x-max-length": "1", "x-overflow": "reject-publish"}
    await peer.request("SEND", {"destination": QUEUE, **arguments})
    await peer.send("SEND", {"destination": QUEUE, "receipt": "2"})
    frame = await peer.next("ERROR")
    assert frame.headers["message"].startswith("SEND: ")
    assert "queue 'q'" in frame.headers["message"]
    assert frame.headers["receipt-id"] == "2"
    assert broker.limit_refusals == 1


async def test_a_user_id_has_to_be_ones_own(broker: Broker) -> None:
    peer = await Peer(broker).open()
    await peer.request("SEND", destination=QUEUE, user_id="guest")
    await peer.send("SEND", destination=QUEUE, user_id="root")
    assert "header 'user-id' is 'root' but the login was 'guest'" in await peer.error()


async def test_a_wrong_header_is_named(broker: Broker) -> None:
    peer = await Peer(broker).open()
    await peer.send("SEND", destination=QUEUE, priority="high")
    assert await peer.error() == "header 'priority' is 'high'; give the priority, a whole number from 0 to 255"


async def test_without_permission_nothing_is_sent(broker: Broker) -> None:
    broker.catalogue.access.set_permission("guest", "/", "", "", "")
    broker.authenticator.reload()
    peer = await Peer(broker).open()
    await peer.send("SEND", destination=QUEUE)
    assert "access to 'q' in vhost '/' refused for user 'guest'" in await peer.error()
    assert "q" not in broker.hosts["/"].queues


async def test_a_reply_address_of_the_connection(broker: Broker) -> None:
    asking, serving = await Peer(broker).open(), await consume(broker)
    await asking.request("SEND", destination=QUEUE, reply_to="/temp-queue/r")
    (question,) = await serving.messages(1)
    reply_to = question.headers["reply-to"]
    assert reply_to.startswith("amq.gen-")
    await serving.send("SEND", {"destination": reply_to}, b"42")
    await serving.send("SEND", {"destination": f"/reply-queue/{reply_to}"}, b"43")
    answers = await asking.messages(2)
    assert [answer.headers["subscription"] for answer in answers] == ["/temp-queue/r"] * 2
    assert [answer.body for answer in answers] == [b"42", b"43"]
    asking.lose()
    await asking.settle()
    assert reply_to not in broker.hosts["/"].queues
