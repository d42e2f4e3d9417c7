"""No binding, key, filter or chain that a user makes lets one message hold the event loop while its way is found.

What is asserted is how many steps are taken, not how long they take.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from pamqp import body, commands, header

from annulet import testing
from annulet.broker.broker import Broker
from annulet.core.base.errors import RoutingTooLong
from annulet.core.base.steps import LIMIT_ROUTING, ROUTING_STEPS_MAX, Steps
from annulet.core.host.dead_letters import COPY_STEPS, FORWARDED_AT_ONCE
from annulet.core.host.virtual_host import VirtualHost
from annulet.core.message.message import Message, Origin, PropertyValue
from annulet.core.routing.diverts import Divert
from annulet.core.routing.exchanges.topic import PLACE_STEPS
from annulet.core.routing.routes import NODE_STEPS, Walk
from annulet.testing.clock import VirtualClock
from tests.broker.amqp091.peer import Peer, turns
from tests.broker.conftest import leave
from tests.core.helpers import NOW, RecordingEffects, SlicingEffects, make_message
from tests.core.host.test_dead_letters import Bench, letter

WORDS = 127
BINDINGS = 300
KEY = ".".join(["a"] * WORDS)


@pytest.fixture
def host() -> VirtualHost:
    return VirtualHost("/", RecordingEffects())


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with testing.broker(http=False, clock=VirtualClock()) as running:
        yield running.broker
        leave(running.broker)


def bind_patterns(host: VirtualHost, words: str, count: int = BINDINGS) -> list[str]:
    """Bind queue ``q`` to amq.topic by patterns of as many words as a routing key can have, drawn from ``words``."""
    queue = host.queues.get("q") or host.declare_queue("q", now=NOW)
    drawn = random.Random(30)
    patterns = [".".join(drawn.choice(words) for _ in range(WORDS)) for _ in range(count)]
    for pattern in patterns:
        host.bind_queue(queue, "amq.topic", pattern)
    return patterns


def sent(key: str, **application: PropertyValue) -> Message:
    message = make_message("m", **application)
    message.origin = Origin("amq.topic", key, "guest@test", message.origin.view)
    return message


def test_patterns_of_wildcards_share_their_places(host: VirtualHost) -> None:
    """A8: 1,000 bindings of 127 random * and #, one publish took 6.2 s: each pattern had 127 places of its own."""
    bind_patterns(host, "*#")
    route = host.route("amq.topic", KEY)
    assert [queue.name for queue in route.queues] == ["q"]
    assert host.steps_taken <= 2 * PLACE_STEPS * WORDS * WORDS + 2 * BINDINGS


def test_a_way_of_too_many_steps_is_refused_before_any_queue_has_the_message(host: VirtualHost) -> None:
    """The same with words between the wildcards, which nothing merges: 1.4 s with 300 bindings."""
    bind_patterns(host, "a*#")
    before = host.declare_queue("before", now=NOW)
    host.bind_queue(before, "amq.topic", "a.#")
    route = host.route("amq.topic", KEY)
    assert not route.static
    assert host.steps_taken <= ROUTING_STEPS_MAX + PLACE_STEPS * BINDINGS * WORDS
    taken = host.steps_taken
    for _ in range(5):
        with pytest.raises(RoutingTooLong, match=f"more than {ROUTING_STEPS_MAX} steps .{LIMIT_ROUTING}.*wildcards"):
            host.publisher.publish(sent(KEY), host.route("amq.topic", KEY), NOW)
        with pytest.raises(RoutingTooLong):
            host.targets(sent(KEY), route)
    assert host.steps_taken == taken, "it is remembered that the way is too long"
    assert host.publisher.routing_refused == 5
    assert [queue.order.count for queue in host.queues.values()] == [0, 0]
    assert host.publisher.publish(sent("a.b.c"), host.route("amq.topic", "a.b.c"), NOW) == 1, (
        "shorter keys are as before"
    )
    assert host.steps_taken - taken <= 60, "patterns that ask for more words than a key has are not looked at"


def test_patterns_without_number_signs_are_looked_at_once_for_each_key(host: VirtualHost) -> None:
    """Patterns of words and * take a step a place, however many: 350 of 127 words are no reason to refuse."""
    bind_patterns(host, "a*", 350)
    assert host.route("amq.topic", KEY).static
    assert host.steps_taken <= PLACE_STEPS * 350 * WORDS


def test_a_routing_key_of_thousands_of_words_is_bounded_too(host: VirtualHost) -> None:
    """Keys of AMQP 1.0 and STOMP have 64 KiB; such a route is not remembered, and is refused with each message."""
    queue = host.declare_queue("q", now=NOW)
    for number in range(20):
        host.bind_queue(queue, "amq.topic", f"#.a.#.b{number}.#")
    long = ".".join(["a"] * 30_000)
    with pytest.raises(RoutingTooLong):
        host.publisher.publish(sent(long), host.route("amq.topic", long), NOW)
    assert host.steps_taken <= 2 * ROUTING_STEPS_MAX + 100
    few = ".".join(["c"] * 30_000)
    host.unbind_queue(queue, "amq.topic", "#.a.#.b1.#")
    assert host.publisher.publish(sent(few), host.route("amq.topic", few), NOW) == 0


def test_a_chain_of_exchanges_counts_each(host: VirtualHost) -> None:
    """Brother: one publish went through any number of exchanges."""
    last = host.declare_queue("last", now=NOW)
    names = [f"e{number}" for number in range(200)]
    for name in names:
        host.declare_exchange(name, "topic")
    for source, destination in pairwise(names):
        host.bind_exchange(destination, source, "#")
    host.bind_queue(last, names[-1], "#")
    enough = Steps(200 * (NODE_STEPS + 10))
    assert Walk(host, steps=enough).follow(host.exchanges["e0"], "k", None) == [last]
    with pytest.raises(RoutingTooLong):
        Walk(host, steps=Steps(200 * NODE_STEPS)).follow(host.exchanges["e0"], "k", None)


