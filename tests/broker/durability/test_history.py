"""The recorder and the rounds in which counters are written."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from annulet.broker.durability import history as module
from annulet.broker.durability.history import COUNTERS_MILLISECONDS, CounterRounds, HistoryRecorder
from annulet.core.host.virtual_host import VirtualHost
from annulet.core.message.message import ContentView, Message, Origin
from annulet.core.queue.queue import Queue
from annulet.core.routing.node_effects import NodeEffects
from annulet.store.database.history_batch import EntryState
from tests.databases import memory_history

NOW = 1_000_000
ORIGIN = Origin("", "q", "guest@test", ContentView("none"))


@pytest.fixture
def recorder() -> Iterator[HistoryRecorder]:
    history = memory_history()
    yield HistoryRecorder(history)
    history.close()


def test_nothing_noted_is_nothing_to_write(recorder: HistoryRecorder) -> None:
    assert recorder.take(1) is None
    recorder.write_now(1)
    assert recorder.batches == 0


def test_what_is_noted_is_written_once(recorder: HistoryRecorder) -> None:
    recorder.pending.entries[1, 7] = EntryState(2, 0)
    recorder.write_now(1)
    recorder.write_now(1)
    assert recorder.batches == 1
    assert recorder.history.entry_states() == {1: {7: EntryState(2, 0)}}


def test_what_could_not_be_written_goes_before_what_came_since(recorder: HistoryRecorder) -> None:
    recorder.pending.paused[1] = True
    recorder.pending.paused[2] = True
    batch = recorder.take(5)
    assert batch is not None
    recorder.pending.paused[1] = False
    recorder.finish(batch, OSError("disk full"))
    assert (recorder.failed, recorder.failures) == (True, 1)
    recorder.write_now(5)
    assert recorder.history.paused_queues() == {2}
    assert not recorder.failed


class Rounds:
    """Counters of a virtual host's queues, written round after round."""

    def __init__(self, recorder: HistoryRecorder) -> None:
        self.recorder = recorder
        self.rounds = CounterRounds(recorder)
        self.host = VirtualHost("/", NodeEffects())
        self.now = NOW

    def queue(self, name: str, queue_id: int) -> Queue:
        return self.host.declare_queue(name, now=NOW, durable=True, queue_id=queue_id)

    def tick(self, milliseconds: int = 0) -> list[int]:
        """Ids of the queues whose counters are noted."""
        self.now += milliseconds
        noted = self.rounds.tick([self.host], self.now)
        ids = sorted(queue.queue_id for queue in self.recorder.changed)
        assert noted == bool(ids)
        self.recorder.write_now(0)
        return ids


def test_counters_that_changed_are_written_in_the_next_round(recorder: HistoryRecorder) -> None:
    rounds = Rounds(recorder)
    queue = rounds.queue("a", 1)
    rounds.queue("b", 2)
    rounds.host.declare_queue("transient", now=NOW)
    assert rounds.tick() == [1, 2]
    queue.enqueue(Message(b"", b"body", ORIGIN), NOW)
    assert rounds.tick(COUNTERS_MILLISECONDS - 1) == []
    assert rounds.tick(1) == [1]
    assert recorder.history.queue_counters()[1]["messages_added"] == 1
    queue.purge(NOW)
    assert rounds.tick(COUNTERS_MILLISECONDS) == [1]
    assert rounds.tick(COUNTERS_MILLISECONDS) == []


def test_browsing_changes_counters_too(recorder: HistoryRecorder) -> None:
    rounds = Rounds(recorder)
    queue = rounds.queue("a", 1)
    assert rounds.tick() == [1]
    queue.counters.messages_browsed += 1
    assert rounds.tick(COUNTERS_MILLISECONDS) == [1]


def test_counters_are_those_of_the_moment_in_which_a_window_is_sealed(recorder: HistoryRecorder) -> None:
    """The settlements of what they say has left are in that window, or in one before."""
    rounds = Rounds(recorder)
    queue, gone = rounds.queue("a", 1), rounds.queue("gone", 2)
    recorder.changed.update((queue, gone))
    queue.counters.messages_delivered = 1
    rounds.host.delete_queue(gone, NOW)
    batch = recorder.take(1)
    assert batch is not None
    queue.counters.messages_delivered = 2
    assert {queue_id: values["messages_delivered"] for queue_id, values in batch.counters.items()} == {1: 1}
    assert recorder.take(1) is None, "once"


def test_counters_wait_for_room_on_the_disk_as_settlements_do(recorder: HistoryRecorder) -> None:
    recorder.changed.add(Rounds(recorder).queue("a", 1))
    assert recorder.take(1, deferring=True) is None
    batch = recorder.take(1)
    assert batch is not None
    assert set(batch.counters) == {1}


def test_counters_wait_for_the_end_of_a_transaction_in_which_something_left(recorder: HistoryRecorder) -> None:
    rounds = Rounds(recorder)
    queue, other = rounds.queue("a", 1), rounds.queue("b", 2)
    recorder.transaction_removes(5, queue)
    recorder.changed.update((queue, other))
    batch = recorder.take(1)
    assert batch is not None
    assert set(batch.counters) == {2}
    assert recorder.take(1) is None
    recorder.transaction_ended(5)
    batch = recorder.take(1)
    assert batch is not None
    assert set(batch.counters) == {1}


def test_a_round_over_many_queues_takes_several_ticks(
    recorder: HistoryRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "COUNTERS_SLICE", 2)
    rounds = Rounds(recorder)
    queues = [rounds.queue(str(number), number) for number in range(1, 6)]
    assert rounds.tick() == [1, 2]
    rounds.host.delete_queue(queues[2], NOW)
    assert [rounds.tick(1), rounds.tick(1), rounds.tick(1)] == [[4], [5], []]
