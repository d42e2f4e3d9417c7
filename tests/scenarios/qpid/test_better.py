"""Broker-J's quirks and defects (Q) and choices of its that are no scenario (B): what the rule is here.

Those that are about one kind of queue stand with its scenarios.
"""

from __future__ import annotations

import pytest

from annulet.core.base.errors import InvalidArgument, LimitExceeded, PreconditionFailed
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.configuration.arguments import parse_queue_arguments
from annulet.core.queue.invariants import check_invariants
from tests.core.helpers import removed
from tests.scenarios.qpid.stage import SECOND, Client, Stage, numbers


@pytest.fixture
def stage():
    return Stage()


# ---------------------------------------------------------------------- quirks


def test_q1_a_message_without_priority_has_the_usual_one_unless_rabbitmqs_name_says_nought(stage):
    for name, argument, expected in (
        ("jms", "x-qpid-priorities", ["5", "none", "3"]),
        ("rabbit", "x-max-priority", ["5", "3", "none"]),
    ):
        queue = stage.declare(name, {argument: 10})
        for priority in (3, None, 5):
            stage.send("none" if priority is None else str(priority), to=name, priority=priority)
        assert stage.take_all(queue) == expected


@pytest.mark.parametrize(
    "arguments", [{"x-qpid-priorities": 10}, {"qpid.queue_sort_key": "key"}], ids=["priority", "sorted"]
)
def test_q2_a_ring_drops_the_least_important_then_the_oldest_whatever_arrives(stage, arguments):
    queue = stage.declare(arguments={**arguments, "qpid.policy_type": "ring", "qpid.max_count": 2})
    for priority, key in ((1, "z"), (1, "y"), (9, "a"), (9, "b")):
        stage.send(key, priority=priority, key=key)
        check_invariants(queue)
    assert [loss.sequence for loss in stage.host.ledger.query()] == [1, 2]
    assert stage.held() == ["a", "b"]


def test_q3_a_limit_in_bytes_alone_pages_and_brings_back(stage):
    queue, client = stage.declare(arguments={"qpid.policy_type": "flow_to_disk", "qpid.max_size": 50}), Client(stage)
    stage.send_sized(*[10] * 10)
    paged = [*stage.figures("paged_count")]
    for _ in range(5):
        client.pull(queue)
        paged += stage.figures("paged_count")
    assert paged == [5, 4, 3, 2, 1, 0]


def test_q4_a_refusal_behind_an_exchange_is_told(stage):
    queue = stage.declare(arguments={"qpid.policy_type": "reject", "qpid.max_count": 1})
    stage.host.bind_queue(queue, "amq.fanout", "")
    stage.send("1", to="amq.fanout")
    with pytest.raises(LimitExceeded, match="queue 'q' is full"):
        stage.send("2", to="amq.fanout")


def test_q11_what_is_not_taken_is_not_forgotten_by_the_disk(stage):
    arguments = {"qpid.ensure_nondestructive_consumers": True}
    queue, client = stage.declare(arguments=arguments, durable=True), Client(stage)
    client.listen(queue, auto_acknowledge=True)
    stage.send("m", durable=True)
    assert client.received == ["m"]
    assert len(stage.effects.stored) == 1
    assert stage.effects.settled == []


def test_q12_a_binding_that_is_gone_matches_nothing(stage):
    queue = stage.declare()
    for arguments in ({"A": "1"}, {"B": "2"}):
        stage.host.bind_queue(queue, "amq.headers", "", arguments)
    stage.host.unbind_queue(queue, "amq.headers", "", {"A": "1"})
    assert stage.send("m", to="amq.headers", A="1") == 0
    assert stage.send("m", to="amq.headers", B="2") == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"qpid.group_header_key": "g", "qpid.shared_msg_group": 2}, "qpid.shared_msg_group"),
        ({"x-qpid-capacity": 10}, "x-qpid-capacity"),
        ({"x-qpid-capacity": 10, "x-qpid-flow-resume-capacity": 11}, "at most 'x-max-bytes'"),
        ({"qpid.last_value_queue": False, "qpid.last_value_queue_key": "k"}, "qpid.last_value_queue"),
        ({"x-qpid-maximum-message-count": 5}, "limits nothing"),
    ],
    ids=["group-switch", "limit-alone", "resume-above", "switched-off", "alert"],
)
def test_q13_what_would_have_no_effect_is_refused(arguments, text):
    with pytest.raises(InvalidArgument, match=text):
        parse_queue_arguments(arguments, "q")


