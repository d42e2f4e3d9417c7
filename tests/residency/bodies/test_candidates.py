"""What counts as a body that may leave: what has a place on disk, or may get one, and becomes no row."""

from __future__ import annotations

import sys
from random import Random

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.deliveries.bodies import CLAIMED_BYTES, claim
from annulet.core.deliveries.delivery_table import BLOCK_TAGS
from annulet.core.message.message import BodySource
from annulet.core.model.entry import QueueEntry
from annulet.residency.bodies.budget import MIB
from annulet.residency.bodies.candidates import (
    CLAIMED_BLOCKS_LEAST,
    FREED_MOST,
    SWEEP_LEAST,
    SWEEP_MOST,
    TIDY_BYTES,
    TIDY_BYTES_LEAST,
    TIDY_EACH,
    TIDY_MOST,
    TIDY_PART,
    BodyCandidates,
)
from tests.core.helpers import NOW
from tests.residency.doubles import Disk, durable_queue, filled


def test_what_is_neither_stored_nor_large_enough_to_be_spilled_has_no_place():
    queue = durable_queue()
    stored, small, large = filled(queue, Disk(), 3, size=20)
    small.message.record = large.message.record = 0
    candidates = BodyCandidates(BodySource(), queue, 20)
    assert [candidates.may_have_place(entry) for entry in (stored, small, large)] == [True] * 3
    candidates = BodyCandidates(BodySource(), queue, 21)
    assert [candidates.may_have_place(entry) for entry in (stored, small, large)] == [True, False, False]
    candidates = BodyCandidates(BodySource(), queue, -1)
    assert not candidates.may_have_place(small)
    queue.queue_id = 0
    assert not candidates.may_have_place(stored)


@pytest.mark.parametrize("rows", [False, True])
def test_what_may_be_a_row_is_none_until_it_is_delivered_or_kept(rows: bool):
    queue = durable_queue()
    entries = filled(queue, Disk(), 4)
    candidates = BodyCandidates(BodySource(), queue, -1)
    candidates.rows = rows
    for entry in entries[:2]:
        candidates.note(entry)
    assert candidates.waiting == ([] if rows else entries[:2])
    candidates.waiting = []
    queue.delivering.add(entries[2])
    claim(entries[2], candidates)
    assert looked_at(candidates) == ([entries[2]] if rows else [])
    candidates.kept(entries, bytearray([0, 1, 0, 0]))
    candidates.kept(entries, bytearray(4))
    assert candidates.waiting == [entries[1]]
    assert candidates.grown == (2 if rows else 3)


def delivered(candidates: BodyCandidates, entries: list[QueueEntry]) -> None:
    """Have entries in delivery as dispatch does."""
    for entry in entries:
        candidates.queue.delivering.add(entry)
        claim(entry, candidates)


def looked_at(candidates: BodyCandidates) -> list[QueueEntry]:
    """Return what a pass looks at, in the order in which it does, and have it end with that."""
    candidates.begin_pass()
    found: list[QueueEntry] = []
    while candidates.blocks:
        found += reversed(candidates.in_block(candidates.blocks.pop()))
    found += reversed(candidates.scanning)
    candidates.scanning = []
    return found


def test_what_is_in_delivery_is_looked_at_once_and_before_what_waits():
    queue = durable_queue()
    entries = filled(queue, Disk(), 3 * BLOCK_TAGS)
    candidates = BodyCandidates(BodySource(), queue, -1)
    candidates.rows = True
    entries[3].message.record = 0  # noted when it came
    entries[4].away = True
    delivered(candidates, entries[: BLOCK_TAGS + 2])
    candidates.add(entries[-1])
    assert (candidates.waiting, candidates.grown, candidates.most_waiting) == (
        entries[-1:], BLOCK_TAGS + 2, 2 * BLOCK_TAGS + 1,
    )  # fmt: skip
    queue.delivering.discard(entries[1])
    there = [entries[0], entries[2], *entries[5 : BLOCK_TAGS + 2]]
    assert looked_at(candidates) == [*reversed(there), entries[-1]]
    assert looked_at(candidates) == [], "nothing came"
    delivered(candidates, entries[2 * BLOCK_TAGS :])
    assert looked_at(candidates) == entries[: 2 * BLOCK_TAGS - 1 : -1]


