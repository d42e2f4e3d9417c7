"""Very many dead letters: sent in slices, in their order, and none before who decides about it changes."""

from __future__ import annotations

from annulet.core.base.settings import QueueSettings
from annulet.core.host.dead_letters import FORWARDED_AT_ONCE, FORWARDED_PER_SLICE
from annulet.core.host.entering import QUEUES_AT_ONCE_MAX
from annulet.core.host.sliced_commit import COMMIT_AT_ONCE_MAX, CommitWaiter, commit_in_turns
from annulet.core.host.transaction import Transaction
from annulet.core.host.virtual_host import VirtualHost
from annulet.core.message.message import Message, Origin
from annulet.core.model.entry import QueueEntry
from annulet.core.queue.invariants import check_invariants
from annulet.core.queue.queue import Queue
from annulet.wire.amqp091.messages.properties import VIEW, BasicProperties, encode_properties
from tests.core.helpers import NOW, RecordingSession, SlicingEffects, pending
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
    bench.drop(queue, letter("alone"), now=NOW + 1)
    assert (pending(dead)[-1], effects.works, bench.letters.waiting) == ("alone", [], False)


def test_what_left_before_settings_changed_goes_to_the_targets_of_that_time() -> None:
    effects = SlicingEffects()
    bench = Bench(effects)
    dead, other = bench.target("dead"), bench.target("other")
    queue = bench.source(dead_letter_address="dead")
    bench.drop(queue, *(letter(str(number)) for number in range(FORWARDED_AT_ONCE + 1)))
    queue.update(QueueSettings(dead_letter_address="other"), NOW)
    assert dead.order.count == FORWARDED_AT_ONCE, "a change sends nothing"
    bench.drop(queue, letter("later"))
    effects.turns()
    assert (dead.order.count, pending(other)) == (FORWARDED_AT_ONCE + 1, ["later"])


def test_a_defect_in_a_slice_leaves_the_next_flush_its_work() -> None:
    effects = SlicingEffects()
    bench = Bench(effects)
    dead, queue = bench.target("dead"), bench.source(dead_letter_exchange="", dead_letter_routing_key="dead")
    bench.drop(queue, *(letter(str(number)) for number in range(FORWARDED_AT_ONCE + 1)))
    effects.works.pop().abandon(NOW)
    bench.drop(queue, letter("next"), now=NOW + 1)
    assert dead.order.count == FORWARDED_AT_ONCE + 2


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


def test_letters_of_a_transaction_are_sent_in_it_while_earlier_ones_go_on_in_slices() -> None:
    effects = Bracketing()
    bench = Bench(effects)
    dead, queue = bench.target("dead"), bench.source(dead_letter_exchange="", dead_letter_routing_key="dead")
    count = FORWARDED_AT_ONCE + 2
    bench.drop(queue, *(letter(str(number), record=number + 1) for number in range(count)))
    effects.open = True
    bench.drop(queue, letter("inside", record=count + 1))
    effects.open = False
    bench.letters.transaction_ended(NOW)
    effects.turns()
    sent = [*map(str, range(FORWARDED_AT_ONCE))]
    assert pending(dead) == [*sent, "inside", *map(str, range(FORWARDED_AT_ONCE, count))]
    assert effects.inside == [count + 1]


def test_very_many_letters_of_a_transaction_go_on_behind_its_end() -> None:
    effects = Bracketing()
    bench = Bench(effects)
    dead, queue = bench.target("dead"), bench.source(dead_letter_exchange="", dead_letter_routing_key="dead")
    count = FORWARDED_AT_ONCE + 2
    effects.open = True
    bench.drop(queue, *(letter(str(number), record=number + 1) for number in range(count)))
    assert dead.order.count == FORWARDED_AT_ONCE
    assert bench.letters.records_of(queue) == [count - 1, count]
    effects.open = False
    bench.letters.transaction_ended(NOW)
    effects.turns()
    assert pending(dead) == [*map(str, range(count))]
    assert effects.inside == [*range(1, FORWARDED_AT_ONCE + 1)]


# ------------------------------------------------------------------ copies that go to many queues


