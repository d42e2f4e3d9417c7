"""Message groups: who owns which, and until when."""

from __future__ import annotations

from zlib import crc32

import pytest

from annulet.core.base.settings import QueueSettings
from annulet.core.message.message import Message, Origin
from annulet.core.policies.message_groups import CLOSING_SEQUENCE_UNSIGNED, NO_GROUP, GroupTable
from annulet.core.queue.invariants import check_invariants
from tests.core.helpers import NOW, RecordingSession, TableView, make_message, pending, queue_of


def grouped(body, group="", sequence=None):
    properties = {"JMSXGroupID": group} if group else {}
    if sequence is not None:
        properties["JMSXGroupSeq"] = sequence
    return make_message(body, **properties)


def fill(queue, *bodies):
    """Enqueue messages whose first letter is their group; a dot stands for none."""
    for body in bodies:
        queue.enqueue(grouped(body, "" if body[0] == "." else body[0]), NOW)


def test_a_sticky_group_stays_with_its_consumer_and_others_go_on():
    queue, one, two = queue_of(group_mode="sticky"), RecordingSession("1"), RecordingSession("2")
    one.consume(queue, messages=1)
    two.consume(queue, messages=3)
    fill(queue, "a1", "b1", "a2", "b2", ".x")
    assert one.received == ["a1"]
    assert two.received == ["b1", "b2", ".x"]
    assert pending(queue) == ["a2"]
    one.acknowledge(1, NOW)
    assert one.received == ["a1", "a2"]
    check_invariants(queue)


def test_a_group_is_free_only_when_its_former_owner_holds_nothing_of_it():
    queue, one, two = queue_of(group_mode="sticky"), RecordingSession("1"), RecordingSession("2")
    consumer = one.consume(queue, messages=1)
    fill(queue, "a1", "a2")
    two.consume(queue)
    one.detach(consumer.tag, NOW)
    assert two.received == []  # a1 may still come back and would be overtaken
    one.reject(1, NOW, requeue=True)
    assert two.received == ["a1", "a2"]


def test_shared_groups_move_on_when_nothing_of_them_is_in_delivery():
    queue, one, two = queue_of(group_mode="shared"), RecordingSession("1"), RecordingSession("2")
    one.consume(queue, messages=1)
    two.consume(queue, messages=1)
    fill(queue, "a1", "a2", "b1")
    assert (one.received, two.received) == (["a1"], ["b1"])
    two.acknowledge(1, NOW)
    assert two.received == ["b1"]
    one.acknowledge(1, NOW)
    assert "a2" in one.received + two.received


@pytest.mark.parametrize(("default", "name"), [("", NO_GROUP), ("rest", "rest")])
def test_in_shared_mode_messages_without_a_group_are_a_group(default, name):
    table = GroupTable(QueueSettings(group_mode="shared", default_group=default))
    assert table.name_of(grouped("x")) == name
    assert GroupTable(QueueSettings(group_mode="sticky")).name_of(grouped("x")) == ""


def test_buckets_share_an_owner_by_hash():
    table = GroupTable(QueueSettings(group_mode="sticky", group_buckets=2))
    assert table.name_of(grouped("x", "A")) == f"bucket {crc32(b'A') % 2}"
    assert {table.name_of(grouped("x", f"g{number}")) for number in range(50)} == {"bucket 0", "bucket 1"}


def test_of_messages_with_one_header_and_one_view_only_the_first_is_asked():
    class View(TableView):
        asked = 0

        def application_property(self, message, name):
            self.asked += 1
            return message.header.decode()

    one, other = View({}), View({})

    def message(header, view):
        return Message(header, b"", Origin("", "", "", view))

    table = GroupTable(QueueSettings(group_mode="sticky", group_key="tail"))
    messages = [message(b"a", one), message(b"b", one), message(b"a", one), message(b"a", other), message(b"", other)]
    assert table.names_of([*messages, message(b"", other)]) == ["a", "b", "a", "a", "", ""]
    assert (one.asked, other.asked) == (2, 3), "what has no header is asked each time"


def test_no_buckets_switch_grouping_off():
    assert queue_of(group_mode="sticky", group_buckets=0).lanes is None


def test_another_key_can_name_the_group():
    table = GroupTable(QueueSettings(group_mode="sticky", group_key="tail"))
    assert table.name_of(make_message("x", tail="N1", JMSXGroupID="no")) == "N1"
    assert table.name_of(make_message("x", tail=7)) == "7"


@pytest.mark.parametrize("closing", [-1, CLOSING_SEQUENCE_UNSIGNED])
def test_sequence_minus_one_goes_to_the_owner_and_ends_the_assignment(closing):
    queue, one, two = queue_of(group_mode="sticky"), RecordingSession("1"), RecordingSession("2")
    one.consume(queue, messages=2)
    queue.enqueue(grouped("a1", "a"), NOW)
    two.consume(queue)
    queue.enqueue(grouped("a2", "a", closing), NOW)
    assert one.received == ["a1", "a2"]
    queue.enqueue(grouped("a3", "a"), NOW)
    assert two.received == ["a3"]


