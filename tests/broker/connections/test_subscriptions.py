from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from annulet import testing
from annulet.broker.broker import Broker
from annulet.broker.connections.subscriptions import Subscription, end_subscription, find_subscription, subscribe
from annulet.broker.durability.durable_declarations import DurableDeclarations
from annulet.core.base.errors import AccessRefused, InvalidArgument, PreconditionFailed, ResourceLocked
from annulet.core.host.auto_created import SubscriptionMark
from annulet.core.model.consumer import Consumer
from annulet.core.queue.queue import Queue
from tests.broker.amqp10.peer import message, permit, queue_of
from tests.broker.conftest import leave
from tests.broker.connections.test_sending import Session, session_on


def topic(broker: Broker, name: str = "news", *types: str) -> None:
    broker.hosts["/"].nodes.declare_address(name, types or ("multicast",), durable=False)


def subscribed(session: Session, name: str, subscription: Subscription, **options: object) -> Queue:
    return subscribe(session, session.resolve(name), subscription, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("client", "name", "queue"),
    [
        ("client", "s", "client.s"),
        ("", "s", "s"),
        ("a.b", "s", "a%2Eb.s"),
        ("a", "b.s", "a.b.s"),
        ("a%2Eb", "s", "a%252Eb.s"),
    ],
)
def test_names_of_queues_do_not_collide(client: str, name: str, queue: str) -> None:
    assert Subscription(name, client).queue_name == queue


@pytest.mark.parametrize(
    ("client", "durable", "queue"),
    [("c", True, "c.s"), ("", True, "s"), ("c", False, "c.s:shared-volatile"), ("", False, "s:shared-volatile:global")],
)
def test_a_shared_one_that_is_not_durable_has_a_queue_of_its_own(client: str, durable: bool, queue: str) -> None:
    assert Subscription("s", client, durable=durable, shared=True).queue_name == queue


async def test_without_a_name_it_belongs_to_the_connection(broker: Broker) -> None:
    topic(broker)
    session = session_on(broker)
    first, second = (subscribed(session, "news", Subscription()) for _ in range(2))
    assert first is not second
    assert (first.durable, first.name.startswith("amq.subscription-")) == (False, True)
    assert session.put("news") == 2
    broker.hosts["/"].connection_closed(session.connection, session.connection.now)
    assert broker.hosts["/"].queues == {}


async def test_a_durable_one_is_found_again(broker: Broker) -> None:
    topic(broker)
    session = session_on(broker)
    wanted = Subscription("s", "client", durable=True)
    queue = subscribed(session, "news", wanted)
    assert (queue.name, queue.durable) == ("client.s", True)
    session.put("news")
    assert subscribed(session, "news", wanted) is queue
    assert queue.order.count == 1
    assert find_subscription(session, "s", "client") is queue
    assert find_subscription(session, "s", "other") is None
    assert end_subscription(session, queue)
    assert find_subscription(session, "s", "client") is None


async def test_another_source_or_selector_replaces_an_idle_one(broker: Broker) -> None:
    topic(broker)
    topic(broker, "sports")
    session = session_on(broker)
    queue = subscribed(session, "news", Subscription("s", "client", durable=True))
    session.put("news")
    replaced = subscribed(session, "sports", Subscription("s", "client", durable=True))
    assert replaced is not queue
    assert queue.deleted
    assert replaced.order.count == 0
    again = subscribed(session, "sports", Subscription("s", "client", durable=True, selector="a = 1"))
    assert again is not replaced
    assert broker.hosts["/"].bindings_of_queue(again)[0].source.name == "sports"


async def test_one_in_use_is_locked(broker: Broker) -> None:
    topic(broker)
    session = session_on(broker)
    queue = subscribed(session, "news", Subscription("s", "client", durable=True))
    session.attach(Consumer(session, queue, "c"), session.connection.now)
    with pytest.raises(ResourceLocked, match=r"'client\.s' in vhost '/' is in use with another address or selector"):
        subscribed(session, "news", Subscription("s", "client", durable=True, selector="a = 1"))
    assert subscribed(session, "news", Subscription("s", "client", durable=True)) is queue


async def test_a_selector_keeps_out_what_does_not_match(broker: Broker) -> None:
    topic(broker)
    session = session_on(broker)
    queue = subscribed(session, "news", Subscription(selector="colour = 'red'"))
    colours = ("red", "blue", "red")
    routed = [session.put("news", payload=message(application={"colour": colour})) for colour in colours]
    assert (routed, queue.order.count) == ([1, 0, 1], 2)


@pytest.mark.parametrize(
    ("source", "sent", "arrives"),
    [
        ("amq.topic", "/exchanges/amq.topic/a.b", True),
        ("/exchanges/amq.topic/a.*", "/exchanges/amq.topic/a.b", True),
        ("/exchanges/amq.topic/a.*", "/exchanges/amq.topic/b.a", False),
        ("/exchanges/amq.direct/k", "/exchanges/amq.direct/k", True),
        ("amq.direct", "/exchanges/amq.direct/k", False),
        ("amq.fanout", "/exchanges/amq.fanout/any", True),
    ],
)
async def test_exchanges_are_bound_by_the_key_of_the_name(
    broker: Broker, source: str, sent: str, arrives: bool
) -> None:
    session = session_on(broker)
    queue = subscribed(session, source, Subscription())
    session.put(sent)
    assert (queue.order.count == 1) is arrives