class Fans:
    """``sources`` queues that keep ``length`` messages; each sends what it drops to ``targets`` others."""

    def __init__(self, sources: int, targets: int, effects: SlicingEffects | None = None, length: int = 0) -> None:
        self.effects = SlicingEffects() if effects is None else effects
        self.host = VirtualHost("/", self.effects)
        self.host.declare_exchange("dlx", "fanout")
        self.targets = [self.host.declare_queue(f"t{number}", now=NOW, durable=True) for number in range(targets)]
        for queue in self.targets:
            self.host.bind_queue(queue, "dlx", "")
        arguments = {"x-max-length": length, "x-dead-letter-exchange": "dlx"}
        for number in range(sources):
            queue = self.host.declare_queue(f"s{number}", now=NOW, durable=True, arguments=arguments)
            self.host.bind_queue(queue, "amq.fanout", "")

    def publish(self, now: int = NOW, body: str = "m") -> int:
        """Publish once to all sources."""
        message = Message(encode_properties(BasicProperties()), body.encode(), ORIGIN, durable=True, accepted_at=now)
        return self.host.publisher.publish(message, self.host.route("amq.fanout", ""), now)

    def entered(self) -> int:
        """Return how often a copy has entered a queue."""
        return sum(queue.counters.messages_added for queue in self.targets)

    def most_in_a_turn(self, now: int = NOW) -> int:
        """Do all turns. Returns how often copies entered queues in the busiest one."""
        most = 0
        while self.effects.works:
            before = self.entered()
            self.effects.turn(now)
            most = max(most, self.entered() - before)
        return most


ORIGIN = Origin("amq.fanout", "", "guest@test", VIEW)


def test_one_publish_that_many_queues_drop_sends_as_many_copies_at_once_as_one_now_may() -> None:
    """A8: a publish to 1,000 queues, each dead-lettering to 1,000 others, held the loop for 5.8 s."""
    fans = Fans(300, 100)
    assert fans.publish() == 300
    assert fans.entered() == FORWARDED_AT_ONCE
    fans.publish()
    assert fans.entered() == FORWARDED_AT_ONCE, "the same turn"
    assert fans.most_in_a_turn() == 100, "one copy goes to all its queues at once"
    assert fans.entered() == 2 * 300 * 100
    fans.publish(NOW + 1)
    assert fans.entered() == 2 * 300 * 100 + FORWARDED_AT_ONCE


def test_a_copy_at_the_bound_enters_all_its_queues_at_once_and_a_wider_one_in_parts() -> None:
    fans = Fans(1, QUEUES_AT_ONCE_MAX)
    fans.publish()
    assert (fans.entered(), fans.effects.works) == (QUEUES_AT_ONCE_MAX, [])
    fans = Fans(1, QUEUES_AT_ONCE_MAX + 1)
    fans.publish()
    assert fans.entered() == 0
    assert fans.most_in_a_turn() == FORWARDED_PER_SLICE
    assert all(pending(queue) == ["m"] for queue in fans.targets)


def test_a_wide_copy_is_hidden_until_it_is_in_all_its_queues_and_stored_once() -> None:
    fans = Fans(1, QUEUES_AT_ONCE_MAX + 1)
    reader = RecordingSession()
    reader.consume(fans.targets[0])
    fans.publish()
    while fans.entered() <= QUEUES_AT_ONCE_MAX:
        assert reader.received == []
        assert fans.targets[1].shown_count() == 0
        assert fans.effects.stored == []
        fans.effects.turn()
    fans.effects.turns()
    assert reader.received == ["m"]
    ((message, entries),) = fans.effects.stored
    assert (bytes(message.body), len(entries)) == (b"m", QUEUES_AT_ONCE_MAX + 1)
    check_invariants(fans.targets[0])


def test_a_wide_copy_waits_for_the_batch_of_another_and_lets_the_next_one_follow() -> None:
    fans = Fans(1, QUEUES_AT_ONCE_MAX + 1)
    batches, turns = fans.host.batches, list[str]()
    assert batches.begin(lambda: turns.append("never"))
    fans.publish()
    assert fans.effects.turns() == 1, "it waits"
    assert not batches.begin(lambda: turns.append("next"))
    batches.end()
    fans.effects.turns()
    assert (fans.entered(), turns) == (QUEUES_AT_ONCE_MAX + 1, ["next"])


