"""Caches of duplicate ids. Scenario ids U1 to U6 are those of the specification's table."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import TransactionRefused
from annulet.core.host.duplicate_ids import DuplicateCache, DuplicateCaches
from annulet.core.host.transaction import Transaction
from annulet.core.routing.diverts import Divert
from tests.core.helpers import NOW, RecordingSession
from tests.core.node_helpers import address, declare, held, make_host, note, send


def test_the_oldest_falls_out_and_a_repeat_keeps_its_place():
    cache = DuplicateCache(2)
    for identifier in "abac":
        cache.add(identifier)
    assert cache.ids() == ["b", "c"]
    assert "a" not in cache
    cache.resize(1)
    assert cache.ids() == ["c"]


def test_caches_are_by_address():
    caches = DuplicateCaches()
    caches.add("one", "x", 5)
    caches.add("two", "y", 0)
    assert caches.has("one", "x")
    assert not caches.has("two", "y")
    assert caches.addresses() == ["one"]
    caches.resize("one", 0)
    assert len(caches) == 0
    assert caches.ids("one") == []


def test_u1_an_id_is_accepted_once():
    host = make_host()
    declare(host, "q")
    assert [send(host, "q", body, duplicate_id=mark) for body, mark in (("A", "1"), ("B", "1"), ("C", "1"))] == [
        1,
        1,
        1,
    ]
    send(host, "q", "D", duplicate_id="2")
    send(host, "q", "E", duplicate_id="1")
    assert held(host, "q") == [["A", "D"]]
    assert host.publisher.duplicates_dropped == 3
    assert host.effects.noted == [("q", "1", 20_000), ("q", "2", 20_000)]


def test_u2_a_cache_of_0_detects_nothing():
    host = make_host({"q": {"id-cache-size": 0}})
    declare(host, "q")
    for body in "AB":
        send(host, "q", body, duplicate_id="1")
    assert held(host, "q") == [["A", "B"]]
    assert host.effects.noted == []


def commit(host, session, *sends, acknowledge=()):
    transaction = Transaction(session)
    for body, mark in sends:
        transaction.send(note(body), host.route("", "q"), duplicate_id=mark)
    for tag in acknowledge:
        transaction.acknowledge(tag)
    return transaction


def test_u3_ids_of_a_rolled_back_transaction_are_free():
    host = make_host()
    declare(host, "q")
    session = RecordingSession()
    commit(host, session, ("A", "1")).rollback()
    commit(host, session, ("A", "1")).commit(host, NOW)
    assert held(host, "q") == [["A"]]


def test_u4_one_duplicate_refuses_the_whole_transaction():
    host = make_host()
    declare(host, "q", "other")
    send(host, "q", "old", duplicate_id="3")
    session = RecordingSession()
    session.consume(host.queues["other"])
    send(host, "other", "taken")
    transaction = commit(host, session, *(("new", mark) for mark in "1234"), acknowledge=[1])
    with pytest.raises(TransactionRefused, match="send 3 to 'q' has duplicate id '3'"):
        transaction.commit(host, NOW)
    assert held(host, "q") == [["old"]]
    assert list(session.unacknowledged) == [1]
    assert transaction.empty
    assert host.publisher.duplicates.ids("q") == ["3"]
    assert ("begin", None) not in host.effects.calls


def test_two_sends_of_one_transaction_with_one_id_refuse_it():
    host = make_host()
    declare(host, "q")
    with pytest.raises(TransactionRefused, match="send 2"):
        commit(host, RecordingSession(), ("A", "1"), ("B", "1")).commit(host, NOW)
    assert host.publisher.duplicates.ids("q") == []


def send_twice(host):
    session = RecordingSession()
    transaction = Transaction(session)
    for body in ("first", "second"):
        transaction.send(note(body, to="a"), host.route_to("a", ""), duplicate_id="D")
    return transaction.commit(host, NOW)


def test_two_sends_with_one_id_are_fine_where_detection_is_off():
    host = make_host({"a": {"id-cache-size": 0}})
    address(host, "a", "q")
    assert send_twice(host) == []
    assert held(host, "q") == [["first", "second"]]


def test_an_id_that_reached_no_queue_does_not_refuse_the_next_send_of_the_transaction():
    host = make_host()
    host.nodes.declare_address("a")
    assert [message.body for message in send_twice(host)] == [b"first", b"second"]


def test_two_diverts_to_one_address_are_no_duplicate_of_the_sender():
    host = make_host()
    address(host, "a", "q")
    address(host, "b", "copies")
    for name in ("first", "second"):
        host.add_divert(Divert(name, "a", ("b",)))
    transaction = Transaction(RecordingSession())
    transaction.send(note("m", to="a"), host.route_to("a", ""), duplicate_id="D")
    transaction.commit(host, NOW)
    assert held(host, "q", "copies") == [["m"], ["m"]]  # as outside of a transaction
    again = Transaction(RecordingSession())
    again.send(note("m", to="b"), host.route_to("b", ""), duplicate_id="D")
    with pytest.raises(TransactionRefused, match="to 'b' has duplicate id 'D'"):
        again.commit(host, NOW)


def test_u5_a_smaller_cache_keeps_the_newest():
    host = make_host({"q": {"id-cache-size": 150}})
    declare(host, "q")
    for number in range(200):
        send(host, "q", duplicate_id=str(number))
    remembered = host.publisher.duplicates.ids("q")
    assert remembered == [str(number) for number in range(50, 200)]
    later = make_host({"q": {"id-cache-size": 100}})
    declare(later, "q")
    later.publisher.restore_duplicates("q", remembered)
    assert later.publisher.duplicates.ids("q") == remembered[50:]
    with pytest.raises(TransactionRefused):
        commit(later, RecordingSession(), *(("again", mark) for mark in remembered[100:])).commit(later, NOW)
    assert held(later, "q") == [[]]


def test_u6_the_caches_go_with_the_last_queue():
    host = make_host()
    first, second = address(host, "news", "first", "second")
    (direct,) = declare(host, "direct")
    send(host, "news", duplicate_id="1")
    send(host, "direct", duplicate_id="1")
    assert len(host.publisher.duplicates) == 2
    host.delete_queue(first, NOW)
    assert len(host.publisher.duplicates) == 2
    host.delete_queue(second, NOW)
    host.delete_queue(direct, NOW)
    assert len(host.publisher.duplicates) == 0
    assert host.effects.forgotten == ["news", "direct"]


def test_the_cache_of_an_exchange_goes_with_it():
    host = make_host()
    for name in ("source", "q"):
        host.declare_exchange(name, "fanout")
        host.declare_exchange("next", "fanout")
        host.bind_exchange("next", name, "")
    (queue,) = declare(host, "q")
    host.bind_queue(queue, "next", "")
    for name in ("source", "q"):
        assert send(host, name, duplicate_id="1") == 1
    host.delete_exchange("source")
    host.delete_exchange("q")
    assert host.publisher.duplicates.addresses() == ["q"]  # the queue of that name is still there
    assert host.effects.forgotten == ["source"]


def test_an_id_that_reached_no_queue_is_not_remembered():
    host = make_host()
    host.nodes.declare_address("news")
    assert send(host, "news", duplicate_id="1") == 0
    address(host, "news", "q")
    assert send(host, "news", "A", duplicate_id="1") == 1
    assert held(host, "q") == [["A"]]


def test_settings_that_change_resize_the_cache():
    host = make_host()
    declare(host, "q")
    for mark in "123":
        send(host, "q", duplicate_id=mark)
    host.address_settings.set("q", {"id-cache-size": 1, "persist-id-cache": False})
    assert host.publisher.duplicates.ids("q") == ["3"]
    send(host, "q", duplicate_id="4")
    assert len(host.effects.noted) == 3
