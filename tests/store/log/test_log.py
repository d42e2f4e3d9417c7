"""The durable log over real files, and what it costs."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from annulet.store.files.errors import StoreError
from annulet.store.log.log import MessageLog
from annulet.store.log.window import PREPARED_BEHIND, PREPARED_TOGETHER
from annulet.store.segments.records import ORDINAL_BITS
from annulet.store.segments.segment import segment_name
from tests.store.log.test_log_tools import flush, live, message, opened, space_of, upkeep
from tests.store.simulated_files import SimulatedFiles

ROOT = Path(__file__).resolve().parents[3]
ROUNDS = 5


def test_everything_about_a_message_comes_back(tmp_path: Path) -> None:
    log = MessageLog.open(tmp_path / "a" / "b")
    sent = message(b"\x00\xff", priority=9, accepted_at=1_700_000_000_000, expires_at=1_700_000_060_000)
    record = log.append(sent, [(7, 3), (2**40, 2**50)])
    flush(log)
    log.settle(record, 7)
    log.close()
    again = MessageLog.open(tmp_path / "a" / "b")
    (found,) = again.recovered()
    assert (found.record, found.header, found.body) == (record, b"header", b"\x00\xff")
    assert (found.exchange, found.routing_key, found.publisher) == ("exchange", "key", "guest@127.0.0.1:1")
    assert (found.view, found.priority) == ("amqp-0-9-1", 9)
    assert (found.accepted_at, found.expires_at) == (1_700_000_000_000, 1_700_000_060_000)
    assert found.targets == [(2**40, 2**50)]
    assert not found.redelivered
    assert again.next_sequences == {7: 4, 2**40: 2**50 + 1}
    again.close()


def test_clean_means_closed_and_nothing_else(tmp_path: Path) -> None:
    log = MessageLog.open(tmp_path)
    assert log.clean
    log.append(message(b"a"), [(1, 1)])
    log.close()
    log.close()
    second = MessageLog.open(tmp_path)
    assert second.clean
    third = MessageLog.open(tmp_path)  # as after a kill: the second was never closed
    assert not third.clean
    assert [each.redelivered for each in third.recovered()] == [True]


def test_what_is_settled_in_its_window_is_never_written() -> None:
    log = opened(SimulatedFiles())
    for number in range(100):
        log.settle(log.append(message(bytes(1000)), [(1, number + 1)]), 1)
    assert log.take_batch() is None
    statistics = log.statistics()
    assert (statistics.cancelled, statistics.bytes_written, statistics.segments) == (100, 0, 1)


def test_a_queue_that_keeps_up_uses_no_memory() -> None:
    log = opened(SimulatedFiles())
    for number in range(2000):
        log.settle(log.append(message(b""), [(1, number + 1)]), 1)
        assert log.take_batch() is None
    assert sum(len(segment.offsets) for segment in log.segments.values()) == 0


def test_a_live_record_costs_about_six_bytes(tmp_path: Path) -> None:
    log = MessageLog.open(tmp_path)
    for number in range(5000):
        log.append(message(b""), [(1, number + 1)])
    flush(log)
    (segment,) = log.segments.values()
    used = segment.offsets.itemsize * len(segment.offsets) + segment.queues.itemsize * len(segment.queues)
    assert (used + len(segment.live)) / 5000 < 6.2
    assert not segment.shared
    log.close()


def test_very_many_of_one_window_come_back(tmp_path: Path) -> None:
    """The heads of the oldest are made before it is sealed: what is settled then is not written all the same."""
    log = MessageLog.open(tmp_path)
    count = PREPARED_BEHIND + 4 * PREPARED_TOGETHER - 1
    transaction = log.begin()
    records = []
    for number in range(count):
        targets = [(1, number + 1), (2, number + 1)] if number % 3 else [(1, number + 1)]
        records.append(log.append(message(b"%d" % number), targets, transaction if number % 5 == 0 else 0))
    assert [len(part.heads) for part in log._parts] == [3 * PREPARED_TOGETHER]
    expected = {b"%d" % number: [(1, number + 1), (2, number + 1)][: 2 if number % 3 else 1] for number in range(count)}
    for number in (1, 2, 3, 3 * PREPARED_TOGETHER + 1, count - 1):
        for queue_id, _ in expected.pop(b"%d" % number):
            log.settle(records[number], queue_id)
    log.settle(records[4], 2)
    del expected[b"4"][1]
    log.commit(transaction)
    flush(log)
    log.close()
    again = MessageLog.open(tmp_path)
    assert live(again) == expected
    again.close()


def test_sequences_survive_the_messages_that_had_them() -> None:
    files = SimulatedFiles()
    log = opened(files)
    record = log.append(message(b"a"), [(1, 41)])
    flush(log)
    log.settle(record, 1)
    flush(log)
    for _ in range(3):
        upkeep(log, checkpoint=True)
    assert opened(files.copied()).next_sequences == {1: 42}


def test_outcomes_survive_checkpoints_and_keep_the_highest_batch() -> None:
    files = SimulatedFiles()
    log = opened(files)
    for batch in (1, 5, 3):
        log.commit(log.begin(), ("query", batch))
        flush(log)
        upkeep(log, checkpoint=True)
    assert log.outcomes == {"query": 5}
    assert opened(files.copied()).outcomes == {"query": 5}


def test_too_small_segments_and_unusable_directories_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="segment_bytes: 1000"):
        MessageLog.open(tmp_path, segment_bytes=1000)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot open the message log"):
        MessageLog.open(tmp_path / "file")


WRITER = """
import sys
from annulet.store.log.log import MessageLog
from annulet.store.segments.records import ORDINAL_BITS
from annulet.store.segments.segment import segment_name
from annulet.store.log.window import PREPARED_BEHIND, PREPARED_TOGETHER
from tests.store.log.test_log_tools import message, flush, upkeep
log = MessageLog.open(sys.argv[1], segment_bytes=1 << 16)
first = int(sys.argv[2])
old = []
for number in range(first, first + 1_000_000):
    body = b"%08d" % number + bytes(number % 700)
    old.append((log.append(message(body), [(1, number + 1)]), number))
    flush(log)
    print("sent", number, flush=True)
    if number % 3 == 0:
        record, gone = old.pop(0)
        log.settle(record, 1)
        flush(log)
        print("settled", gone, flush=True)
    if number % 50 == 0:
        upkeep(log, checkpoint=True)