def test_a_wide_copy_of_a_queue_that_is_deleted_goes_to_all() -> None:
    for turns in range(4):
        fans = Fans(1, QUEUES_AT_ONCE_MAX + 1)
        fans.publish()
        for _ in range(turns):
            fans.effects.turn()
        fans.host.delete_queue(fans.host.queues["s0"], NOW)
        fans.effects.turns()
        assert all(pending(queue) == ["m"] for queue in fans.targets)
        assert fans.host.batches.begin(lambda: None), "its turn has ended"


def test_a_wide_copy_that_cannot_be_stored_is_taken_back_and_stays_for_the_next_start() -> None:
    class Full(SlicingEffects):
        full = False

        def store(self, message: Message, entries: list[QueueEntry]) -> None:
            if self.full:
                raise OSError("no space left")
            super().store(message, entries)

    effects = Full()
    fans = Fans(1, QUEUES_AT_ONCE_MAX + 1, effects, length=1)
    fans.publish(body="first")
    fans.publish(body="second")
    effects.full = True
    effects.turns()
    assert all(pending(queue) == [] for queue in fans.targets)
    assert (fans.host.dead_letters.failures, fans.host.queues["s0"].unsent) == (1, [1])
    assert fans.host.batches.begin(lambda: None), "its turn has ended"


def test_a_wide_copy_of_a_small_commit_is_in_all_queues_before_it_ends() -> None:
    fans = Fans(1, QUEUES_AT_ONCE_MAX + 1, Transacting())
    transaction = Transaction(RecordingSession())
    message = Message(encode_properties(BasicProperties()), b"m", ORIGIN, durable=True, accepted_at=NOW)
    transaction.send(message, fans.host.route("amq.fanout", ""))
    assert commit_in_turns(transaction, fans.host, NOW, Answers([])) == []
    assert fans.effects.works == []
    assert all(pending(queue) == ["m"] for queue in fans.targets)
    kinds = [kind for kind, _ in fans.effects.calls if kind in ("begin", "store", "end")]
    assert (kinds[0], kinds[-1]) == ("begin", "end")


class Answers(CommitWaiter):
    """Notes the result of a commit."""

    def __init__(self, done: list[str]) -> None:
        self.done = done

    def committed(self, unroutable: list[Message]) -> None:
        self.done.append("committed")

    def commit_failed(self, error: Exception) -> None:
        self.done.append(str(error))


def test_letters_that_left_before_those_of_a_commit_are_sent_before_them() -> None:
    effects = Transacting()
    fans = Fans(1, 1, effects)
    dead = fans.targets[0]
    for number in range(FORWARDED_AT_ONCE + FORWARDED_PER_SLICE + 1):
        fans.publish(body=str(number))
    transaction = Transaction(RecordingSession())
    for _ in range(COMMIT_AT_ONCE_MAX + 1):
        message = Message(encode_properties(BasicProperties()), b"inside", ORIGIN, durable=True, accepted_at=NOW)
        transaction.send(message, fans.host.route("amq.fanout", ""))
    done: list[str] = []
    assert commit_in_turns(transaction, fans.host, NOW, Answers(done)) is None
    while not done:
        effects.turn()
    others = [*map(str, range(FORWARDED_AT_ONCE + FORWARDED_PER_SLICE + 1))]
    effects.turns()
    bodies = pending(dead)
    assert bodies == [*others, *["inside"] * (COMMIT_AT_ONCE_MAX + 1)]


class Transacting(SlicingEffects):
    """Has one transaction, which may be suspended."""

    def __init__(self) -> None:
        super().__init__()
        self.transaction = 0

    def begin_transaction(self) -> None:
        super().begin_transaction()
        self.transaction = 1

    def end_transaction(self) -> None:
        super().end_transaction()
        self.transaction = 0

    def abort_transaction(self) -> None:
        self.calls.append(("abort", None))
        self.transaction = 0

    def bracketed(self) -> bool:
        return self.transaction != 0

    def suspend_transaction(self) -> int:
        transaction, self.transaction = self.transaction, 0
        return transaction

    def resume_transaction(self, transaction: int) -> None:
        self.transaction = transaction