def test_reset_and_rebalance_end_assignments():
    queue, one, two = queue_of(group_mode="sticky", group_rebalance=True), RecordingSession("1"), RecordingSession("2")
    one.consume(queue, messages=1)
    fill(queue, "a1")
    two.consume(queue)
    fill(queue, "a2")
    assert two.received == ["a2"]
    assert queue.reset_groups(NOW, "nobody") == 0
    assert queue.reset_groups(NOW) == 1


def test_a_rebalance_with_pause_waits_for_deliveries():
    queue = queue_of(group_mode="sticky", group_rebalance=True, group_rebalance_pause=True)
    one, two = RecordingSession("1"), RecordingSession("2")
    one.consume(queue, messages=2)
    fill(queue, "a1")
    two.consume(queue)
    fill(queue, "b1")
    assert (one.received, two.received) == (["a1"], [])
    one.acknowledge(1, NOW)
    assert one.received + two.received == ["a1", "b1"]


def test_the_first_message_of_each_assignment_is_marked():
    queue, one = queue_of(group_mode="sticky", group_first_key="first"), RecordingSession()
    one.consume(queue)
    fill(queue, "a1", "a2", "b1")
    assert {entry.message.body for entry in queue.group_firsts} == {b"a1", b"b1"}
    queue.reset_groups(NOW, "a")
    fill(queue, "a3")
    one.acknowledge(0, NOW, multiple=True)
    assert not queue.group_firsts


def test_idle_groups_are_forgotten_and_assignments_are_bounded():
    shared = queue_of(group_mode="shared")
    sticky = queue_of(group_mode="sticky")
    for queue in (shared, sticky):
        queue.lanes.groups.remembered_max = 10
        session = RecordingSession()
        session.consume(queue, auto_acknowledge=True)
        fill(queue, *[chr(ord("A") + number) + "1" for number in range(26)])
    assert not shared.lanes.groups.groups
    assert len(sticky.lanes.groups.groups) == 10


def test_who_pulls_leaves_owned_groups_alone():
    queue, one, two = queue_of(group_mode="sticky"), RecordingSession("1"), RecordingSession("2")
    one.consume(queue, messages=1)
    fill(queue, "a1", "a2", "b1")
    entry, _ = two.get(queue, NOW, auto_acknowledge=False)
    assert entry.message.body == b"b1"
    assert two.get(queue, NOW, auto_acknowledge=False) is None


def test_after_a_reset_old_deliveries_neither_hold_nor_free_the_new_assignment():
    queue = queue_of(group_mode="shared")
    one, two, three = (RecordingSession(name) for name in "123")
    one.consume(queue, messages=1)
    fill(queue, "a1")
    queue.reset_groups(NOW)
    two.consume(queue, auto_acknowledge=True)
    three.consume(queue, auto_acknowledge=True)
    fill(queue, "a2", "a3")
    assert (two.received, three.received) == (["a2"], ["a3"])


def test_groups_in_the_queue_do_not_count_against_the_remembered_ones():
    queue, one, two = queue_of(group_mode="sticky"), RecordingSession("1"), RecordingSession("2")
    queue.lanes.groups.remembered_max = 2
    one.consume(queue)
    two.consume(queue)
    fill(queue, "a1", "b1", "c1", "d1")  # all in delivery: none of them is idle
    one.acknowledge(0, NOW, multiple=True)  # a and c are
    fill(queue, "a2", "e1")
    assert one.received == ["a1", "c1", "a2"]
    assert set(queue.lanes.groups.groups) == set("abcde")
    two.acknowledge(0, NOW, multiple=True)  # b, d and e are idle now as well; the two latest are remembered
    assert set(queue.lanes.groups.groups) == set("ade")


def test_an_idle_group_goes_with_its_assignment():
    queue, session = queue_of(group_mode="sticky"), RecordingSession()
    session.consume(queue, auto_acknowledge=True)
    fill(queue, "a1", "b1", "c1")
    assert queue.reset_groups(NOW, "a") == 1
    assert set(queue.lanes.groups.groups) == {"b", "c"}
    session.close(NOW)
    assert not queue.lanes.groups.groups


def test_what_came_from_before_a_reset_does_not_bind_the_group_to_its_holder_again():
    queue = queue_of(group_mode="shared")
    one, two = RecordingSession("1"), RecordingSession("2")
    one.consume(queue, messages=2)
    fill(queue, "a1")
    queue.reset_groups(NOW)
    fill(queue, "a2")
    assert one.received == ["a1", "a2"]
    two.consume(queue)
    one.detach("c", NOW)
    one.reject(2, NOW, requeue=True)
    assert two.received == ["a2"]  # a1 is still out, but the reset has let it go
    one.acknowledge(1, NOW)
    check_invariants(queue)
