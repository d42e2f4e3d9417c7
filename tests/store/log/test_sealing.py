from __future__ import annotations

from annulet.store.log.sealing import PAIRS_PER_RECORD
from tests.store.log.test_log_tools import flush, live, message, opened
from tests.store.simulated_files import SimulatedFiles


def test_settlements_beyond_one_record_and_one_segment_are_written() -> None:
    files = SimulatedFiles()
    log = opened(files)
    records = [log.append(message(b"%05d" % number), [(1, number + 1)]) for number in range(PAIRS_PER_RECORD + 10)]
    flush(log)
    log.settle_all(records[:-1], 1)
    flush(log)
    assert log.statistics().deferred_settlements == 0
    assert set(live(opened(files.copied()))) == {b"%05d" % (PAIRS_PER_RECORD + 9)}


def test_one_damaged_commit_record_does_not_take_its_transaction_along() -> None:
    """The seal repeats the batch's commits; the query id is in both."""
    files = SimulatedFiles()
    log = opened(files)
    transaction = log.begin()
    log.append(message(b"sent"), [(1, 1)], transaction)
    log.commit(transaction, ("the-query", 8))
    flush(log)
    data = next(node.data for name, node in files.names_now.items() if name.endswith("1.segment"))
    for place in (data.index(b"the-query"), data.rindex(b"the-query")):
        damaged = files.copied()
        node = next(node for name, node in damaged.names_now.items() if name.endswith("1.segment"))
        node.data[place] ^= 1
        after = opened(damaged)
        assert set(live(after)) == {b"sent"}
        assert after.outcomes == {"the-query": 8}


def test_batches_are_numbered_without_gaps_whatever_was_cancelled() -> None:
    log = opened(SimulatedFiles())
    numbers = []
    for number in range(6):
        record = log.append(message(b"a"), [(1, number + 1)])
        if number % 2:
            log.settle(record, 1)
        batch = log.take_batch()
        if batch is not None:
            numbers.append(batch.number)
            log.write(batch)
            log.complete(batch)
    assert numbers == [1, 2, 3]
