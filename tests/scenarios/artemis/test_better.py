"""Rules of ours where Artemis's specification lists a defect or a choice we did not follow: B1 to B27 of the table in
``docs/differences/artemis.md``. B2 is proven in ``tests/durability``."""

from __future__ import annotations

from dataclasses import replace

import pytest

from annulet.core.base.errors import InvalidArgument, LimitExceeded
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.settings import UNLIMITED
from annulet.core.host.transaction import Transaction
from tests.scenarios.artemis.scene import SECOND, Client, Scene, numbers


@pytest.fixture
def scene():
    return Scene()


# ---------------------------------------------------------------------- rings


def test_b1_drops_are_counted_by_their_cause(scene):
    scene.queue(ring_size=2, last_value_key="k")
    scene.send("a1", "a2", "b1", "c1")
    assert scene.figures("messages_replaced") == (2,)
    assert (scene.removed("replaced-key"), scene.removed("replaced-ring")) == (1, 1)


@pytest.mark.parametrize("size", [pytest.param(0, id="B3-zero"), pytest.param(-2, id="B3-below")])
def test_a_ring_size_that_keeps_nothing_is_refused(scene, size):
    with pytest.raises(InvalidArgument, match=rf"ring-size.*{size}"):
        scene.queue(ring_size=size)
    assert "q" not in scene.host.queues


def test_b4_the_limit_holds_when_the_call_returns_even_while_dispatch_is_held_back(scene):
    queue = scene.queue(ring_size=3)
    queue.pause(scene.now)
    for number in range(20):
        scene.send(str(number))
        assert scene.figures("message_count messages_replaced") == (min(number + 1, 3), max(0, number - 2))


def test_b5_what_is_dropped_is_on_record_and_can_be_sent_on(scene):
    scene.queue(ring_size=1, dropped_address="dropped")
    scene.queue("dropped")
    scene.send("old", "new")
    (record,) = scene.host.ledger.query(queue="q", reason=RemovalReason.REPLACED_RING)
    assert (record.sequence, record.replaced_by, record.rule) == (1, 2, "ring-size=1")
    assert record.forwarded_to == "dropped-address 'dropped'"
    assert scene.held("dropped") == ["old"]


def test_b6_a_consumer_with_credit_is_served_before_anything_is_dropped(scene):
    queue, client = scene.queue(ring_size=1), Client(scene)
    client.listen(queue, messages=10)
    transaction = Transaction(Client(scene))
    for body in numbers(0, 12):
        scene.collect(transaction, body)
    transaction.commit(scene.host, scene.now)
    assert (client.received, scene.held()) == (numbers(0, 10), ["11"])
    assert scene.figures("messages_replaced") == (1,)


@pytest.mark.parametrize(
    "way",
    [
        pytest.param(Client.leave, id="B7-close"),
        pytest.param(Client.roll_back_all, id="B7-rollback"),
        pytest.param(lambda client: client.reject(1, client.scene.now, requeue=True), id="B7-requeue"),
    ],
)
def test_whatever_brings_a_message_back_it_waits_for_its_redelivery(scene, way):
    queue, client = scene.queue(redelivery_delay=SECOND), Client(scene)
    scene.send("m")
    client.pull(queue, settle=False)
    way(client)
    assert scene.figures("scheduled_count pending_count") == (1, 0)
    scene.pass_time(SECOND)
    assert scene.held() == ["m"]


@pytest.mark.parametrize(
    "way", [pytest.param(Client.leave, id="B8-close"), pytest.param(Client.roll_back_all, id="B8-rollback")]
)
def test_every_delivery_that_comes_back_is_an_attempt(scene, way):
    queue = scene.queue(max_delivery_attempts=2)
    scene.send("m")
    for _ in range(2):
        client = Client(scene)
        assert client.pull(queue, settle=False) == "m"
        way(client)
    assert scene.figures("message_count messages_rejected") == (0, 1)


def test_b9_what_a_commit_pushes_out_of_a_ring_leaves_with_that_commit(scene):
    queue = scene.host.declare_queue("q", now=scene.now, durable=True, arguments={"x-ring-size": 1})
    queue.queue_id = 1
    scene.send("old", durable=True)
    scene.effects.calls.clear()
    transaction = Transaction(Client(scene))
    scene.collect(transaction, "new", durable=True)
    transaction.commit(scene.host, scene.now)
    assert sorted(call for call, _ in scene.effects.calls[1:-1]) == ["settle", "store"]
    assert [scene.effects.calls[0][0], scene.effects.calls[-1][0]] == ["begin", "end"]


