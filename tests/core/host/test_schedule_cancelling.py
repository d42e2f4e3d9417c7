"""Taking back scheduled messages: wherever the destination led them, by name, and nothing else."""

from __future__ import annotations

from annulet.core.host.schedule_cancelling import cancel_scheduled
from annulet.core.host.virtual_host import VirtualHost
from annulet.core.model.entry import QueueEntry
from annulet.core.routing.diverts import Divert
from tests.core.helpers import NOW
from tests.core.node_helpers import address, declare, held, make_host, note


def schedule(host: VirtualHost, exchange: str, key: str, name: str, body: str = "m", **properties: str) -> None:
    message = note(body, to=exchange, schedule_id=name, **properties)
    message.origin.routing_key = key
    message.deliver_at = NOW + 1000
    host.publisher.publish(message, host.route(exchange, key), NOW)


def cancel(host: VirtualHost, exchange: str, key: str, name: str, **properties: str) -> list[QueueEntry]:
    message = note(to=exchange, **properties)
    return cancel_scheduled(host, message, host.route(exchange, key), name, NOW + 1)


def scheduled(host: VirtualHost, *names: str) -> list[list[str]]:
    return [[entry.message.body.decode() for entry in host.queues[name].schedule.entries()] for name in names]


def test_the_message_of_that_name_goes_as_deleted_and_others_stay():
    host = make_host()
    (queue, other) = declare(host, "q", "other")
    for key, name in (("q", "a"), ("q", "b"), ("other", "a")):
        schedule(host, "", key, name, name)
    (removed,) = cancel(host, "", "q", "a")
    assert removed.queue is queue
    assert scheduled(host, "q", "other") == [["b"], ["a"]]
    assert queue.statistics().removed == {"deleted": 1}
    assert [(record.queue, record.reason.value) for record in host.ledger.query()] == [("q", "deleted")]
    assert cancel(host, "", "q", "a") == cancel(host, "", "q", "unknown") == cancel(host, "", "nowhere", "b") == []
    assert other.schedule.count == 1


def test_what_has_fallen_due_is_not_taken_back():
    host = make_host()
    declare(host, "q")
    schedule(host, "", "q", "a")
    host.tick(NOW + 1000)
    assert cancel(host, "", "q", "a") == []
    assert held(host, "q") == [["m"]]


def test_every_queue_behind_an_exchange_and_further_keys():
    host = make_host()
    one, two, three = declare(host, "one", "two", "three")
    host.declare_exchange("words", "topic")
    host.bind_queue(one, "words", "a.*")
    host.bind_queue(two, "words", "a.b")
    host.bind_queue(three, "words", "c")
    schedule(host, "words", "a.b", "x")
    schedule(host, "words", "c", "x")
    route = host.route("words", "a.b")
    assert len(cancel_scheduled(host, note(to="words"), route, "x", NOW + 1, further_keys=("c",))) == 3


def test_filters_are_not_asked_as_a_cancellation_need_not_look_like_the_message():
    host = make_host()
    declare(host, "q", arguments={"x-selector": "colour = 'red'"})
    schedule(host, "", "q", "a", colour="red")
    assert len(cancel(host, "", "q", "a")) == 1


def test_whichever_anycast_queue_had_its_turn_and_nobody_loses_one():
    host = make_host()
    address(host, "work", "one", "two", types=("anycast",))
    for name in ("a", "b", "c"):
        schedule(host, "work", "", name, name)
    assert [len(cancel(host, "work", "", name)) for name in ("b", "a")] == [1, 1]
    schedule(host, "work", "", "d", "d")
    assert scheduled(host, "one", "two") == [["c"], ["d"]]


def test_copies_of_diverts_go_with_the_original():
    host = make_host()
    declare(host, "q", "copy", "back")
    host.add_divert(Divert("there", "q", ("copy",), selector="colour = 'red'"))
    host.add_divert(Divert("further", "copy", ("q", "back"), exclusive=True))
    schedule(host, "", "q", "a", colour="red")
    assert [len(bodies) for bodies in scheduled(host, "q", "copy", "back")] == [1, 0, 1]
    assert len(cancel(host, "", "q", "a")) == 2


def test_behind_an_alternate_that_a_filter_led_to():
    host = make_host()
    (refusing,) = declare(host, "refusing", arguments={"x-selector": "colour = 'red'"})
    (taking,) = declare(host, "taking")
    host.declare_exchange("rest", "fanout")
    host.declare_exchange("in", "direct", arguments={"alternate-exchange": "rest"})
    host.bind_queue(refusing, "in", "k")
    host.bind_queue(taking, "rest", "")
    schedule(host, "in", "k", "a")
    assert scheduled(host, "taking") == [["m"]]
    assert len(cancel(host, "in", "k", "a")) == 1