def test_q13_a_switch_that_is_off_switches_nothing_on():
    assert parse_queue_arguments({"qpid.last_value_queue": False}).last_value_key == ""
    assert parse_queue_arguments({"qpid.last_value_queue": True}).last_value_key == "qpid.LVQ_key"
    for spelling in ("JMSXGroupId", "JMSXGroupID"):
        assert parse_queue_arguments({"qpid.group_header_key": spelling}).group_key == ""


@pytest.mark.parametrize("policy", ["NONE", "SHARED_SUBSCRIPTION"])
def test_q14_a_shared_queue_is_declared_again_and_purged_by_anybody(stage, policy):
    queue = stage.declare(arguments={"qpid.exclusivity_policy": policy})
    stage.send("m")
    assert stage.declare(arguments={"qpid.exclusivity_policy": policy}) is queue
    assert queue.purge(stage.now) == 1


def test_q16_another_declaration_of_the_same_name_is_refused(stage):
    stage.declare(arguments={"x-qpid-priorities": 3})
    with pytest.raises(PreconditionFailed, match="x-priorities"):
        stage.declare(arguments={"x-qpid-priorities": 4})


def test_q19_a_ring_refuses_nothing(stage):
    queue = stage.declare(arguments={"qpid.policy_type": "ring", "qpid.max_count": 1, "qpid.max_size": 10})
    for size in (10, 11, 1):
        assert queue.refusal(stage.message("x" * size)) == ""
        stage.send_sized(size)
    assert stage.figures("message_count messages_dropped") == (1, 2)


@pytest.mark.parametrize("end", ["close", "requeue", "rollback"])
def test_q20_every_delivery_that_comes_back_is_an_attempt(stage, end):
    queue = stage.declare(arguments={"x-qpid-maximum-delivery-count": 2})
    stage.send("m")
    for _ in range(2):
        client = Client(stage)
        client.listen(queue, messages=1)
        if end == "requeue":
            client.detach("c", stage.now)
            client.reject(1, stage.now, requeue=True)
        elif end == "rollback":
            client.detach("c", stage.now)
            client.roll_back_all()
        else:
            client.leave()
    assert stage.figures("message_count messages_rejected") == (0, 1)


def test_q21_what_is_due_is_known_and_not_looked_for(stage):
    queue = stage.declare()
    stage.send("later", ttl=7 * SECOND)
    stage.send("held", delay=5 * SECOND)
    for _ in range(100):
        stage.send("never")
    assert stage.host.tick(stage.now) == stage.now + 5 * SECOND
    stage.pass_time(5 * SECOND)
    assert stage.held()[0] == "held"
    assert queue.next_due_at() == stage.now + 2 * SECOND


# ---------------------------------------------------------------------- choices


def test_b1_sizes_are_bodies(stage):
    stage.declare(arguments={"qpid.policy_type": "reject", "qpid.max_size": 4})
    stage.send("body", header="x" * 1000)
    assert stage.figures("pending_bytes") == (4,)


def test_b2_limits_by_our_names_count_what_waits_and_by_qpids_what_is_in_delivery_too(stage):
    taken = []
    for name, arguments in (
        ("ours", {"x-max-length": 1, "x-overflow": "reject"}),
        ("theirs", {"qpid.max_count": 1, "qpid.policy_type": "reject"}),
    ):
        queue, client = stage.declare(name, arguments), Client(stage)
        stage.send("1", to=name)
        client.pull(queue, settle=False)
        taken.append(queue.refusal(stage.message("2", to=name)) == "")
    assert taken == [True, False]


def test_b3_nothing_that_is_in_delivery_is_taken_by_a_limit_or_an_operator(stage):
    queue, client = stage.declare(arguments={"qpid.policy_type": "ring", "qpid.max_count": 2}), Client(stage)
    client.listen(queue, messages=2)
    stage.send("1", "2", "3", "4")
    assert queue.purge(stage.now) == 1
    client.settle_all()
    assert (client.received, stage.removed("acknowledged")) == (["1", "2"], 2)


def test_b4_a_message_larger_than_the_ring_goes_itself(stage):
    queue = stage.declare(arguments={"qpid.policy_type": "ring", "qpid.max_size": 10})
    stage.send("1", "2", "x" * 11)
    assert stage.held() == ["1", "2"]
    assert removed(queue, RemovalReason.OVERFLOW) == 1