def test_b10_what_has_expired_is_not_what_the_ring_drops(scene):
    scene.queue(ring_size=2)
    scene.send("A")
    scene.send("B", ttl=10)
    scene.clock.advance(10)  # nobody looked at the queue since
    scene.send("C")
    assert scene.held() == ["A", "C"]
    assert scene.figures("messages_expired messages_replaced") == (1, 0)


# ---------------------------------------------------------------------- non-destructive queues, operators


def test_b11_a_message_that_is_read_counts_once_also_when_the_ring_takes_it_meanwhile(scene):
    queue, client = scene.queue(ring_size=2, non_destructive=True), Client(scene)
    client.listen(queue)
    for number in range(5):
        scene.send(str(number))
    assert scene.figures("message_count delivering_count messages_replaced") == (2, 5, 3)
    client.settle_all()
    assert scene.figures("message_count delivering_count") == (2, 0)


@pytest.mark.parametrize("counted", [pytest.param(True, id="B12-modified"), pytest.param(False, id="B12-released")])
def test_a_copy_that_comes_back_is_not_a_second_message(scene, counted):
    queue, client = scene.queue(non_destructive=True), Client(scene)
    client.listen(queue)
    scene.send("m")
    queue.return_entries(client.take(1, multiple=False), scene.now, counted=counted)
    assert scene.held() == ["m"]
    assert scene.figures("message_count delivering_count") == (1, 0)
    assert client.received == ["m"]


@pytest.mark.parametrize("non_destructive", [pytest.param(False, id="B13"), pytest.param(True, id="B13-copied")])
def test_an_operator_removes_one_as_many_with_one_reason(scene, non_destructive):
    queue = scene.queue(non_destructive=non_destructive)
    scene.send(*numbers(0, 5))
    for entry in queue.order.entries()[:3]:
        assert queue.remove(entry, RemovalReason.DELETED, scene.now)
    assert scene.held() == ["3", "4"]
    assert scene.removed("deleted") == 3
    assert scene.figures("messages_acknowledged messages_killed") == (0, 3)


# ---------------------------------------------------------------------- last value


@pytest.mark.parametrize("held_back", [pytest.param("pause", id="B14-paused"), pytest.param("gate", id="B14-gate")])
def test_values_replace_each_other_although_nothing_is_dispatched(scene, held_back):
    queue = scene.queue(last_value_key="k", consumers_before_dispatch=2)
    if held_back == "pause":
        queue.pause(scene.now)
    else:
        Client(scene).listen(queue)
    scene.send(*[f"a{number}" for number in range(100)])
    assert scene.held() == ["a99"]
    assert scene.figures("message_count messages_replaced") == (1, 99)


def test_b15_a_superseded_value_does_not_come_back_although_the_newer_one_is_gone(scene):
    queue, client = scene.queue(last_value_key="k"), Client(scene)
    scene.send("a1")
    client.pull(queue, settle=False)
    scene.send("a2")
    assert client.pull(queue) == "a2"
    client.leave()
    assert scene.held() == []
    assert scene.removed("replaced-key") == 1


def test_b16_keys_are_equal_by_type_and_value(scene):
    scene.queue(last_value_key="code")
    values = (1, "1", True, 1.0)
    for round_number in range(2):
        for value in values:
            scene.send(f"{round_number}", code=value)
    assert scene.held() == ["1"] * len(values)
    assert scene.figures("key_count messages_replaced") == (4, 4)


@pytest.mark.parametrize(
    ("name", "left"),
    [pytest.param("x-last-value-key", 2, id="B17"), pytest.param("last-value-key", 1, id="B17-by-its-own-name")],
)
def test_another_property_is_a_key_only_where_that_was_asked_for(scene, name, left):
    scene.host.declare_queue("q", now=scene.now, arguments={name: "code"})
    for body in ("one", "two"):
        scene.send(body, _AMQ_LVQ_NAME="x")
    assert scene.figures("message_count") == (left,)


def test_b18_what_is_in_delivery_counts_on_a_last_value_queue_too(scene):
    queue, client = scene.queue(last_value_key="k"), Client(scene)
    client.listen(queue, messages=1)
    scene.send("a1", "b1")
    assert scene.figures("message_count pending_count delivering_count") == (2, 1, 1)


# ---------------------------------------------------------------------- settings


def test_b19_the_tighter_of_two_patterns_wins_and_not_the_longer_text():
    scene = Scene({"#.averylonglastword": {"default-ring-size": 1}, "a.b.#": {"default-ring-size": 2}})
    queue = scene.queue(address="a.b.averylonglastword")
    assert (queue.settings.ring_size, queue.origins["ring_size"]) == (2, "address setting 'a.b.#'")