def test_headers_are_counted_each(host: VirtualHost) -> None:
    """A8: 1,000 bindings of 1,000 arguments to a headers exchange took 0.25 s a publish."""
    queue = host.declare_queue("q", now=NOW)
    wanted: dict[str, PropertyValue] = {f"h{number}": number for number in range(400)}
    for number in range(ROUTING_STEPS_MAX // 400 + 10):
        host.bind_queue(queue, "amq.headers", "", {**wanted, "more": number})
    message = make_message("m", **wanted)
    with pytest.raises(RoutingTooLong):
        host.publisher.publish(message, host.route("amq.headers", ""), NOW)
    assert queue.order.count == 0
    short = make_message("m", h0=1)
    assert host.publisher.publish(short, host.route("amq.headers", ""), NOW) == 0, "a mismatch ends a comparison"


@pytest.mark.parametrize("where", ["binding", "queue", "divert"])
def test_filters_count_by_their_length(host: VirtualHost, where: str) -> None:
    """Brother: each distinct filter on the way is evaluated for each message."""
    text = " OR ".join(f"a = {number}" for number in range(50))
    for number in range(20):
        selector = f"{text} OR b = {number}"
        arguments: dict[str, PropertyValue] = {"x-filter-jms-selector": selector}
        queue = host.declare_queue(f"q{number}", now=NOW, arguments=arguments if where == "queue" else {})
        if where == "divert":
            host.diverts.add(Divert(f"d{number}", "amq.fanout", ("x",), selector=selector))
        else:
            host.bind_queue(queue, "amq.fanout", "", arguments if where == "binding" else {})
    message = make_message("m", a=-1)
    Walk(host, steps=Steps(20 * 200)).follow(host.exchanges["amq.fanout"], "", message)
    with pytest.raises(RoutingTooLong):
        Walk(host, steps=Steps(20 * 100)).follow(host.exchanges["amq.fanout"], "", message)


def test_all_keys_of_one_message_count_together(host: VirtualHost) -> None:
    """Brother: CC and BCC name any number of routing keys, each of which is routed."""
    bind_patterns(host, "a*", 20)
    keys = tuple(f"{KEY}.{number}"[2:] for number in range(ROUTING_STEPS_MAX // WORDS))
    with pytest.raises(RoutingTooLong):
        host.publisher.publish(sent("x"), host.route("amq.topic", "x"), NOW, further_keys=keys)
    assert host.publisher.publish(sent("x"), host.route("amq.topic", "x"), NOW, further_keys=keys[:5]) == 1


def test_queues_that_are_reached_do_not_count(host: VirtualHost) -> None:
    """A fanout to any number of queues is what its users want, and is never refused."""
    queues = [host.declare_queue(f"q{number}", now=NOW) for number in range(300)]
    for queue in queues:
        host.bind_queue(queue, "amq.fanout", "")
    assert Walk(host, steps=Steps(20)).follow(host.exchanges["amq.fanout"], "", None) == queues


def test_copies_of_dead_letters_with_a_long_way_are_sent_in_slices() -> None:
    """Brother: 200 dead letters are sent at once, each by a way of its own."""
    effects = SlicingEffects()
    bench = Bench(effects)
    bind_patterns(bench.host, "a*", 100)
    source = bench.source("source", dead_letter_exchange="amq.topic")
    bench.drop(source, *[letter(key=f"{KEY[2:]}.{number}") for number in range(100)])
    first = bench.host.steps_taken
    assert 0 < first <= 2 * FORWARDED_AT_ONCE * COPY_STEPS
    while effects.works:
        before = bench.host.steps_taken
        effects.turn()
        assert bench.host.steps_taken - before <= 2 * FORWARDED_AT_ONCE * COPY_STEPS
    assert bench.letters.messages_forwarded + bench.letters.messages_unroutable == 100
    assert bench.host.steps_taken > 2 * first


def test_a_dead_letter_whose_way_is_too_long_stays_stored() -> None:
    """It is not settled, so that it is there at the next start: what was confirmed is not lost for a binding."""
    bench = Bench()
    bind_patterns(bench.host, "a*#")
    source = bench.source("source", dead_letter_exchange="amq.topic")
    bench.drop(source, letter(key=KEY, durable=True, record=7))
    assert bench.letters.failures == 1
    assert LIMIT_ROUTING in bench.letters.last_failure
    assert list(source.unsent) == [7]
    assert bench.losses() == []


async def test_a_publisher_is_told(broker: Broker) -> None:
    """With confirms by basic.nack, and in the metrics; the channel stays, and other messages are taken."""
    peer = await Peer(broker).open(1)
    bind_patterns(broker.hosts["/"], "a*#")
    publish = (header.ContentHeader(body_size=1), body.ContentBody(b"x"))
    await peer.send(1, commands.Confirm.Select())
    await peer.send(1, commands.Basic.Publish(exchange="amq.topic", routing_key=KEY), *publish)
    await peer.send(1, commands.Basic.Publish(routing_key="q"), *publish)
    await turns()
    answers = [type(method) for method in await peer.take()]
    assert answers == [commands.Confirm.SelectOk, commands.Basic.Nack, commands.Basic.Ack]
    assert broker.hosts["/"].publisher.routing_refused == 1
    assert broker.hosts["/"].queues["q"].order.count == 1
