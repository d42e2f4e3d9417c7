"""Which messages an operator means, and what is refused before anything is looked at."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import InvalidArgument
from annulet.core.management.selection import IDS_MAX, select
from tests.core.helpers import NOW, RecordingSession, make_message, queue_of


@pytest.fixture
def entries():
    queue = queue_of()
    return [queue.enqueue(make_message(str(number), n=number), NOW) for number in range(4)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"ids": [2, 4, 9]}, [1, 3]),
        ({"ids": []}, []),
        ({"selector": "n > 1"}, [2, 3]),
        ({"selector": "missing > 1"}, []),
        ({"everything": True}, [0, 1, 2, 3]),
    ],
)
def test_ways_to_select(entries, given, expected):
    selection = select(**given)
    assert [index for index, entry in enumerate(entries) if selection.matches(entry)] == expected


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "exactly one way: ids, a selector, or everything"),
        ({"ids": [1], "selector": "a = 1"}, "given were 1 ids, selector='a = 1', everything=False"),
        ({"everything": True, "ids": [1]}, "exactly one way"),
        ({"selector": "n >"}, "invalid selector: "),
        ({"ids": [0]}, "0 is no message id"),
        ({"ids": [True]}, "True is no message id"),
        ({"ids": ["7"]}, "'7' is no message id"),
        ({"ids": range(1, IDS_MAX + 2)}, f"more than {IDS_MAX}"),
        ({"everything": True, "limit": 0}, "limit=0: give how many"),
        ({"everything": True, "limit": -2}, "limit=-2"),
        ({"everything": True, "limit": True}, "limit=True"),
    ],
)
def test_what_is_refused(given, text):
    with pytest.raises(InvalidArgument) as refusal:
        select(**given)
    assert text in str(refusal.value)


def test_an_operators_selector_may_ask_how_often_a_message_was_delivered():
    queue, session = queue_of(), RecordingSession()
    old, new = (queue.enqueue(make_message(body), NOW) for body in "ab")
    session.consume(queue, messages=1)
    session.close(NOW)
    again = select(selector="JMSXDeliveryCount > 1 AND amqp.delivery_count = 1 AND JMSRedelivered AND JMSPriority = 4")
    assert (again.matches(old), again.matches(new)) == (True, False)
    assert select(selector="NOT amqp.redelivered").matches(new)


def test_it_is_quoted_for_the_audit_trail():
    assert str(select(everything=True)) == "all messages"
    assert str(select(selector="n > 1", limit=5, scheduled=True)) == "selector n > 1, with scheduled ones, limit 5"
    assert str(select(ids=[3, 1])) == "ids 1, 3"
    assert str(select(ids=range(1, 31))).endswith("19, 20 and 10 more")
