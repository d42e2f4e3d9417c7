from __future__ import annotations

import pytest

from annulet.broker.broker import Broker
from annulet.broker.stomp.subscribing import names_durable, read_options
from annulet.core.base.errors import InvalidArgument
from annulet.core.base.settings import BROWSE_FOLLOW, BROWSE_SNAPSHOT
from annulet.wire.stomp.errors import RemoteProtocolError
from tests.broker.stomp.peer import Peer

QUEUE = "/queue/q"
TOPIC = "/topic/t"


@pytest.mark.parametrize(
    ("headers", "messages_max", "bytes_max"),
    [
        ({}, -1, -1),
        ({"prefetch-count": "7"}, 7, -1),
        ({"activemq.prefetchSize": "1"}, 1, -1),
        ({"prefetch-count": "0"}, -1, -1),
        ({"consumer-window-size": "1000"}, -1, 1000),
        ({"consumer-window-size": "-1"}, -1, -1),
        ({"consumer-window-size": "0"}, 1, -1),
    ],
)
def test_windows_by_the_names_of_each_broker(headers: dict[str, str], messages_max: int, bytes_max: int) -> None:
    options = read_options(headers)
    assert (options.messages_max, options.bytes_max) == (messages_max, bytes_max)


def test_other_options_by_the_names_of_each_broker() -> None:
    for name in ("consumer-priority", "activemq.priority", "x-priority"):
        assert read_options({name: "-3"}).settings.priority == -3
    for name in ("exclusive", "activemq.exclusive"):
        assert read_options({name: "true"}).exclusive
    for name in ("no-local", "noLocal", "activemq.noLocal"):
        assert read_options({name: "true"}).settings.no_local
    for name in ("durable-subscription-name", "activemq.subscriptionName", "x-queue-name"):
        assert read_options({name: "n"}).name == "n"
        assert names_durable({name: "n"})
    assert read_options({"selector": "a = 1"}).settings.selector == "a = 1"
    assert read_options({"browser": "true"}).settings.browse == BROWSE_SNAPSHOT
    assert read_options({"x-browse": "follow"}).settings.browse == BROWSE_FOLLOW
    assert read_options({"x-ring-size": "3", "x-priority": "1", "mine": "x"}).arguments == {"x-ring-size": "3"}
    assert not names_durable({"id": "1"})


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        ({"prefetch-count": "many"}, "header 'prefetch-count' is 'many'"),
        ({"consumer-window-size": "-2"}, "header 'consumer-window-size' is '-2'"),
        ({"exclusive": "maybe"}, "header 'exclusive' is 'maybe'"),
        ({"selector": "a ="}, "selector"),
    ],
)
def test_a_wrong_option_is_named(headers: dict[str, str], text: str) -> None:
    with pytest.raises((RemoteProtocolError, InvalidArgument)) as caught:
        read_options(headers)
    assert text in str(caught.value)


async def test_a_prefetch_bounds_what_is_outstanding(broker: Broker) -> None:
    peer = await Peer(broker).open()
    for _ in range(3):
        await peer.request("SEND", destination=QUEUE)
    await peer.send("SUBSCRIBE", id="s", destination=QUEUE, ack="client", prefetch_count="2")
    first, second = await peer.messages(2)
    await peer.send("ACK", id=second.headers["ack"])
    await peer.messages(1)
    assert first.headers["ack"] < second.headers["ack"]


async def test_a_selector_chooses_from_a_queue_and_filters_a_subscription(broker: Broker) -> None:
    peer = await Peer(broker).open()
    await peer.request("SUBSCRIBE", id="q", destination=QUEUE, selector="colour = 'red'")
    await peer.request("SUBSCRIBE", id="t", destination=TOPIC, selector="convert_string_expressions:n > 5")
    for colour, number in (("red", "1"), ("blue", "10")):
        await peer.send("SEND", destination=QUEUE, colour=colour)
        await peer.send("SEND", destination=TOPIC, n=number)
    messages = {frame.headers["subscription"]: frame.headers for frame in await peer.messages(2)}
    assert messages["q"]["colour"] == "red"
    assert messages["t"]["n"] == "10"
    assert broker.hosts["/"].queues["q"].order.count == 1


async def test_a_wrong_selector_is_an_error_that_says_where(broker: Broker) -> None:
    peer = await Peer(broker).open()
    await peer.send("SUBSCRIBE", id="s", destination=QUEUE, selector="colour ==")
    assert (await peer.error()).startswith("SUBSCRIBE: invalid consumer argument 'selector'")


async def test_a_browser_reads_without_taking_and_is_told_the_end(broker: Broker) -> None:
    peer = await Peer(broker).open()
    for body in (b"1", b"2"):
        await peer.request("SEND", {"destination": QUEUE}, body)
    await peer.send("SUBSCRIBE", id="b", destination=QUEUE, browser="true")
    messages = await peer.messages(3)
    assert [frame.body for frame in messages] == [b"1", b"2", b""]
    assert messages[2].headers["browser"] == "end"
    assert messages[2].headers["subscription"] == "b"
    assert broker.hosts["/"].queues["q"].order.count == 2


