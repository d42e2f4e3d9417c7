"""One source of bodies for all queues: the log, or where they were spilled, or what was read ahead."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import ContentUnavailable
from annulet.core.deliveries.bodies import CLAIMED_BYTES
from annulet.core.queue.queue import Queue
from annulet.residency.bodies import body_store
from annulet.residency.bodies.body_store import BodyStore, key_of
from annulet.residency.loading.figures import PagingFigures
from tests.core.helpers import make_message
from tests.residency.doubles import Disk, Spill, durable_queue, plenty, spilling_of

BODY = b"x" * 300


def store_of(disk: Disk, spill: Spill) -> BodyStore:
    return BodyStore(disk, PagingFigures(), plenty, None, spilling_of(spill))


def logged(disk: Disk, body: bytes = BODY):
    message = make_message(body)
    disk.store(durable_queue(), message, 1)
    return message


def placed(spill: Spill, body: bytes = BODY):
    message = make_message(body)
    message.spill = spill.place(body)
    return message


def test_each_body_comes_from_where_it_is():
    disk, spill = Disk(), Spill()
    messages = [placed(spill, b"a" * 300), logged(disk, b"b" * 300), placed(spill, b"c" * 300)]
    store = store_of(disk, spill)
    assert store.read(messages) == [b"a" * 300, b"b" * 300, b"c" * 300]
    assert (disk.reads, spill.reads, store.figures.bodies_read) == ([1], [2], 3)


def test_what_is_damaged_in_one_place_is_looked_for_in_the_other():
    disk, spill = Disk(), Spill()
    both, only = logged(disk), placed(spill)
    both.spill = spill.place(BODY)
    spill.damaged = {both.spill.number, only.spill.number}
    assert store_of(disk, spill).read([only, both]) == [None, BODY]
    disk.damaged = {both.record}
    assert store_of(disk, spill).read([only, both]) == [None, None]


def test_what_is_in_both_can_be_had_from_the_log_alone():
    disk, spill = Disk(), Spill()
    both = logged(disk)
    both.spill = spill.place(BODY)
    spill.failing = True
    store = store_of(disk, spill)
    with pytest.raises(OSError, match="Input/output"):
        store.read([both])
    assert store.read_logged(both) == BODY
    disk.damaged = {both.record}
    assert store.read_logged(both) is None


def test_a_body_of_another_length_is_not_that_message():
    disk, spill = Disk(), Spill()
    message = placed(spill)
    message.size += 1
    assert store_of(disk, spill).read([message]) == [None]


def test_keys_tell_records_from_places():
    disk, spill = Disk(), Spill()
    one, other, third = logged(disk), placed(spill), placed(spill)
    assert key_of(one) == one.record > 0
    assert key_of(third) < key_of(other) < 0


def test_what_was_read_ahead_is_not_read_again(monkeypatch: pytest.MonkeyPatch):
    disk, spill = Disk(), Spill()
    message = placed(spill)
    store = store_of(disk, spill)
    message.source = store
    message.leave()
    assert not store.at_hand(message)
    store.keep_ahead([message], store.read([message]))
    assert store.at_hand(message)
    assert store.body_of(message) == BODY
    assert spill.reads == [1]
    monkeypatch.setattr(body_store, "AHEAD_BYTES", 300)
    other = placed(spill)
    store.keep_ahead([other], [BODY])
    assert store.ahead_bytes == 300
    assert store.body_of(message) == BODY
    assert spill.reads == [1, 1]


def test_what_the_disk_refuses_or_lost_is_an_error_that_says_which():
    disk, spill = Disk(), Spill()
    store = store_of(disk, spill)
    message = placed(spill)
    spill.failing = True
    with pytest.raises(ContentUnavailable, match="the disk does not give it now"):
        store.body_of(message)
    spill.failing = False
    spill.damaged = {message.spill.number}
    with pytest.raises(ContentUnavailable, match="damaged"):
        store.body_of(message)


def test_the_disk_is_asked_ahead_for_both():
    disk, spill = Disk(), Spill()
    messages = [logged(disk), placed(spill)]
    store_of(disk, spill).prefetch(messages)
    assert (disk.prefetched, spill.prefetched) == ([messages[0].record], [messages[1].spill])


def test_accounts_are_looked_at_when_what_came_to_all_queues_is_a_load() -> None:
    told: list[Queue] = []
    store = BodyStore(Disk(), PagingFigures(), plenty, told.append)
    one, two, three = durable_queue(), durable_queue(), durable_queue()
    store.loaded(one, CLAIMED_BYTES // 2)
    store.loaded(two, CLAIMED_BYTES // 2 - 1)
    assert told == []
    store.loaded(one, 1)
    assert told == [one, two]
    store.loaded(three, CLAIMED_BYTES - 1)
    assert told == [one, two], "it begins anew"
    store.loaded(three, 1)
    assert told == [one, two, three]
    store.loaded(one, CLAIMED_BYTES - 1)
    store.close()
    store.loaded(one, CLAIMED_BYTES)
    assert told == [one, two, three]
