"""Rows 36 to 42 of the Broker-J scenarios: message groups, in its modes STANDARD (sticky here) and SHARED_GROUPS."""

from __future__ import annotations

import pytest

from tests.scenarios.qpid.stage import Client, Stage, numbers

STANDARD = {"qpid.group_header_key": "group"}
SHARED = {"qpid.group_header_key": "group", "qpid.shared_msg_group": "1"}
MODES = [STANDARD, SHARED]


@pytest.fixture
def stage():
    return Stage()


def send_groups(stage, *groups, header="group"):
    """Send one message per group name; their bodies are their numbers from 1."""
    for number, group in enumerate(groups, 1):
        stage.send(str(number), **{header: group})


def two_clients(stage, queue, credit=1):
    clients = (Client(stage), Client(stage))
    for client in clients:
        client.listen(queue, messages=credit)
    return clients


@pytest.mark.parametrize("shared", [False, True], ids=["036-standard", "036-shared"])
@pytest.mark.parametrize("header", ["group", "JMSXGroupID"])
def test_who_acknowledges_gets_the_next_of_its_own_group(stage, shared, header):
    arguments = {"qpid.group_header_key": header, **({"qpid.shared_msg_group": "1"} if shared else {})}
    first, second = two_clients(stage, stage.declare(arguments=arguments))
    send_groups(stage, "ONE", "TWO", "ONE", "TWO", header=header)
    assert (first.received, second.received) == (["1"], ["2"])
    second.settle_all()
    assert second.received == ["2", "4"]
    first.settle_all()
    assert first.received == ["1", "3"]


@pytest.mark.parametrize("arguments", MODES, ids=["037-standard", "037-shared"])
def test_a_closed_consumers_group_is_free_when_its_deliveries_are_settled(stage, arguments):
    """Broker-J's STANDARD frees the group at once, so that message 2 may overtake message 1 (Q6)."""
    first, second = two_clients(stage, stage.declare(arguments=arguments))
    send_groups(stage, "ONE", "ONE", "TWO", "ONE")
    assert (first.received, second.received) == (["1"], ["3"])
    second.commit_all()
    first.detach("c", stage.now)
    assert second.received == ["3"]
    first.commit_all()
    assert second.received == ["3", "2"]
    second.commit_all()
    assert second.received == ["3", "2", "4"]


@pytest.mark.parametrize("arguments", MODES, ids=["038-standard", "038-shared"])
def test_a_lost_consumers_group_goes_on_with_what_it_held(stage, arguments):
    first, second = two_clients(stage, stage.declare(arguments=arguments))
    send_groups(stage, "ONE", "ONE", "TWO", "ONE")
    second.commit_all()
    first.leave()
    for _ in range(3):
        second.commit_all()
    assert second.received == ["3", "1", "2", "4"]
    assert [entry.redelivered for _, entry in second.deliveries] == [False, True, False, False]


@pytest.mark.parametrize(("arguments", "taker"), [(STANDARD, 0), (SHARED, 1)], ids=["039-standard", "039-shared"])
def test_an_idle_group_stays_with_its_consumer_only_when_it_is_sticky(stage, arguments, taker):
    first, second = clients = two_clients(stage, stage.declare(arguments=arguments))
    send_groups(stage, "ONE", "TWO", "THREE", "ONE")
    first.commit_all()
    assert (first.received, second.received) == (["1", "3"], ["2"])
    second.commit_all()
    assert second.received == (["2", "4"] if taker == 1 else ["2"])
    first.commit_all()
    assert clients[taker].received[-1] == "4"


def test_row_040_a_shared_group_is_never_with_two_consumers(stage):
    queue = stage.declare(arguments=SHARED)
    clients = [Client(stage, str(number)) for number in range(4)]
    for client in clients:
        client.listen(queue, messages=1)
    send_groups(stage, *["ONE"] * 100)
    taken = []
    while queue.delivering:
        assert len({entry.consumer for entry in queue.delivering}) == 1
        (holder,) = [client for client in clients if client.unacknowledged]
        taken.append(holder.received[-1])
        holder.settle_all()
    assert taken == numbers(1, 101)
    assert all(client.received for client in clients)


@pytest.mark.parametrize(
    ("arguments", "expected"), [(SHARED, []), (STANDARD, ["2"])], ids=["041-shared", "041-standard"]
)
def test_messages_without_a_group_are_one_group_only_when_shared(stage, arguments, expected):
    first, second = two_clients(stage, stage.declare(arguments=arguments))
    stage.send("1", "2")
    assert first.received == ["1"]
    assert second.received == expected


def test_row_042_one_distinct_group_means_one_consumer(stage):
    queue = stage.declare(arguments={**STANDARD, "maximumDistinctGroups": 1})
    first, second = two_clients(stage, queue, credit=10)
    send_groups(stage, "ONE", "TWO", "THREE", "FOUR")
    assert (first.received, second.received) == (["1", "2", "3", "4"], [])


def test_q6_groups_by_name_are_never_mixed_up(stage):
    """Broker-J puts all names into 256 slots, whose groups share a consumer; buckets have to be asked for here."""
    queue = stage.declare(arguments=STANDARD)
    first, second = two_clients(stage, queue, credit=1000)
    send_groups(stage, *(f"group-{number}" for number in range(1000)))
    assert len(first.received) == len(second.received) == 500