def test_a_pass_comes_to_deliveries_block_by_block():
    queue = durable_queue()
    entries = filled(queue, Disk(), 3 * BLOCK_TAGS)
    candidates = BodyCandidates(BodySource(), queue, -1)
    candidates.rows = True
    candidates.wait(entries[:1])
    delivered(candidates, entries[BLOCK_TAGS:])
    candidates.begin_pass()
    assert (candidates.scanning, candidates.blocks) == (entries[:1], [1, 2, 3])
    candidates.front = set(entries)
    assert candidates.sift(0, 1, None) == (1, [])
    assert (candidates.scanning, candidates.blocks) == ([entries[0], entries[-1]], [1, 2])
    assert candidates.sift(0, 2, None) == (2, [])
    assert (candidates.waiting, candidates.blocks) == ([entries[-1]], [1])
    candidates.end()
    assert not candidates.passing
    assert candidates.waiting == [entries[-1], *entries[:1], *entries[2 * BLOCK_TAGS - 1 : -1]]
    candidates.begin_pass()
    assert candidates.blocks == [1], "the pass had not come to it"


def test_a_pass_comes_to_deliveries_block_by_block_also_when_what_waited_is_gone():
    queue = durable_queue()
    entries = filled(queue, Disk(), 4 * BLOCK_TAGS)
    candidates = BodyCandidates(BodySource(), queue, -1)
    candidates.rows = True
    queue.remove(entries[0], RemovalReason.PURGED, NOW)
    candidates.wait([entries[0]] * 100 * BLOCK_TAGS)
    queue.bodies = candidates
    queue.acquire(-1, -1, NOW)
    candidates.begin_pass()
    candidates.tidy()
    assert candidates.scanning == []
    looked = 0
    while candidates.passing:
        looked += candidates.sift(0, 1, None)[0]
        assert len(candidates.scanning) <= BLOCK_TAGS
    assert looked == len(queue.delivering) + len(queue.delivering.block_numbers())


def test_nothing_that_is_settled_stays_in_memory_for_having_been_in_delivery():
    queue = durable_queue()
    entries = filled(queue, Disk(), 2)
    candidates = BodyCandidates(BodySource(), queue, -1)
    candidates.rows = True
    known = sys.getrefcount(entries[0])
    delivered(candidates, entries[:1])
    queue.delivering.discard(entries[0])
    references = sys.getrefcount(entries[0])
    assert references == known


def test_blocks_of_deliveries_that_are_settled_are_forgotten_when_they_are_many():
    queue = durable_queue()
    entries = filled(queue, Disk(), 2)
    candidates = BodyCandidates(BodySource(), queue, -1)
    candidates.rows = True
    held, passing = entries
    for block in range(4 * CLAIMED_BLOCKS_LEAST):
        passing.sequence = (block + 1) * BLOCK_TAGS
        delivered(candidates, [passing])
        queue.delivering.discard(passing)
        if block == 2:
            delivered(candidates, [held])
        assert len(candidates._claimed) <= CLAIMED_BLOCKS_LEAST + 4, "and twice what is left, which are two"
    assert looked_at(candidates) == [held]


def test_those_that_are_back_from_delivery_wait_as_what_they_are():
    queue = durable_queue()
    entries = filled(queue, Disk(), 4)
    candidates = BodyCandidates(BodySource(), queue, -1)
    entries[1].message.record = 0
    entries[2].away = True
    candidates.left_delivery(entries)
    assert candidates.waiting == [], "of what rows do not take care of nothing was forgotten"
    candidates.rows = True
    candidates.left_delivery(entries)
    assert candidates.waiting == [entries[0], entries[3]]


