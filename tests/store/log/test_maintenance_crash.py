"""Upkeep must not act on a settlement before it is durable: what it settled may have to come back."""

from __future__ import annotations

import random

import pytest

from annulet.store.log.log import MessageLog
from annulet.store.segments.interface import MaintenanceTask
from annulet.store.segments.segment import segment_name
from tests.store.log.test_log_tools import flush, live, message, opened, space_of, upkeep
from tests.store.simulated_files import SimulatedFiles


def one_step(log: MessageLog) -> list[MaintenanceTask]:
    """Run upkeep on a busy broker: a window is open and stays open."""
    tasks = []
    while (task := log.maintenance()) is not None:
        task.run()
        log.finish(task)
        tasks.append(task)
        assert len(tasks) < 100
    return tasks


def covered_log(files: SimulatedFiles, survivors: int) -> tuple[MessageLog, list[int]]:
    """A log whose first segment is covered by both kept checkpoints and has ``survivors`` live records, its last."""
    log = opened(files)
    records = [log.append(message(b"old %02d" % number + bytes(900)), [(1, number + 1)]) for number in range(40)]
    flush(log)
    first = [record for record in records if record >> 24 == 1]
    for record in records:
        if record not in first[-survivors:]:
            log.settle(record, 1)
    flush(log)
    for round_number in range(2):
        log.append(message(b"filler %d" % round_number), [(9, round_number + 1)])
        flush(log)
        task = log.maintenance(checkpoint=True)  # nothing but checkpoints yet
        while task is not None and type(task).__name__ != "CheckpointTask":
            task.run()
            log.finish(task)
            task = log.maintenance(checkpoint=True)
        assert task is not None
        task.run()
        log.finish(task)
    return log, first[-survivors:]


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("survivors", [1, 4])
def test_a_replaced_message_stays_until_its_successor_is_durable(survivors: int, sealed: bool) -> None:
    """Ring and last value settle the old message in the window that holds the new one."""
    files = SimulatedFiles()
    log, old = covered_log(files, survivors)
    log.settle(old[-1], 1)
    log.append(message(b"successor"), [(1, 1000)])
    batch = log.take_batch() if sealed else None
    assert (batch is not None) is sealed
    one_step(log)
    image = files.crashed(random.Random(1))
    found = live(opened(image))
    survivor = b"old %02d" % (old[-1] & 0xFFFFFF)
    assert b"successor" in found or any(body.startswith(survivor) for body in found)
    if batch is not None:
        log.write(batch)
        log.complete(batch)
    else:
        flush(log)
    upkeep(log)
    if survivors == 1:
        assert segment_name(1) not in files.names_now, "in the end it goes"
    found = live(opened(files.copied()))
    assert b"successor" in found
    assert not any(body.startswith(survivor) for body in found)


def test_what_a_transaction_settled_stays_until_its_commit_is_durable() -> None:
    files = SimulatedFiles()
    log, old = covered_log(files, 1)
    transaction = log.begin()
    log.settle(old[0], 1, transaction)
    log.append(message(b"sent"), [(1, 1000)], transaction)
    log.commit(transaction)
    one_step(log)
    found = live(opened(files.crashed(random.Random(2))))
    assert any(body.startswith(b"old") for body in found)
    assert b"sent" not in found


def test_a_busy_log_still_removes_and_compacts() -> None:
    """There is always an open window here, so upkeep has to wait for a batch, not for quiet."""
    files = SimulatedFiles()
    log, old = covered_log(files, 1)
    log.settle(old[0], 1)
    for number in range(4):
        log.append(message(b"busy %d" % number), [(2, number + 1)])
        one_step(log)
        flush(log)
        log.append(message(b"more %d" % number), [(2, number + 100)])
    one_step(log)
    assert segment_name(1) not in files.names_now
    files = SimulatedFiles()
    log, old = covered_log(files, 2)
    compacted = 0
    for number in range(4):
        log.append(message(b"busy %d" % number), [(2, number + 1)])
        compacted += sum(type(task).__name__ == "CompactTask" for task in one_step(log))
        batch = log.take_batch()
        assert batch is not None
        log.append(message(b"more %d" % number), [(2, number + 100)])
        log.write(batch)
        log.complete(batch)
    assert compacted >= 1
    assert sum(body.startswith(b"old") for body in live(opened(files.copied()))) == 2


class PowerLossError(Exception):
    """Not an ``OSError``: nothing cleans up behind it."""


class MortalFiles(SimulatedFiles):
    """Loses power before the operation ``dies_at``."""

    dies_at = -1

    def operation(self, name: str) -> None:
        if self.operations + 1 == self.dies_at:
            raise PowerLossError
        super().operation(name)


def upkeep_by_time(files: MortalFiles, dies_after: int = 1 << 30) -> list[str]:
    """Let a clock ask a log in which all but two messages are acknowledged for checkpoints until it has no more."""
    log = opened(files)
    records = [log.append(message(b"old %02d" % number + bytes(900)), [(1, number + 1)]) for number in range(40)]
    flush(log)
    for record in records[1:-1]:
        log.settle(record, 1)
    flush(log)
    files.dies_at = files.operations + 1 + dies_after
    kinds = []
    while done := upkeep(log, checkpoint=True):
        kinds += done
    return kinds


def test_death_at_every_write_point_of_checkpoints_by_time() -> None:
    whole = MortalFiles()
    kinds = upkeep_by_time(whole)
    assert {"CheckpointTask", "RemoveTask", "CompactTask"} <= set(kinds)
    begun = whole.dies_at - 1 - (1 << 30)
    points = whole.operations - begun
    assert points > 20
    chance = random.Random(5)
    for point in range(points):
        files = MortalFiles()
        with pytest.raises(PowerLossError):
            upkeep_by_time(files, point)
        again = opened(files.crashed(chance))
        assert again.report.lost_records == again.report.corrupt_records == 0, point
        assert {body[:6] for body in live(again)} == {b"old 00", b"old 39"}, point
        while upkeep(again, checkpoint=True):  # what the death left undone is done by the next broker
            pass
        found = live(opened(space_of(again).files.copied()))  # type: ignore[attr-defined]
        assert {body[:6] for body in found} == {b"old 00", b"old 39"}, point