def test_b20_declared_and_automatic_queues_take_the_same_settings_and_say_where_from():
    scene = Scene({"ring.#": {"default-ring-size": 7}})
    automatic = scene.host.nodes.resolve_node("ring.automatic", scene.now, routing_type="anycast").queue
    assert automatic is not None
    for queue in (scene.queue("ring.declared"), automatic):
        assert (queue.settings.ring_size, queue.origins["ring_size"]) == (7, "address setting 'ring.#'")
    own = scene.queue("ring.own", ring_size=9)
    assert (own.settings.ring_size, own.origins["ring_size"]) == (9, "argument 'x-ring-size'")


# ---------------------------------------------------------------------- dispatch and time


def test_b21_a_busy_owner_of_a_group_holds_up_nobody_else(scene):
    queue, busy, free = scene.queue(group_mode="sticky"), Client(scene), Client(scene)
    busy.listen(queue, messages=1)
    for body in ("a1", "a2", "b1", "a3", "b2"):
        scene.send(body, JMSXGroupID=body[0])
        if body == "a1":
            free.listen(queue)
    scene.send("c")
    assert (busy.received, free.received) == (["a1"], ["b1", "b2", "c"])
    assert scene.held() == ["a2", "a3"]


def test_b22_a_selective_consumer_finds_its_message_behind_any_backlog(scene):
    queue, client = scene.queue(), Client(scene)
    scene.send(*["red"] * 5000, colour="red")
    scene.send("green", colour="green")
    client.listen(queue, messages=1, selector="colour = 'green'")
    assert client.received == ["green"]
    assert scene.figures("pending_count") == (5000,)


@pytest.mark.parametrize(
    ("arguments", "ttl", "lives"),
    [
        pytest.param({"message_ttl": 10}, 20, 10, id="B23-the-queue's-is-smaller"),
        pytest.param({"message_ttl": 20}, 10, 10, id="B23-the-message's-is-smaller"),
        pytest.param({"min_ttl": 10}, -1, None, id="B23-a-minimum-gives-none"),
        pytest.param({"min_ttl": 10}, 5, 10, id="B23-a-minimum-lengthens"),
        pytest.param({"max_ttl": 10}, -1, 10, id="B23-a-maximum-gives-one"),
    ],
)
def test_the_smaller_time_to_live_counts(scene, arguments, ttl, lives):
    queue = scene.queue(**arguments)
    scene.send("m", ttl=ttl)
    if lives is None:
        assert queue.next_due_at() == 0
        return
    scene.pass_time(lives - 1)
    assert scene.held() == ["m"]
    scene.pass_time(1)
    assert scene.figures("message_count messages_expired") == (0, 1)


def test_b24_a_delivery_time_in_the_past_overtakes_nobody(scene):
    scene.queue()
    scene.send("first")
    scene.send("past", _AMQ_SCHED_DELIVERY=scene.now - SECOND)
    scene.send("last")
    assert scene.held() == ["first", "past", "last"]
    assert scene.figures("scheduled_count") == (0,)


def test_b25_without_a_setting_attempts_are_unlimited(scene):
    queue = scene.queue()
    assert queue.settings.max_delivery_attempts == UNLIMITED
    client = Client(scene)
    scene.send("m")
    for _ in range(50):
        assert client.pull(queue, settle=False) == "m"
        client.roll_back_all()
    assert scene.held() == ["m"]
    scene.host.update_queue(queue, replace(queue.settings, max_delivery_attempts=51), scene.now)
    client.pull(queue, settle=False)
    client.roll_back_all()
    assert scene.held() == []


# ---------------------------------------------------------------------- limits of addresses


def test_b26_the_bytes_that_may_be_paged_are_counted_exactly():
    scene = Scene({"q": {"max-size-messages": 1, "page-limit-bytes": 3, "page-full-policy": "FAIL"}})
    scene.queue()
    scene.send("first", "22", "3")
    with pytest.raises(LimitExceeded, match=r"4 bytes are paged, but .* page-limit-bytes is 3"):
        scene.send("4")
    assert scene.held() == ["first", "22", "3"]


def test_b27_there_is_room_again_as_soon_as_a_paged_message_moved_up():
    scene = Scene({"q": {"max-size-messages": 1, "page-limit-messages": 2, "page-full-policy": "DROP"}})
    queue, client = scene.queue(), Client(scene)
    scene.send("a", "b", "c", "dropped")
    assert client.pull(queue) == "a"
    scene.send("d", "dropped too")
    assert scene.held() == ["b", "c", "d"]
    losses = scene.host.ledger.query(queue="q", reason=RemovalReason.OVERFLOW)
    assert [(record.size, record.rule) for record in losses] == [
        (7, "page-full-policy drop"),
        (11, "page-full-policy drop"),
    ]
