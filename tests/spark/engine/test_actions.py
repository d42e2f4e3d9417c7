"""What commands do to a queue, and what is refused; the core's own rules are tested with the core."""

from __future__ import annotations

from typing import Any

import pytest

from annulet.spark.engine.commands import parse_command
from annulet.spark.engine.effects import BLOCKED, CANCELLED, DELIVERY, FORWARD, LOSS, OUTCOME, UNBLOCKED, Effect
from annulet.spark.engine.replica import Replica
from tests.spark.engine.histories import given


class Queue:
    """A replica and the next sequence."""

    def __init__(self, **arguments: Any) -> None:
        self.replica = Replica("q")
        self.sequence = 0
        self.do("configure", arguments={name.replace("_", "-"): value for name, value in arguments.items()})

    def do(self, command: str, body: bytes = b"", **fields: Any) -> list[Effect]:
        self.sequence += 1
        one = given("q", self.sequence, body, command=command, **fields)
        return self.replica.apply(parse_command(one[2]), one[3])

    def outcome(self, command: str, body: bytes = b"", **fields: Any) -> Effect:
        effects = self.do(command, body, **fields)
        assert [one.effect for one in effects].count(OUTCOME) == 1
        assert effects[-1].effect == OUTCOME
        assert [one.number for one in effects] == list(range(len(effects)))
        return effects[-1]


def delivered(effects: list[Effect]) -> list[tuple[Any, ...]]:
    return [(one.consumer, one.tag, one.body) for one in effects if one.effect == DELIVERY]


def test_get_ends_where_it_would_find_the_same_message_for_ever() -> None:
    queue = Queue(x_non_destructive=True)
    queue.do("publish", b"a")
    queue.do("publish", b"b")
    assert delivered(queue.do("get", session="s", credit=2**62)) == [(None, 1, b"a")]
    assert queue.outcome("get", session="s", credit=2**62, automatic=True).messages == 1


def test_a_queue_that_is_not_there_is_told_so() -> None:
    replica = Replica("q")
    for sequence, command in enumerate(("publish", "purge", "delete", "pause", "resume", "restored"), 1):
        one = given("q", sequence, command=command, message=1)
        assert replica.apply(parse_command(one[2]), b"")[-1].reason == (
            "field 'queue' is 'q': there is no such queue; configure it first"
        )


def test_settings_are_the_brokers_arguments_and_change_while_the_queue_lives() -> None:
    queue = Queue(x_ring_size=2)
    for body in (b"a", b"b"):
        queue.do("publish", body)
    assert queue.outcome("configure", arguments={"x-ring-size": 1, "x-ring-trim": "now"}).state == "done"
    assert [one.state for one in (queue.outcome("purge"),)] == ["done"]
    refused = queue.outcome("configure", arguments={"x-priorities": 3})
    assert "cannot be changed" in str(refused.reason)
    assert "x-rings" in str(queue.outcome("configure", arguments={"x-rings": 3}).reason)
    assert queue.outcome("configure", arguments={"x-expires": 5}).reason == (
        "field 'arguments': expires is 5, and a queue of the engine goes when a 'delete' command says so; leave it out"
    )


def test_a_message_may_be_filtered_a_duplicate_or_refused() -> None:
    queue = Queue(x_selector="colour = 'red'", x_max_length=1, x_overflow="reject")
    red = {"properties": {"colour": "red"}}
    assert queue.outcome("publish", properties={"colour": "blue"}).state == "filtered"
    assert queue.outcome("publish", b"1", duplicate_id="d", **red).message == 1
    assert queue.outcome("publish", b"2", duplicate_id="d", **red).state == "duplicate"
    refused = queue.outcome("publish", b"3", **red)
    assert (refused.state, refused.message) == ("refused", None)
    assert refused.reason


def test_link_credit_is_used_up_and_prefetch_is_not() -> None:
    queue = Queue()
    for body in (b"1", b"2", b"3", b"4"):
        queue.do("publish", body)
    assert delivered(queue.do("consume", session="s", consumer="c", credit=1, credit_mode="link", automatic=True)) == [
        ("c", 1, b"1")
    ]
    assert delivered(queue.do("credit", session="s", consumer="c", credit=1)) == [("c", 2, b"2")]
    assert queue.outcome("cancel", session="s", consumer="c").state == "done"
    assert delivered(queue.do("consume", session="s", consumer="p", credit=1)) == [("p", 3, b"3")]
    assert delivered(queue.do("acknowledge", session="s", tag=3)) == [("p", 4, b"4")]
    assert delivered(queue.do("credit", session="s", consumer="p", credit=5)) == []


