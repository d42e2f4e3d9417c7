"""Very many dead letters: sent in slices, in their order, and none before who decides about it changes."""

from __future__ import annotations

from annulet.core.host.dead_letters import FORWARDED_AT_ONCE, FORWARDED_PER_SLICE
from annulet.core.model.entry import QueueEntry
from annulet.core.policies.staged_batches import HiddenBatch, take_back
from annulet.core.queue.queue import Queue
from tests.core.helpers import NOW, SlicingEffects, pending
from tests.core.host.test_dead_letters import Bench, letter


def test_very_many_are_sent_in_slices_and_in_their_order() -> None:
    effects = SlicingEffects()
    bench = Bench(effects)
    dead, queue = bench.target("dead"), bench.source(dead_letter_exchange="", dead_letter_routing_key="dead")
    count = FORWARDED_AT_ONCE + 3 * FORWARDED_PER_SLICE
    bench.drop(queue, *(letter(str(number), record=number + 1) for number in range(count)))
    assert dead.order.count == FORWARDED_AT_ONCE
    assert bench.letters.records_of(queue) == list(range(FORWARDED_AT_ONCE + 1, count + 1))
    assert bench.letters.records_of(dead) == []
    effects.turn()
    bench.drop(queue, letter("last", record=count + 1))  # behind the others, and no flush between slices
    assert dead.order.count == FORWARDED_AT_ONCE + FORWARDED_PER_SLICE
    assert effects.turns() == 3
    assert pending(dead) == [*map(str, range(count)), "last"]
    assert [record for _, record in effects.settled] == list(range(1, count + 2))
    bench.drop(queue, letter("alone"))
    assert (pending(dead)[-1], effects.works, bench.letters.waiting) == ("alone", [], False)


def test_a_queue_that_goes_or_changes_has_all_of_it_sent_first() -> None:
    effects = SlicingEffects()
    bench = Bench(effects)
    dead, queue = bench.target("dead"), bench.source(dead_letter_exchange="", dead_letter_routing_key="dead")
    for act in (lambda: queue.update(queue.settings, NOW), lambda: queue.delete(NOW)):
        before = dead.order.count
        bench.drop(queue, *(letter(str(number)) for number in range(FORWARDED_AT_ONCE + 1)))
        act()
        assert dead.order.count == before + FORWARDED_AT_ONCE + 1
        assert effects.turns() == 1


def test_a_defect_in_a_slice_leaves_the_next_flush_its_work() -> None:
    effects = SlicingEffects()
    bench = Bench(effects)
    dead, queue = bench.target("dead"), bench.source(dead_letter_exchange="", dead_letter_routing_key="dead")
    bench.drop(queue, *(letter(str(number)) for number in range(FORWARDED_AT_ONCE + 1)))
    effects.works.pop().abandon(NOW)
    bench.drop(queue, letter("next"))
    assert dead.order.count == FORWARDED_AT_ONCE + 2


class Bracketed(SlicingEffects):
    """Inside a transaction."""

    def bracketed(self) -> bool:
        return True


def test_in_a_transaction_all_is_sent_before_it_ends() -> None:
    effects = Bracketed()
    bench = Bench(effects)
    dead, queue = bench.target("dead"), bench.source(dead_letter_exchange="", dead_letter_routing_key="dead")
    bench.drop(queue, *(letter(str(number)) for number in range(FORWARDED_AT_ONCE + 1)))
    assert (dead.order.count, effects.works) == (FORWARDED_AT_ONCE + 1, [])


class Bracketing(SlicingEffects):
    """Notes which records were settled while a transaction was open."""

    def __init__(self) -> None:
        super().__init__()
        self.open = False
        self.inside: list[int] = []

    def bracketed(self) -> bool:
        return self.open

    def suspend_transaction(self) -> int:
        self.open = False
        return 7

    def resume_transaction(self, transaction: int) -> None:
        assert transaction == 7
        self.open = True

    def settle(self, queue: Queue, entry: QueueEntry) -> None:
        super().settle(queue, entry)
        if self.open:
            self.inside.append(entry.message.record)


def test_what_left_before_a_transaction_does_not_share_its_fate() -> None:
    effects = Bracketing()
    bench = Bench(effects)
    dead, queue = bench.target("dead"), bench.source(dead_letter_exchange="", dead_letter_routing_key="dead")
    count = FORWARDED_AT_ONCE + 2
    bench.drop(queue, *(letter(str(number), record=number + 1) for number in range(count)))
    effects.open = True
    bench.drop(queue, letter("inside", record=count + 1))
    assert pending(dead) == [*map(str, range(count)), "inside"]
    assert (effects.open, effects.inside) == (True, [count + 1])


def test_what_left_before_a_batch_is_not_taken_back_with_it() -> None:
    effects = Bracketing()
    bench = Bench(effects)
    dead, queue = bench.target("dead"), bench.source(dead_letter_exchange="", dead_letter_routing_key="dead")
    count = FORWARDED_AT_ONCE + 2
    bench.drop(queue, *(letter(str(number)) for number in range(count)))
    batch = bench.host.batches.current = HiddenBatch()
    effects.open = True
    bench.drop(queue, letter("inside"))
    assert bench.host.batches.current is batch
    bench.host.batches.current = None
    effects.open = False
    take_back(batch, effects, NOW)
    effects.turns()
    assert pending(dead) == [*map(str, range(count))]