async def test_topics_reach_all_who_are_there(broker: Broker) -> None:
    one, two = await Peer(broker).open(), await Peer(broker).open()
    await one.request("SUBSCRIBE", id="1", destination=TOPIC)
    await two.request("SUBSCRIBE", id="2", destination="topic://t")
    await one.send("SEND", {"destination": TOPIC}, b"x")
    for peer in (one, two):
        (message,) = await peer.messages(1)
        assert (message.body, message.headers["destination"]) == (b"x", TOPIC)
    await one.request("UNSUBSCRIBE", id="1")
    two.lose()
    await two.settle()
    assert not [name for name in broker.hosts["/"].queues if name.startswith("amq.subscription-")]


async def test_no_local_leaves_out_ones_own(broker: Broker) -> None:
    one, two = await Peer(broker).open(), await Peer(broker).open()
    await one.request("SUBSCRIBE", {"no-local": "true"}, id="1", destination=TOPIC)
    await one.request("SEND", {"destination": TOPIC}, b"own")
    await two.request("SEND", {"destination": TOPIC}, b"other")
    (message,) = await one.messages(1)
    assert message.body == b"other"


@pytest.mark.parametrize(
    ("connect", "subscribe"),
    [
        ({}, {"durable": "true"}),
        ({"client-id": "c"}, {"durable-subscription-name": "n"}),
        ({"client-id": "c"}, {"activemq.subscriptionName": "n"}),
        ({}, {"x-queue-name": "n"}),
    ],
)
async def test_a_durable_subscription_collects_while_its_client_is_away(
    broker: Broker, connect: dict[str, str], subscribe: dict[str, str]
) -> None:
    headers = {"id": "s", "destination": TOPIC, "ack": "client", **subscribe}
    peer = await Peer(broker).open(**connect)
    await peer.request("SUBSCRIBE", headers)
    await peer.request("UNSUBSCRIBE", id="s")
    other = await Peer(broker).open()
    await other.request("SEND", {"destination": TOPIC}, b"missed")
    peer.lose()
    await peer.settle()
    again = await Peer(broker).open(**connect)
    await again.send("SUBSCRIBE", headers)
    (message,) = await again.messages(1)
    assert message.body == b"missed"
    await again.request("UNSUBSCRIBE", {"id": "s", **subscribe})
    client = connect.get("client-id", "guest")
    assert not [name for name in broker.hosts["/"].queues if name.startswith(f"{client}.")]


async def test_ending_a_durable_subscription_that_is_not_there_or_in_use(broker: Broker) -> None:
    peer = await Peer(broker).open()
    await peer.send("UNSUBSCRIBE", {"id": "s", "durable": "true"})
    assert "no durable subscription 's' of client 'guest'" in await peer.error()
    user, other = await Peer(broker).open(), await Peer(broker).open()
    await user.request("SUBSCRIBE", {"id": "s", "destination": TOPIC, "durable": "true"})
    await other.send("UNSUBSCRIBE", {"id": "s", "durable": "true"})
    assert "in use by another connection" in await other.error()


async def test_queue_arguments_declare_the_queue(broker: Broker) -> None:
    peer = await Peer(broker).open()
    await peer.request("SUBSCRIBE", {"id": "1", "destination": QUEUE, "x-ring-size": "2", "ack": "client"})
    assert broker.hosts["/"].queues["q"].settings.ring_size == 2
    await peer.request("SUBSCRIBE", {"id": "2", "destination": "bare", "x-last-value-key": "k"})
    assert broker.hosts["/"].queues["bare"].settings.last_value_key == "k"
    await peer.request("SUBSCRIBE", {"id": "3", "destination": TOPIC, "x-max-length": "5"})
    made = [queue for name, queue in broker.hosts["/"].queues.items() if name.startswith("amq.subscription-")]
    assert [queue.settings.max_length for queue in made] == [5]
    await peer.send("SUBSCRIBE", {"id": "4", "destination": QUEUE, "x-ring-size": "3"})
    assert (await peer.error()).startswith("SUBSCRIBE: ")


async def test_an_exclusive_consumer_is_alone(broker: Broker) -> None:
    peer = await Peer(broker).open()
    await peer.request("SUBSCRIBE", {"id": "1", "destination": QUEUE, "exclusive": "true"})
    await peer.send("SUBSCRIBE", {"id": "2", "destination": QUEUE})
    assert "in exclusive use" in await peer.error()


async def test_one_id_is_one_subscription(broker: Broker) -> None:
    peer = await Peer(broker).open()
    await peer.request("SUBSCRIBE", id="1", destination=QUEUE)
    await peer.send("SUBSCRIBE", id="1", destination="/queue/other")
    assert "has a subscription '1' already" in await peer.error()


async def test_a_1_0_client_without_id_is_known_by_its_destination(broker: Broker) -> None:
    peer = await Peer(broker).open("1.0")
    await peer.request("SUBSCRIBE", destination="q")
    await peer.send("SEND", destination="/queue/q")
    (message,) = await peer.messages(1)
    assert message.headers["destination"] == "q"
    assert "subscription" not in message.headers
    await peer.request("UNSUBSCRIBE", destination="q")


async def test_an_address_with_several_anycast_queues_wants_one_named(broker: Broker) -> None:
    host = broker.hosts["/"]
    host.nodes.declare_address("a", ("anycast",))
    for name in ("one", "two"):
        host.nodes.attach_queue(host.declare_queue(name, now=broker.clock(), durable=False), "a")
    peer = await Peer(broker).open()
    await peer.request("SUBSCRIBE", id="1", destination="a::one")
    await peer.send("SUBSCRIBE", id="2", destination="a")
    assert "name one: 'a::one', 'a::two'" in await peer.error()