def test_deliveries_come_back_counted_or_not() -> None:
    queue = Queue()
    queue.do("publish", b"1")
    queue.do("get", session="s")
    assert queue.outcome("release", session="s", tag=1).messages == 1
    again = queue.do("get", session="s")[0]
    assert (again.tag, again.delivery_count, again.redelivered) == (2, 0, True)
    assert queue.outcome("requeue", session="s", tag=0, multiple=True).messages == 1
    assert queue.do("get", session="s")[0].delivery_count == 1
    assert queue.outcome("rollback", session="s").messages == 1
    assert queue.do("get", session="s")[0].delivery_count == 2
    assert queue.outcome("close", session="s").messages == 1
    assert queue.do("get", session="s")[0].tag == 1  # another session of the same name
    assert [one.reason for one in queue.do("reject", session="s", tag=1)] == ["rejected", None]
    assert queue.outcome("rollback", session="s").messages == 0


def test_sessions_consumers_and_tags_that_are_not_there_are_told_so() -> None:
    queue = Queue(x_max_consumers=1)
    assert "'s': it is not open" in str(queue.outcome("acknowledge", session="s", tag=1).reason)
    queue.do("consume", session="s", consumer="c")
    assert "has one of that name" in str(queue.outcome("consume", session="s", consumer="c").reason)
    assert "max-consumers is 1" in str(queue.outcome("consume", session="s", consumer="d").reason)
    assert "has none such" in str(queue.outcome("cancel", session="s", consumer="d").reason)
    assert "holds no such delivery" in str(queue.outcome("acknowledge", session="s", tag=1).reason)
    assert "argument 'x-priority'" in str(queue.outcome("consume", session="s", consumer="e",
                                                         arguments={"x-priority": "high"}).reason)  # fmt: skip


def test_a_deleted_queue_cancels_its_consumers_and_may_come_again() -> None:
    queue = Queue()
    queue.do("consume", session="s", consumer="c", credit=1)
    for body in (b"1", b"2"):
        queue.do("publish", body)
    effects = queue.do("delete")
    assert [(one.effect, one.message, one.consumer) for one in effects] == [
        (LOSS, 2, None), (LOSS, 1, None), (CANCELLED, None, "c"), (OUTCOME, None, None),
    ]  # fmt: skip
    assert queue.outcome("acknowledge", session="s", tag=1).state == "done"  # as with the broker: it is gone already
    assert queue.outcome("configure").state == "done"
    assert queue.outcome("publish", b"3").message == 1


def test_publishers_hear_when_to_wait_and_a_pause_stops_dispatch() -> None:
    queue = Queue(x_max_length=1, x_overflow="block")
    queue.do("pause")
    assert [one.effect for one in queue.do("publish", b"1")] == [OUTCOME]
    assert [one.effect for one in queue.do("publish", b"2")] == [BLOCKED, OUTCOME]
    assert delivered(queue.do("consume", session="s", consumer="c", automatic=True)) == []
    assert [one.effect for one in queue.do("resume")] == [DELIVERY, DELIVERY, UNBLOCKED, OUTCOME]


@pytest.mark.parametrize("count", [0, 3])
def test_a_purge_tells_every_loss(count: int) -> None:
    queue = Queue()
    for number in range(count):
        queue.do("publish", bytes(number))
    assert [one.reason for one in queue.do("purge")] == ["purged"] * count + [None]


def test_messages_expire_when_they_are_due_or_are_told_to() -> None:
    queue = Queue(x_expiry_address="late")
    for body, expires_at in ((b"a", 5), (b"b", 0), (b"c", 0), (b"d", 9)):
        queue.do("publish", body, at=1, expires_at=expires_at, properties={"body": body.decode()})

    def expired(at: int, **arguments: Any) -> list[Any]:
        effects = queue.do("expire", at=at, arguments=arguments)
        forwards = [one.body for one in effects if one.effect == FORWARD]
        return [*forwards, effects[-1].state, effects[-1].messages]

    assert expired(4) == ["done", 0]
    assert expired(5) == [b"a", "done", 1]
    assert expired(9, selector="body = 'b'") == [b"d", b"b", "done", 2]
    assert expired(9, ids=[2, 3]) == [b"c", "done", 1]
    assert queue.outcome("purge").messages == 0
    allowed = "a selection has ids, selector, everything, limit, scheduled"
    for arguments, reason in (
        ({"id": 1}, f"field 'arguments': Object contains unknown field `id`; {allowed}"),
        ({"ids": 1}, f"field 'arguments': Expected `array | null`, got `int` - at `$.ids`; {allowed}"),
        ({"limit": 1}, "messages are selected in exactly one way: ids, a selector, or everything"),
    ):
        assert str(queue.outcome("expire", arguments=arguments).reason).startswith(reason)