def test_b5_orders_retention_and_groups_compose(stage):
    queue = stage.declare(
        arguments={"x-qpid-priorities": 10, "qpid.last_value_queue_key": "key", "qpid.group_header_key": "group"}
    )
    first, second = Client(stage), Client(stage)
    for priority, key, group in ((1, "a", "g"), (5, "b", "h"), (9, "a", "g"), (7, "c", "g")):
        stage.send(f"{key}{priority}", priority=priority, key=key, group=group)
    assert stage.held() == ["a9", "c7", "b5"]
    first.listen(queue, messages=1)
    second.listen(queue, messages=1)
    assert (first.received, second.received) == (["a9"], ["b5"])


def test_b6_consumers_have_priority_nought_unless_they_say_otherwise(stage):
    queue, usual, high = stage.declare(), Client(stage), Client(stage)
    usual.listen(queue)
    high.listen(queue, priority=1)
    stage.send("m")
    assert (usual.received, high.received) == ([], ["m"])


def test_b7_a_binding_with_other_arguments_is_another_binding(stage):
    queue = stage.declare()
    for value in "12":
        stage.host.bind_queue(queue, "amq.topic", "k", {"x-filter-jms-selector": f"a = '{value}'"})
    assert len(stage.host.bindings_of_queue(queue)) == 2


def test_b8_without_conditions_any_fits_nothing_and_all_everything(stage):
    queue = stage.declare()
    stage.host.bind_queue(queue, "amq.headers", "", {"x-match": "any"})
    assert stage.send("m", to="amq.headers", A="1") == 0
    stage.host.bind_queue(queue, "amq.headers", "", {"x-match": "all"})
    assert stage.send("m", to="amq.headers", A="1") == 1


def test_b9_a_binding_without_local_messages_takes_them_while_nobody_consumes(stage):
    queue = stage.declare()
    stage.host.bind_queue(queue, "amq.fanout", "", {"x-qpid-no-local": True})
    assert stage.send("m", to="amq.fanout") == 1
    assert stage.held() == ["m"]


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("qpid.exclusivity_policy", "CONTAINER", "permissions"),
        ("qpid.lifetime_policy", "DELETE_ON_NO_LINKS", "auto-delete"),
        ("qpid.message_durability", "ALWAYS", "the sender decides"),
        ("expiryPolicy", "ROUTE_TO_ALTERNATE", "x-expiry-address"),
        ("messageGroupType", "STANDARD", "x-group-mode"),
    ],
)
def test_b10_policies_that_are_not_here_are_refused_with_what_does_the_same(stage, name, value, text):
    with pytest.raises(InvalidArgument, match=f"'{name}'.*{text}"):
        stage.declare(arguments={name: value})


def test_b11_equal_sort_keys_of_different_types_are_apart(stage):
    stage.declare(arguments={"qpid.queue_sort_key": "key"})
    for body, key in (("text 10", "10"), ("10", 10), ("9", 9), ("9.5", 9.5)):
        stage.send(body, key=key)
    assert stage.held() == ["9", "9.5", "10", "text 10"]


def test_b12_a_message_expires_when_its_time_comes_and_not_after_it(stage):
    stage.declare()
    stage.send("m", ttl=SECOND)
    stage.pass_time(SECOND - 1)
    assert stage.figures("messages_expired") == (0,)
    stage.pass_time(1)
    assert stage.figures("messages_expired message_count") == (1, 0)


def test_b13_a_replaced_value_is_counted_and_looked_up(stage):
    stage.declare(arguments={"qpid.last_value_queue_key": "key"})
    stage.send(*numbers(0, 3), key="k")
    assert stage.figures("messages_replaced messages_acknowledged") == (2, 0)
    assert [(loss.key, loss.sequence, loss.replaced_by) for loss in stage.host.ledger.query()] == [
        ("k", 1, 2), ("k", 2, 3),
    ]  # fmt: skip


def test_b14_groups_share_buckets_only_where_that_is_asked_for(stage):
    settings = [
        parse_queue_arguments({"qpid.group_header_key": "g"}),
        parse_queue_arguments({"qpid.group_header_key": "g", "maximumDistinctGroups": 255}),
    ]
    assert [found.group_buckets for found in settings] == [-1, 256]
