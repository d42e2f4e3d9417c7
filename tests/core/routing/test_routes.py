"""The walk from an exchange to queues."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import InvalidArgument
from annulet.core.host.virtual_host import VirtualHost
from annulet.core.routing.exchanges import FanoutExchange
from annulet.core.routing.routes import Walk
from tests.core.helpers import NOW, RecordingEffects, RecordingSession, TableView, make_message


@pytest.fixture
def host():
    return VirtualHost("/", RecordingEffects())


def declare(host, *names):
    return [host.declare_queue(name, now=NOW) for name in names]


def walk(host, start, key="", message=None):
    way = Walk(host)
    return [queue.name for queue in way.follow(host.exchanges[start], key, message)], way.static


def test_the_default_exchange_knows_queues_by_name(host):
    declare(host, "q")
    assert walk(host, "", "q") == (["q"], True)
    assert walk(host, "", "other") == ([], True)


def test_queues_come_in_the_order_of_their_bindings_each_once(host):
    first, second = declare(host, "b", "a")
    host.declare_exchange("down", "fanout")
    host.bind_queue(first, "amq.fanout", "")
    host.bind_exchange("down", "amq.fanout", "")
    host.bind_queue(second, "amq.fanout", "")
    host.bind_queue(first, "down", "")
    assert walk(host, "amq.fanout") == (["b", "a"], True)


def test_the_routing_key_goes_along(host):
    left, right = declare(host, "left", "right")
    host.declare_exchange("words", "topic")
    host.bind_exchange("words", "amq.direct", "a.b")
    host.bind_queue(left, "words", "a.*")
    host.bind_queue(right, "words", "b.*")
    assert walk(host, "amq.direct", "a.b") == (["left"], True)
    assert walk(host, "amq.direct", "b.b") == ([], True)


def test_a_circle_is_walked_once(host):
    (queue,) = declare(host, "q")
    for source, destination in (("amq.fanout", "one"), ("one", "two"), ("two", "amq.fanout")):
        if destination not in host.exchanges:
            host.declare_exchange(destination, "fanout")
        host.bind_exchange(destination, source, "")
    host.bind_exchange("two", "two", "")
    host.bind_queue(queue, "two", "")
    assert walk(host, "amq.fanout") == (["q"], True)


def test_an_alternate_that_is_not_there_is_as_good_as_none(host):
    host.declare_exchange("e", "direct", arguments={"alternate-exchange": "later"})
    assert walk(host, "e", "k") == ([], True)
    (queue,) = declare(host, "q")
    host.declare_exchange("later", "fanout")
    host.bind_queue(queue, "later", "")
    assert walk(host, "e", "k") == (["q"], True)


def test_the_default_exchange_may_be_an_alternate(host):
    declare(host, "q")
    host.declare_exchange("e", "direct", arguments={"alternate-exchange": ""})
    assert walk(host, "e", "q") == (["q"], True)


def test_the_alternate_of_an_exchange_on_the_way_counts_too(host):
    (queue,) = declare(host, "q")
    host.declare_exchange("middle", "direct", arguments={"alternate-exchange": "last"})
    host.declare_exchange("last", "fanout")
    host.bind_exchange("middle", "amq.fanout", "")
    host.bind_queue(queue, "last", "")
    assert walk(host, "amq.fanout", "unmatched") == (["q"], True)


def test_headers_on_the_way_make_the_answer_depend_on_the_message(host):
    (queue,) = declare(host, "q")
    host.bind_queue(queue, "amq.headers", "", {"colour": "red"})
    host.bind_exchange("amq.headers", "amq.fanout", "")
    assert walk(host, "amq.fanout") == ([], False)
    assert walk(host, "amq.fanout", message=make_message(colour="red")) == (["q"], False)
    assert walk(host, "amq.fanout", message=make_message(colour="blue")) == ([], False)


def test_a_headers_exchange_without_a_match_has_an_alternate_too(host):
    (queue,) = declare(host, "q")
    host.declare_exchange("h", "headers", arguments={"alternate-exchange": "amq.fanout"})
    host.bind_queue(queue, "amq.fanout", "")
    assert walk(host, "h", message=make_message(colour="blue")) == (["q"], False)


def test_an_exchange_that_is_not_registered_can_start_a_walk(host):
    assert Walk(host).follow(FanoutExchange("loose"), "", None) == []


# ----------------------------------------------------- filters and replacement keys; rows: tests/scenarios/qpid


def reached(host, exchange, key="", **headers):
    return sorted(queue.name for queue in host.targets(make_message(**headers), host.route(exchange, key)))


def bind(host, queue, exchange, key="", **arguments):
    names = {"filter": "x-filter-jms-selector", "match": "x-match", "replacement": "x-replacement-routing-key"}
    return host.bind_queue(queue, exchange, key, {names.get(name, name): value for name, value in arguments.items()})


def test_a_circle_that_replaces_keys_ends(host):
    (queue,) = declare(host, "q")
    for source, destination, key, replacement in (
        ("amq.direct", "amq.fanout", "1", "2"),
        ("amq.fanout", "amq.direct", "", "3"),
        ("amq.direct", "amq.fanout", "3", "1"),
    ):
        host.bind_exchange(destination, source, key, {"x-replacement-routing-key": replacement})
    bind(host, queue, "amq.direct", "3")
    assert reached(host, "amq.direct", "1") == ["q"]


@pytest.mark.parametrize("kind", ["amq.direct", "amq.fanout", "amq.topic", "amq.headers"])
def test_a_filter_works_on_every_kind(host, kind):
    (queue,) = declare(host, "q")
    bind(host, queue, kind, "k", filter="colour = 'red'")
    assert [reached(host, kind, "k", colour=colour) for colour in ("red", "blue")] == [["q"], []]
    assert not host.route(kind, "k").static


def test_a_filter_between_exchanges(host):
    (queue,) = declare(host, "q")
    host.bind_exchange("amq.direct", "amq.fanout", "", {"x-filter-jms-selector": "colour = 'red'"})
    bind(host, queue, "amq.direct", "k")
    assert [reached(host, "amq.fanout", "k", colour=colour) for colour in ("red", "blue")] == [["q"], []]


def test_a_message_kept_off_by_every_filter_follows_the_alternate(host):
    first, second = declare(host, "first", "second")
    host.declare_exchange("e", "direct", arguments={"alternate-exchange": "amq.fanout"})
    bind(host, first, "e", "k", filter="colour = 'red'")
    bind(host, second, "amq.fanout")
    assert [reached(host, "e", "k", colour=colour) for colour in ("red", "blue")] == [["first"], ["second"]]


def test_a_bad_filter_refuses_the_binding_and_leaves_the_existing_one(host):
    (queue,) = declare(host, "q")
    bind(host, queue, "amq.direct", "k", filter="F = '1'")
    for bad in ("F =", 5):
        with pytest.raises(InvalidArgument, match="x-filter-jms-selector"):
            bind(host, queue, "amq.direct", "k", filter=bad)
    with pytest.raises(InvalidArgument, match="x-replacement-routing-key"):
        bind(host, queue, "amq.direct", "k", replacement=5)
    assert len(host.bindings_of_queue(queue)) == 1
    assert reached(host, "amq.direct", "k", F="1") == ["q"]


def test_each_filter_is_asked_once_about_a_message(host):
    class CountingView(TableView):
        asked = 0

        def application_property(self, message, name):
            CountingView.asked += 1
            return super().application_property(message, name)

    queues = declare(host, "a", "b", "c")
    for queue in queues:
        bind(host, queue, "amq.fanout", filter="colour = 'red'")
        bind(host, queue, "amq.fanout", "again", filter="colour  = 'red'")
    message = make_message()
    message.origin.view = CountingView({"colour": "red"})
    assert len(host.targets(message, host.route("amq.fanout", ""))) == 3
    assert CountingView.asked == 1


def test_no_local_keeps_a_connections_own_messages_from_its_queue(host):
    (queue,) = declare(host, "q")
    host.bind_queue(queue, "amq.fanout", "", {"x-qpid-no-local": True})
    mine, other = make_message(), make_message()
    mine.origin.connection, other.origin.connection = host, object()
    route = host.route("amq.fanout", "")
    assert host.targets(mine, route) == [queue]  # nobody consumes: nobody could get his own
    session = RecordingSession()
    session.connection_identity = host
    session.consume(queue)
    assert host.targets(mine, route) == []
    assert host.targets(other, route) == [queue]
