from __future__ import annotations

import pytest

from annulet.broker.broker import Broker
from annulet.broker.stomp import destinations
from annulet.broker.stomp.destinations import destination_of, leads_to, plain_queue_name, queue_arguments
from annulet.core.message.message import Origin
from annulet.wire.stomp.view import VIEW
from tests.broker.stomp.peer import Peer


@pytest.mark.parametrize(
    ("destination", "name"),
    [
        ("/queue/a", "a"),
        ("/queue/a/b", "a/b"),
        ("queue://a", "a"),
        ("a.b", "a.b"),
        ("/topic/a", None),
        ("topic://a", None),
        ("/exchange/e/k", None),
        ("/amq/queue/a", None),
        ("a::b", None),
        ("/temp-queue/a", None),
    ],
)
def test_which_destinations_are_queues_by_name(destination: str, name: str | None) -> None:
    assert plain_queue_name(destination) == name


@pytest.mark.parametrize(
    ("destination", "exchange", "key", "leads"),
    [
        ("/queue/q", "", "q", True),
        ("q", "", "q", True),
        ("/queue/q", "", "other", False),
        ("/topic/t", "t", "t", True),
        ("/topic/t.copy", "t", "t", False),
        ("/exchange/e/k", "e", "k", True),
        ("/exchange/e", "e", "k", True),
        ("/exchange/e/k", "e", "l", False),
        ("a::q", "", "a::q", True),
        ("a::q", "", "q", False),
    ],
)
def test_whether_a_destination_is_where_a_message_is(destination: str, exchange: str, key: str, leads: bool) -> None:
    assert leads_to(destination, Origin(exchange, key, "", VIEW)) is leads


async def test_foreign_messages_get_a_destination_that_leads_back(broker: Broker) -> None:
    host = broker.hosts["/"]
    host.nodes.declare_address("news", ("multicast",))
    host.nodes.declare_address("work", ("anycast",))
    for exchange, key, destination in (
        ("", "q", "/queue/q"),
        ("", "a::q", "a::q"),
        ("news", "news", "/topic/news"),
        ("work", "work", "/queue/work"),
        ("amq.topic", "a.b", "/exchange/amq.topic/a.b"),
        ("amq.fanout", "", "/exchange/amq.fanout"),
    ):
        origin = Origin(exchange, key, "", VIEW)
        assert destination_of(origin, host) == destination
        assert leads_to(destination, origin)


def test_queue_arguments_are_told_from_other_headers() -> None:
    headers = {"x-ring-size": "1", "qpid.max_count": "2", "x-death": "[]", "destination": "q", "x-delay": "1"}
    assert queue_arguments(headers) == {"x-ring-size": "1", "qpid.max_count": "2"}


@pytest.mark.parametrize("destination", ["/queue/q", "queue://q", "q", "/queues/q", "/amq/queue/q"])
async def test_every_spelling_of_a_queue(broker: Broker, destination: str) -> None:
    broker.hosts["/"].declare_queue("q", now=broker.clock(), durable=False)
    peer = await Peer(broker).open()
    await peer.request("SUBSCRIBE", id="s", destination=destination)
    await peer.send("SEND", destination=destination)
    (message,) = await peer.messages(1)
    assert message.headers["destination"] == destination


async def test_exchanges_with_and_without_key(broker: Broker) -> None:
    peer = await Peer(broker).open()
    await peer.request("SUBSCRIBE", id="s", destination="/exchange/amq.topic/a.#")
    await peer.request("SUBSCRIBE", id="f", destination="/exchange/amq.fanout")
    await peer.send("SEND", destination="/exchange/amq.topic/a.b")
    await peer.send("SEND", destination="/exchange/amq.topic/c")
    await peer.send("SEND", destination="/exchange/amq.fanout")
    messages = await peer.messages(2)
    assert [message.headers["subscription"] for message in messages] == ["s", "f"]


@pytest.mark.parametrize(
    ("destination", "text"),
    [
        ("/amq/queue/none", "no queue"),
        ("/exchange/none/k", "no exchange 'none'"),
        ("/temp-topic/x", "temporary topics are not available"),
        ("/temp-queue/", "has no name"),
        ("a::none", "no queue 'none'"),
    ],
)
async def test_destinations_that_lead_nowhere(broker: Broker, destination: str, text: str) -> None:
    for command in ("SEND", "SUBSCRIBE"):
        peer = await Peer(broker).open()
        await peer.send(command, id="s", destination=destination)
        said = await peer.error()
        assert said.startswith(f"{command}: ")
        assert text in said


async def test_a_temporary_queue_is_the_connections_own(broker: Broker) -> None:
    one, two = await Peer(broker).open(), await Peer(broker).open()
    for peer, body in ((one, b"1"), (two, b"2")):
        await peer.request("SUBSCRIBE", id="s", destination="/temp-queue/x")
        await peer.send("SEND", {"destination": "/temp-queue/x"}, body)
    for peer, body in ((one, b"1"), (two, b"2")):
        (message,) = await peer.messages(1)
        assert message.body == body
    await one.send("SEND", {"destination": "/queue/out", "reply-to": "/temp-queue/x"})
    assert len([name for name in broker.hosts["/"].queues if name.startswith("amq.gen-")]) == 2
    for peer in (one, two):
        peer.lose()
        await peer.settle()
    assert not [name for name in broker.hosts["/"].queues if name.startswith("amq.gen-")]


async def test_temporary_queues_are_bounded(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(destinations, "TEMPORARY_QUEUES_MAX", 2)
    peer = await Peer(broker).open()
    for name in ("a", "b", "a"):
        await peer.request("SEND", destination="/queue/out", reply_to=f"/temp-queue/{name}")
    await peer.send("SEND", destination="/queue/out", reply_to="/temp-queue/c")
    assert "has 2 temporary queues, which is the limit" in await peer.error()
    assert broker.admission.limit_hits["STOMP 1.2", "stomp_temporary_queues_max"] == 1


async def test_a_message_that_was_sent_on_says_where_it_is_now(broker: Broker) -> None:
    peer = await Peer(broker).open()
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    await peer.request("SUBSCRIBE", {"id": "s", "destination": "/queue/q", "ack": "client", **arguments})
    await peer.request("SUBSCRIBE", id="d", destination="/queue/dead")
    await peer.send("SEND", {"destination": "/queue/q", "mine": "1"}, b"x")
    (message,) = await peer.messages(1)
    await peer.send("NACK", id=message.headers["ack"], requeue="false")
    (dead,) = await peer.messages(1)
    assert dead.headers["destination"] == "/queue/dead"
    assert dead.headers["mine"] == "1"
    assert dead.headers["x-first-death-queue"] == "q"
    assert '"reason":"rejected"' in dead.headers["x-death"]
