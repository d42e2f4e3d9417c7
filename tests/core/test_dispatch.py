"""Who is served: priority, then turns."""

from __future__ import annotations

import pytest

from annulet.core.consumer import Consumer
from annulet.core.dispatch import CompetingDispatch
from annulet.core.settings import BROWSE_FOLLOW
from tests.core.helpers import NOW, RecordingSession, make_queue, queue_of, send


def test_equal_consumers_take_turns_and_lower_priority_waits_for_blocked_ones():
    queue, session = make_queue(), RecordingSession()
    session.consume(queue, "low", priority=-1)
    session.consume(queue, "x", messages=2)
    session.consume(queue, "y", messages=1)
    send(queue, "1", "2", "3", "4")
    assert session.by_consumer == {"x": ["1", "3"], "y": ["2"], "low": ["4"]}


@pytest.mark.parametrize(("leaves", "following"), [("a", "cbc"), ("b", "cac"), ("c", "aba")])
def test_the_turn_stays_with_the_same_consumer_when_another_leaves(leaves, following):
    dispatch, session, queue = CompetingDispatch(), RecordingSession(), make_queue()
    consumers = {tag: Consumer(session, queue, tag) for tag in "abc"}
    for consumer in consumers.values():
        dispatch.add(consumer)
    served = [dispatch.choose(0), dispatch.choose(0)]
    assert served == [consumers["a"], consumers["b"]]
    dispatch.remove(consumers[leaves])
    assert "".join(dispatch.choose(0).tag for _ in range(3)) == following
    with pytest.raises(ValueError, match="not attached"):
        dispatch.remove(consumers[leaves])


def test_live_and_former_consumers_are_named_without_an_election():
    queue, one, two = queue_of(single_active_consumer=True), RecordingSession("1"), RecordingSession("2")
    first = one.consume(queue, "first")
    send(queue, "a")
    second = two.consume(queue, "second")
    assert (queue.consumers.live, queue.consumers.former) == ([first], [])
    one.detach("first", NOW)
    assert (queue.consumers.live, queue.consumers.former) == ([], [first])
    queue.acknowledge(one.unacknowledged.pop(1))
    assert (queue.consumers.live, queue.consumers.former) == ([], [])
    send(queue, "b")
    assert queue.consumers.live == [second]


def test_who_comes_before_others_by_priority_is_known():
    queue, session, other = make_queue(), RecordingSession("1"), RecordingSession("2")
    low = session.consume(queue, "low")
    assert not queue.consumers.outranks(low), "there is nobody else"
    high = other.consume(queue, "high", priority=1)
    assert (queue.consumers.outranks(low), queue.consumers.outranks(high)) == (False, True)
    assert (session.outranks, other.outranks) == (False, True)
    browser = other.consume(make_queue(), "browser", browse=BROWSE_FOLLOW)
    assert not browser.queue.consumers.outranks(browser), "nobody is served there"