@pytest.mark.parametrize("pending", [True, False])
def test_the_account_is_looked_at_when_many_bytes_came_from_the_rows(pending: bool):
    class Noting(BodyCandidates):
        def note_change(self) -> None:
            looks.append(self.unmeasured)

    looks: list[int] = []
    queue = durable_queue()
    entries = filled(queue, Disk(), 7, size=CLAIMED_BYTES // 3 + 1)
    candidates = Noting(BodySource(), queue, -1)
    candidates.rows = True
    for number, entry in enumerate(entries, 1):
        if pending:
            candidates.left_rows(entry)
        else:
            delivered(candidates, [entry])
        assert looks == [0] * (number // 3)


def test_of_those_that_are_replaced_one_by_one_few_stay():
    """Each with its body: a last-value queue in memory took twice what its messages take."""
    queue, disk = durable_queue(), Disk()
    there = 4 * SWEEP_MOST
    entries = filled(queue, disk, there)
    candidates = BodyCandidates(BodySource(), queue, -1)
    candidates.wait(list(entries))
    random = Random(1)
    for _ in range(2 * there):
        place = random.randrange(there)
        queue.remove(entries[place], RemovalReason.PURGED, NOW)
        (entries[place],) = filled(queue, disk, 1)
        candidates.add(entries[place])
        assert len(candidates.waiting) < 1.25 * there + 2 * SWEEP_MOST
    assert set(entries) <= set(candidates.waiting)


def test_those_that_are_gone_are_forgotten_when_they_are_many():
    queue = durable_queue()
    entries = filled(queue, Disk(), SWEEP_LEAST + 1)
    candidates = BodyCandidates(BodySource(), queue, -1)
    for entry in entries[:SWEEP_LEAST]:
        candidates.add(entry)
    queue.remove_all(RemovalReason.PURGED, NOW)
    assert len(candidates.waiting) == SWEEP_LEAST
    candidates.add(entries[-1])
    assert candidates.waiting == []


def test_what_comes_and_goes_beside_very_many_that_stay_is_forgotten_soon():
    queue = durable_queue()
    held = SWEEP_MOST + 2 * SWEEP_LEAST
    entries = filled(queue, Disk(), held + 6 * SWEEP_LEAST)
    candidates = BodyCandidates(BodySource(), queue, -1)
    for entry in entries[:held]:
        candidates.add(entry)
    assert candidates.waiting == entries[:held]
    most = 0
    for entry in entries[held:]:
        candidates.add(entry)
        queue.remove_pending(entry, RemovalReason.PURGED, NOW, 0)
        most = max(most, len(candidates.waiting))
    assert most <= held + SWEEP_MOST
    assert candidates.waiting[:held] == entries[:held]
    for entry in entries[:held]:
        queue.remove_pending(entry, RemovalReason.PURGED, NOW, 0)
    candidates.tidy()
    assert candidates.waiting == []


@pytest.mark.parametrize("stay", [SWEEP_LEAST, SWEEP_MOST // 4])
def test_what_stays_for_a_while_is_forgotten_when_it_has_gone(stay: int):
    queue = durable_queue()
    held = 4 * SWEEP_MOST
    entries = filled(queue, Disk(), held + 2 * SWEEP_MOST)
    candidates = BodyCandidates(BodySource(), queue, -1)
    candidates.wait(entries[:held])
    for number, entry in enumerate(entries[held:], held):
        candidates.add(entry)
        if number >= held + stay:
            queue.remove_pending(entries[number - stay], RemovalReason.PURGED, NOW, 0)
    there = held + stay
    assert there <= len(candidates.waiting) <= there + SWEEP_MOST
    assert candidates.waiting[:held] == entries[:held]


def test_a_pass_looks_at_all_of_them():
    queue = durable_queue()
    entries = filled(queue, Disk(), SWEEP_LEAST + 10)
    candidates = BodyCandidates(BodySource(), queue, -1)
    for entry in entries[:-1]:
        candidates.add(entry)
    candidates.begin_pass()
    candidates.add(entries[-1])
    assert (candidates.scanning, candidates.waiting) == (entries[:-1], entries[-1:])


def test_a_pass_that_keeps_most_adds_to_what_it_kept():
    queue = durable_queue()
    entries = filled(queue, Disk(), 6)
    candidates = BodyCandidates(BodySource(), queue, -1)
    candidates.wait(list(entries))
    candidates.begin_pass()
    candidates.front = set(entries)
    kept = candidates.waiting
    for _ in range(3):
        assert candidates.sift(0, 2, None) == (2, [])
        assert candidates.waiting is kept, "a copy for each part of a million takes seconds"
    assert kept == [*entries[4:], *entries[2:4], *entries[:2]]


@pytest.mark.parametrize(("count", "turns"), [(FREED_MOST, 1), (FREED_MOST + 1, 2)])
def test_what_is_forgotten_is_freed_a_part_each_turn(count: int, turns: int):
    queue = durable_queue()
    entries = filled(queue, Disk(), count)
    candidates = BodyCandidates(BodySource(), queue, -1)
    candidates.wait(list(entries))
    queue.remove_all(RemovalReason.PURGED, NOW)
    references = [sys.getrefcount(entries[0])]  # the first is let go of last
    for _ in range(turns):
        candidates.tidy()
        references.append(sys.getrefcount(entries[0]))
    known = references[0]
    assert references == [known] * turns + [known - 1]


@pytest.mark.parametrize(("removed", "left"), [(7, 100), (8, 92)])
def test_large_ones_that_are_gone_are_forgotten_though_most_are_there(removed: int, left: int):
    """A thousand of 64 KiB stayed in memory until the next tick beside those that came in their place."""
    queue, disk = durable_queue(), Disk()
    large = filled(queue, disk, 8, size=TIDY_BYTES // 8)
    candidates = BodyCandidates(BodySource(), queue, -1)
    for entry in large + filled(queue, disk, 92):
        candidates.note(entry)
    candidates.begin_pass()
    queue.pending_bytes += TIDY_PART * TIDY_BYTES  # of messages that rows take care of
    for entry in large[:removed]:
        queue.remove_pending(entry, RemovalReason.PURGED, NOW, 0)
    before = sys.getrefcount(large[0])
    candidates.tidy()
    let_go = before - sys.getrefcount(large[0])
    assert (len(candidates.scanning), let_go) == (left, int(left < 100))
    scanning = candidates.scanning
    candidates.tidy()
    assert candidates.scanning is scanning, "nothing was removed since"


@pytest.mark.parametrize(
    ("beside", "count", "due"),
    [
        (0, 100, TIDY_BYTES_LEAST),
        (TIDY_PART * MIB, 100, MIB),
        (TIDY_PART * 2 * TIDY_BYTES, 100, TIDY_BYTES),
        (0, MIB // TIDY_EACH, MIB),
    ],
)
def test_the_less_a_queue_has_the_less_it_keeps_of_what_is_gone(beside: int, count: int, due: int):
    """Forty idle queues that had sent on 3 MiB each kept all of it, outside of every account."""
    queue, disk = durable_queue(), Disk()
    gone = filled(queue, disk, 1, size=due - 8) + filled(queue, disk, 1, size=8)
    there = filled(queue, disk, count - 2, size=8)
    candidates = BodyCandidates(BodySource(), queue, -1)
    candidates.wait(gone + there)
    queue.pending_bytes += beside - 8 * len(there)
    kept = []
    for entry in gone:
        queue.remove_pending(entry, RemovalReason.PURGED, NOW, 0)
        candidates.tidy()
        kept.append(len(candidates.waiting))
    assert kept == [count, count - 2]


def test_what_is_forgotten_for_its_bytes_is_let_go_of_whatever_stays():
    """What stayed was taken for forgotten with each look, so that ever more was kept of what went meanwhile."""
    queue, disk = durable_queue(), Disk()
    there, size = 60_000, 1024
    part = TIDY_BYTES // size
    assert part < FREED_MOST < there
    entries = filled(queue, disk, there, size=size)
    candidates = BodyCandidates(BodySource(), queue, -1)
    candidates.wait(list(entries))
    for _ in range(3):
        for entry in entries[:part]:
            queue.remove_pending(entry, RemovalReason.PURGED, NOW, 0)
        del entries[:part]
        candidates.tidy()
        entries += filled(queue, disk, part, size=size)
        candidates.waiting += entries[-part:]
        assert (candidates.to_free, len(candidates.waiting)) == (0, there)
    while entries:
        for entry in entries[:part]:
            queue.remove_pending(entry, RemovalReason.PURGED, NOW, 0)
        del entries[:part]
        candidates.tidy()
    assert (candidates.to_free, candidates.waiting) == (0, [])


def test_of_a_queue_with_nothing_in_memory_none_is_looked_at():
    """A purge of half a million had all of them looked through in one turn."""
    candidates = BodyCandidates(BodySource(), durable_queue(), -1)
    unseen = [object() for _ in range(2 * FREED_MOST)]
    candidates.waiting = list(unseen[1:])  # type: ignore[arg-type]
    candidates.scanning = list(unseen[:1])  # type: ignore[arg-type]
    candidates.tidy()
    assert candidates.waiting == candidates.scanning == []
    assert candidates.untidy
    candidates.tidy()
    assert not candidates.untidy


def test_what_was_removed_before_a_start_says_nothing_of_what_is_there():
    """Bodies of rows that come back are looked after before the queue's counters are set."""
    queue, disk = durable_queue(), Disk()
    large = filled(queue, disk, 1, size=TIDY_BYTES)
    small = filled(queue, disk, 2)
    queue.counters.bytes_removed = 2 * TIDY_BYTES
    candidates = BodyCandidates(BodySource(), queue, -1)
    candidates.wait(large + small)
    queue.counters.bytes_removed = 0
    candidates.tidy()
    assert len(candidates.waiting) == 3
    queue.remove_pending(large[0], RemovalReason.PURGED, NOW, 0)
    candidates.tidy()
    assert candidates.waiting == small


def test_very_many_candidates_are_not_looked_through_for_some_large_ones():
    queue, disk = durable_queue(), Disk()
    large = filled(queue, disk, 8, size=TIDY_BYTES // 8)
    candidates = BodyCandidates(BodySource(), queue, -1)
    for entry in large + filled(queue, disk, TIDY_MOST - 7):
        candidates.note(entry)
    for entry in large:
        queue.remove_pending(entry, RemovalReason.PURGED, NOW, 0)
    candidates.tidy()
    assert len(candidates.waiting) == TIDY_MOST + 1
    candidates.waiting.pop()
    candidates.tidy()
    assert len(candidates.waiting) == TIDY_MOST - 8
