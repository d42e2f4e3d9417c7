"""The walk from an exchange to queues."""

from __future__ import annotations

import pytest

from annulet.core.exchanges import FanoutExchange
from annulet.core.routing import Walk
from annulet.core.virtual_host import VirtualHost
from tests.core.helpers import NOW, RecordingEffects, make_message


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