"""


def test_kill_of_a_real_process_loses_nothing_it_completed(tmp_path: Path) -> None:
    seed = int(os.environ.get("ANNULET_TEST_SEED", "1"))
    print(f"seed {seed}")
    chance = random.Random(seed)
    sent: set[int] = set()
    settled: set[int] = set()
    first = 0
    for _ in range(ROUNDS):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(first)],
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        )
        assert process.stdout is not None
        wanted = chance.randrange(100, 500)
        lines = [process.stdout.readline() for _ in range(wanted)]  # progress decides when, not a clock
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.read().splitlines()
        process.stdout.close()
        assert process.wait() == -signal.SIGKILL, "the writer ended by itself"
        assert len(lines) >= wanted
        for line in lines:
            words = line.split()
            if len(words) == 2 and words[1].isdigit():
                (sent if words[0] == b"sent" else settled).add(int(words[1]))
        log = MessageLog.open(tmp_path, segment_bytes=1 << 16)
        found = {int(body[:8]) for body in live(log)}
        absent = sent - settled - found
        # One settlement can have been written and not yet printed; the writer settles its oldest message first.
        assert absent <= {min((number for number in sent - settled if number >= first), default=-1)}, "lost messages"
        assert not settled & found, "settled messages came back"
        first = max(sent | found) + 1
        assert log.report.corrupt_records == 0
        space_of(log).close()  # as a killed process would: no checkpoint, the marker stays
        settled |= absent


def test_aborting_after_a_segment_of_the_transaction_was_removed() -> None:
    files = SimulatedFiles()
    log = opened(files)
    transaction = log.begin()
    record = log.append(message(bytes(9000)), [(1, 1)], transaction)
    flush(log)
    log.settle(record, 1)
    for number in range(4):
        log.settle(log.append(message(bytes(9000)), [(1, number + 2)]), 1)
        log.append(message(bytes(9000)), [(2, number + 1)])
        flush(log)
        upkeep(log, checkpoint=True)
    assert segment_name(1) not in files.names_now
    log.abort(transaction)
    assert log.statistics().open_transactions == 0


def test_the_next_record_divides_what_was_sealed_from_what_will_be(tmp_path: Path) -> None:
    """Also where the window gave an id out and took it back: it is given again."""
    log = opened(SimulatedFiles())
    sealed, coming = [log.append(message(b"a"), [(1, 1)])], []
    flush(log)
    for number in range(2, 40):
        divide = log.next_record
        assert max(sealed) < divide
        log.settle(log.append(message(b"cancelled"), [(1, number)]), 1)
        assert log.take_batch() is None
        coming = [log.append(message(bytes(1500)), [(1, 100 * number)])]
        assert divide <= min(coming)
        sealed += coming
        flush(log)
    assert coming[0] >> ORDINAL_BITS > sealed[0] >> ORDINAL_BITS, "not more than one segment"
