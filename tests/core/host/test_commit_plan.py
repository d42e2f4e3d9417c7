"""What a commit is about to do, decided a part at a time."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import LimitExceeded, TransactionRefused, TransactionTooLarge
from annulet.core.host.commit_plan import ALL_OPERATIONS, OPERATION_STEPS, CommitPlan, Operations, Send, renew
from annulet.core.host.send_plan import DUPLICATE, ROUTED, Leg
from annulet.core.host.virtual_host import VirtualHost
from tests.core.helpers import NOW, RecordingEffects, make_message


def bench() -> tuple[VirtualHost, Operations]:
    host = VirtualHost("/", RecordingEffects())
    host.declare_queue("q", now=NOW, durable=True)
    return host, Operations()


def send(host: VirtualHost, collected: Operations, queue: str = "q", duplicate_id: str = "") -> None:
    collected.sends.append(Send(make_message("x"), host.route("", queue), duplicate_id, ()))


def test_a_plan_is_made_part_by_part_and_counts():
    host, collected = bench()
    for _ in range(5):
        send(host, collected)
    plan = CommitPlan(host, collected, 5)
    assert plan.go_on(2)
    assert len(plan.plans) == 2
    assert not plan.go_on(ALL_OPERATIONS)
    assert [legs for _, legs in plan.plans] == [None] * 5
    assert plan.operations == 5
    with pytest.raises(TransactionTooLarge, match="at least 5"):
        CommitPlan(host, collected, 4)


def test_queues_beyond_the_first_count():
    host, collected = bench()
    for number in range(3):
        host.bind_queue(host.declare_queue(f"q{number}", now=NOW, durable=True), "amq.fanout", "")
    collected.sends.append(Send(make_message("x"), host.route("amq.fanout", ""), "", ()))
    plan = CommitPlan(host, collected, 0)
    assert not plan.go_on(1)
    assert plan.operations == 3


@pytest.mark.parametrize("alone", [False, True])
def test_a_send_alone_is_refused_as_it_would_be_without_a_transaction(alone: bool):
    host, collected = bench()
    full = host.declare_queue("full", now=NOW, durable=True, arguments={"x-max-length": 0, "x-overflow": "reject"})
    send(host, collected, full.name)
    with pytest.raises(LimitExceeded if alone else TransactionRefused):
        CommitPlan(host, collected, 0, alone=alone).go_on(ALL_OPERATIONS)
    host.publisher.duplicates.add("q", "id", 10)
    again = Operations()
    send(host, again, duplicate_id="id")
    plan = CommitPlan(host, again, 0, alone=alone)
    if not alone:
        with pytest.raises(TransactionRefused, match="duplicate id 'id'"):
            plan.go_on(ALL_OPERATIONS)
        return
    plan.go_on(ALL_OPERATIONS)
    ((_, legs),) = plan.plans
    assert legs is not None
    assert [leg.fate for leg in legs] == [DUPLICATE]


def test_a_leg_adapts_to_what_has_happened_since_it_was_planned():
    host, _ = bench()
    gone = host.declare_queue("gone", now=NOW, durable=True)
    leg = Leg(make_message("x"), "q", [gone, host.queues["q"]], "id")
    host.delete_queue(gone, NOW)
    renew(host.publisher, leg)
    assert (leg.queues, leg.fate) == ([host.queues["q"]], ROUTED)
    host.publisher.duplicates.add("q", "id", 10)
    renew(host.publisher, leg)
    assert leg.fate == DUPLICATE


def test_a_long_way_counts_as_many_operations():
    """A8: 500 sends, each through filters for 40 ms, were decided in one slice."""
    host, collected = bench()
    text = " OR ".join(f"a = {number}" for number in range(OPERATION_STEPS))
    host.bind_queue(host.queues["q"], "amq.fanout", "", {"x-filter-jms-selector": text})
    for _ in range(10):
        collected.sends.append(Send(make_message("x", a=-1), host.route("amq.fanout", ""), "", ()))
    plan = CommitPlan(host, collected, 0)
    slices = 1
    while plan.go_on(5):
        slices += 1
    assert (len(plan.plans), slices > 2) == (10, True)
    assert host.steps_taken >= 10 * OPERATION_STEPS
