"""Credit: how much may be out at once."""

from __future__ import annotations

import pytest

from annulet.core.model.consumer import Consumer, CreditWindow, LinkCredit
from tests.core.helpers import RecordingSession, make_queue


@pytest.mark.parametrize(("out", "allowed"), [(1, True), (2, False), (3, False)])
def test_messages_below_at_and_above_the_limit(out, allowed):
    window = CreditWindow(2)
    for _ in range(out):
        window.take(100)
    assert window.allows(0) is allowed


@pytest.mark.parametrize(("size", "allowed"), [(4, True), (5, True), (6, False)])
def test_bytes_below_at_and_above_the_limit(size, allowed):
    window = CreditWindow(-1, 10)
    window.take(5)
    assert window.allows(size) is allowed


def test_an_oversized_message_passes_only_when_nothing_is_out():
    window = CreditWindow(-1, 10)
    assert window.allows(1000)
    window.take(1000)
    assert not window.allows(0)
    window.give_back(1000)
    assert (window.messages, window.bytes, window.allows(1000)) == (0, 0, True)


def test_a_byte_window_of_nothing_still_moves_one_message_at_a_time():
    window = CreditWindow(-1, 0)
    assert window.allows(7)
    window.take(7)
    assert not window.allows(7)


def test_empty_bodies_do_not_fill_a_byte_window():
    window = CreditWindow(-1, 10)
    for _ in range(3):
        assert window.allows(0)
        window.take(0)
    assert window.messages == 3


def test_no_credit_and_no_limit():
    assert not CreditWindow(0).allows(0)
    window = CreditWindow()
    for _ in range(10_000):
        window.take(1 << 20)
    assert window.allows(1 << 40)


def test_a_consumer_needs_room_in_its_own_window_and_in_its_sessions():
    session, queue = RecordingSession(), make_queue()
    session.window = CreditWindow(2)
    first = Consumer(session, queue, "1", window=CreditWindow(1))
    second = Consumer(session, queue, "2")
    first.take(5)
    assert (first.allows(0), second.allows(0)) == (False, True)
    second.take(5)
    assert not second.allows(0)
    assert (session.window.messages, session.window.bytes) == (2, 10)
    first.give_back(5)
    assert first.allows(0)
    assert second.allows(0)
    assert (first.window.messages, first.window.bytes, session.window.bytes) == (0, 0, 5)


def test_without_acknowledgements_only_the_connection_limits():
    session = RecordingSession()
    session.window = CreditWindow(0)
    consumer = Consumer(session, make_queue(), "c", window=CreditWindow(0), auto_acknowledge=True)
    assert consumer.allows(1 << 30)
    session.writable = False
    assert not consumer.allows(0)


def test_every_consumer_has_a_window_of_its_own():
    session, queue = RecordingSession(), make_queue()
    first, second = Consumer(session, queue, "1"), Consumer(session, queue, "2")
    first.take(1)
    assert (first.window.messages, second.window.messages) == (1, 0)


def test_link_credit_is_used_up_and_comes_back_only_by_a_grant():
    credit = LinkCredit()
    assert not credit.allows(1)
    credit.grant(2)
    credit.take(10)
    credit.give_back(10)
    assert (credit.messages_max, credit.allows(1 << 30)) == (1, True)
    credit.take(10)
    credit.take(10)  # granted by nobody, and below nothing there is nothing
    assert (credit.messages_max, credit.allows(0)) == (0, False)


def test_link_credit_binds_a_consumer_that_settles_at_once():
    session, queue = RecordingSession(), make_queue()
    consumer = Consumer(session, queue, "c", window=LinkCredit(), auto_acknowledge=True)
    assert (consumer.ready, consumer.allows(1)) == (False, False)
    consumer.window.grant(1)
    assert (consumer.ready, consumer.allows(1)) == (True, True)