async def test_a_headers_exchange_is_bound_by_arguments(broker: Broker) -> None:
    session = session_on(broker)
    queue = subscribed(session, "amq.headers", Subscription(), binding_arguments={"x-match": "all", "a": 1})
    (binding,) = broker.hosts["/"].bindings_of_queue(queue)
    assert binding.arguments == {"x-match": "all", "a": 1}


async def test_an_address_of_both_types_is_subscribed_to_as_multicast(broker: Broker) -> None:
    topic(broker, "mixed", "anycast", "multicast")
    broker.hosts["/"].nodes.attach_queue(queue_of(broker, "work"), "mixed", "anycast")
    session = session_on(broker)
    queue = subscribed(session, "mixed", Subscription())
    session.put("mixed")
    assert queue.order.count == 1


async def test_an_anycast_address_has_no_subscriptions(broker: Broker) -> None:
    topic(broker, "work", "anycast")
    session = session_on(broker)
    with pytest.raises(InvalidArgument, match="'work::queue'"):
        subscribed(session, "work", Subscription())
    assert broker.hosts["/"].queues == {}


async def test_permissions_are_to_read_the_source_and_to_configure_a_name(broker: Broker) -> None:
    topic(broker)
    session = session_on(broker)
    permit(broker, read="^$")
    with pytest.raises(AccessRefused, match="read access to 'news'"):
        subscribed(session, "news", Subscription())
    permit(broker, configure=r"^client\.mine$")
    with pytest.raises(AccessRefused, match=r"configure access to 'client\.theirs'"):
        subscribed(session, "news", Subscription("theirs", "client", durable=True))
    assert subscribed(session, "news", Subscription("mine", "client", durable=True)).durable


async def test_a_queue_that_cannot_be_bound_does_not_stay(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    topic(broker)
    session = session_on(broker)

    def fail(*_: object) -> None:
        raise InvalidArgument("no")

    monkeypatch.setattr("annulet.broker.connections.access.DurableDeclarations.bind_queue", fail)
    with pytest.raises(InvalidArgument):
        subscribed(session, "news", Subscription())
    assert broker.hosts["/"].queues == {}


async def test_a_subscription_is_known_after_a_restart(tmp_path: Path) -> None:
    async with testing.broker(http=False, data_dir=tmp_path) as running:
        DurableDeclarations(running.broker.hosts["/"], running.broker.catalogue).exchange(
            "news", "address", durable=True, auto_delete=False, internal=False, arguments={}
        )
        subscribed(session_on(running.broker), "news", Subscription("s", "client", durable=True))
        leave(running.broker)
    async with testing.broker(http=False, data_dir=tmp_path) as running:
        session = session_on(running.broker)
        queue = find_subscription(session, "s", "client")
        assert queue is not None
        assert subscribed(session, "news", Subscription("s", "client", durable=True)) is queue
        assert end_subscription(session, queue)
        assert running.broker.catalogue.subscriptions("/") == []
        leave(running.broker)


async def test_a_queue_older_than_the_marks_becomes_a_subscription_at_its_next_use(broker: Broker) -> None:
    topic(broker)
    host = broker.hosts["/"]
    session = session_on(broker)
    queue = queue_of(broker, "client.s")
    host.bind_queue(queue, "news", "", {})
    host.lifetime_of(queue).subscription = SubscriptionMark("", "", "")  # as the migration has it
    assert find_subscription(session, "s", "client") is None
    assert not end_subscription(session, queue)
    with pytest.raises(PreconditionFailed, match="was not made as subscription 's'"):  # it is not replaced
        subscribed(session, "news", Subscription("s", "client", durable=True, selector="a = 1"))
    permit(broker, read="^news$")
    with pytest.raises(AccessRefused, match=r"read access to 'client\.s'"):
        subscribed(session, "news", Subscription("s", "client", durable=True))
    permit(broker)
    assert subscribed(session, "news", Subscription("s", "client", durable=True)) is queue
    assert find_subscription(session, "s", "client") is queue
    assert [record.user for record in broker.catalogue.subscriptions("/")] == ["guest"]


async def test_points_in_a_global_name_do_not_reach_the_subscription_of_a_client(broker: Broker) -> None:
    topic(broker)
    session = session_on(broker)
    queue = subscribed(session, "news", Subscription("s", "client", durable=True))
    with pytest.raises(PreconditionFailed, match=r"subscription 'client\.s' of client ''"):
        subscribed(session, "news", Subscription("client.s", "", durable=True, shared=True))
    assert find_subscription(session, "client.s", "") is None
    assert not queue.deleted


async def test_one_that_is_in_use_or_lasts_no_longer_than_its_consumers_is_not_ended(broker: Broker) -> None:
    topic(broker)
    session = session_on(broker)
    volatile = subscribed(session, "news", Subscription("v", "client", shared=True))
    assert find_subscription(session, "v", "client") is None
    assert not end_subscription(session, volatile)
    queue = subscribed(session, "news", Subscription("s", "client", durable=True))
    consumer = Consumer(session, queue, "1")
    session.attach(consumer, 0)
    assert not end_subscription(session, queue)
    session.detach("1", 0)
    with capture_logs() as logs:
        assert end_subscription(session, queue)
    ended = [line for line in logs if line["event"] == "durable subscription ended"]
    assert [(line["queue"], line["user"]) for line in ended] == [("client.s", "guest")]
    assert [(entry.operation, entry.arguments) for entry in broker.audit.query()] == [
        ("unsubscribe", '{"client":"client","name":"s"}')
    ]
