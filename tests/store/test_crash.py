"""Power loss at any point: completed appends survive, completed settlements do not come back."""

from __future__ import annotations

import os
import random

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from annulet.store.log.log import MessageLog
from tests.hypothesis_profiles import state_machine_settings
from tests.store.log.test_log_tools import flush, live, message, opened, upkeep
from tests.store.simulated_files import SimulatedFiles

SEED = int(os.environ.get("ANNULET_TEST_SEED", "20130101"))


class Workload:
    """Random traffic on a log, with what must and what may be there after a crash."""

    def __init__(self, files: SimulatedFiles, chance: random.Random) -> None:
        self.files = files
        self.chance = chance
        self.log = opened(files)
        self.must: dict[bytes, tuple[int, set[int]]] = {}  # durable: body -> (record, remaining queues)
        self.gone: set[bytes] = set()  # settled and completed
        self.new: dict[bytes, tuple[int, set[int]]] = {}  # appended, not durable
        self.leaving: dict[bytes, set[int]] = {}  # queues settled, not durable
        self.count = 0

    def append(self) -> None:
        self.count += 1
        body = b"%06d" % self.count + bytes(self.chance.choice([0, 10, 200, 900]))
        queues = set(self.chance.sample([1, 2, 3], self.chance.choice([1, 1, 2, 3])))
        record = self.log.append(message(body), [(queue, self.count) for queue in sorted(queues)])
        self.new[body] = (record, queues)

    def settle(self) -> None:
        known = {**self.must, **self.new}
        open_ones = [body for body, (_, queues) in known.items() if queues - self.leaving.get(body, set())]
        if open_ones:
            body = self.chance.choice(open_ones)
            record, queues = known[body]
            queue = self.chance.choice(sorted(queues - self.leaving.get(body, set())))
            self.log.settle(record, queue)
            self.leaving.setdefault(body, set()).add(queue)

    def discard(self) -> None:
        """Settle all that a queue has on disk in a range, as a purge does."""
        queue = self.chance.choice([1, 2, 3])
        bound = self.log.written_below
        records = sorted(record for record, _ in self.must.values() if record < bound)
        if not records:
            return
        first, last = sorted(self.chance.choices(records, k=2))
        self.log.discard(queue, [(first, last)])
        for body, (record, queues) in self.must.items():
            if first <= record <= last and queue in queues:
                self.leaving.setdefault(body, set()).add(queue)

    def completed(self) -> None:
        self.must.update(self.new)
        self.new = {}
        for body, queues in self.leaving.items():
            record, remaining = self.must[body]
            if remaining <= queues:
                del self.must[body]
                self.gone.add(body)
            else:
                self.must[body] = (record, remaining - queues)
        self.leaving = {}

    def step(self) -> None:
        choice = self.chance.random()
        if choice < 0.5:
            self.append()
        elif choice < 0.82:
            self.settle()
        elif choice < 0.85:
            self.discard()
        elif choice < 0.97:
            flush(self.log)
            self.completed()
        else:
            upkeep(self.log, checkpoint=self.chance.random() < 0.5)

    def check(self, log: MessageLog) -> None:
        found = live(log)
        for body, (_, queues) in self.must.items():
            needed = queues - self.leaving.get(body, set())
            if needed:
                assert body in found, f"lost {body[:6]!r}"
                assert needed <= {queue for queue, _ in found[body]}, f"lost for a queue: {body[:6]!r}"
            if body in found:
                assert {queue for queue, _ in found[body]} <= queues, f"came back for a queue: {body[:6]!r}"
        assert not self.gone & set(found), "settled messages came back"
        assert set(found) <= set(self.must) | set(self.new), "messages nobody sent"


@pytest.mark.parametrize("number", range(120))
def test_random_crash_images_keep_what_was_completed(number: int) -> None:
    seed = SEED + number
    print(f"seed {seed}")  # repeat with ANNULET_TEST_SEED
    chance = random.Random(seed)
    work = Workload(SimulatedFiles(), chance)
    for _ in range(chance.randrange(20, 220)):
        work.step()
    batch = work.log.take_batch()
    if batch is not None and chance.random() < 0.7:
        for part in batch.parts:
            part.file.write(part.buffers, part.offset)  # written, the sync never returned
    image = work.files.crashed(chance)
    first = opened(image)
    work.check(first)
    once = live(first)
    again = opened(image.crashed(chance))  # a crash right after recovery gives the same verdict
    assert live(again) == once


@pytest.mark.parametrize("seed", range(SEED, SEED + 2))
def test_torn_at_every_byte_of_the_last_write(seed: int) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    work = Workload(SimulatedFiles(), chance)
    for _ in range(25):
        work.append()
    flush(work.log)
    work.completed()
    for _ in range(6):
        work.append()
        work.settle()
    batch = work.log.take_batch()
    assert batch is not None
    for part in batch.parts:
        part.file.write(part.buffers, part.offset)
    for cut in range(batch.size + 1):
        log = opened(work.files.crashed(chance, cut=cut))
        work.check(log)
        if 0 < cut < batch.size:
            assert not log.clean


def test_a_settlement_never_outlives_the_message_it_moved() -> None:
    """Dead-lettering appends a copy and settles the original in one window: a torn batch must not lose both."""
    for seed in range(SEED, SEED + 60):
        chance = random.Random(seed)
        files = SimulatedFiles()
        log = opened(files)
        original = log.append(message(b"original" + bytes(300)), [(1, 1)])
        flush(log)
        log.append(message(b"copy" + bytes(600)), [(2, 1)])
        log.settle(original, 1)
        batch = log.take_batch()
        assert batch is not None
        for part in batch.parts:
            part.file.write(part.buffers, part.offset)
        found = live(opened(files.crashed(chance)))
        assert any(body.startswith((b"original", b"copy")) for body in found), f"seed {seed}"


def test_a_transaction_is_there_whole_or_not_at_all() -> None:
    verdicts = set()
    for seed in range(SEED, SEED + 80):
        chance = random.Random(seed)
        files = SimulatedFiles()
        log = opened(files)
        old = log.append(message(b"old"), [(1, 1)])
        flush(log)
        transaction = log.begin()
        for number in range(12):  # over several windows and segments
            log.append(message(b"%02d" % number + bytes(1500)), [(1, number + 2)], transaction)
            if number % 5 == 4:
                flush(log)
        log.settle(old, 1, transaction)
        log.commit(transaction, ("query", 3))
        batch = log.take_batch()
        assert batch is not None
        for part in batch.parts:
            part.file.write(part.buffers, part.offset)
            if chance.random() < 0.5:
                part.file.sync()
        after = opened(files.crashed(chance))
        found = set(live(after))
        verdicts.add(len(found))
        if b"old" in found:
            assert found == {b"old"}, f"seed {seed}"
            assert after.outcomes == {}
        else:
            assert len(found) == 12, f"seed {seed}"
            assert after.outcomes == {"query": 3}
    assert verdicts == {1, 12}, "the images must show both ends"


class LogMachine(RuleBasedStateMachine):
    """The log against dictionaries: every completed step survives any crash."""

    @initialize(seed=st.integers(0, 2**32 - 1))
    def start(self, seed: int) -> None:
        self.work = Workload(SimulatedFiles(), random.Random(seed))

    @rule()
    def append(self) -> None:
        self.work.append()

    @rule()
    def settle(self) -> None:
        self.work.settle()

    @rule()
    def discard(self) -> None:
        self.work.discard()
        upkeep(self.work.log)  # only what is swept counts as settled

    @rule()
    def batch(self) -> None:
        flush(self.work.log)
        self.work.completed()

    @rule(commit=st.booleans(), count=st.integers(1, 4))
    def transaction(self, commit: bool, count: int) -> None:
        work = self.work
        transaction = work.log.begin()
        sent = {}
        for _ in range(count):
            work.count += 1
            body = b"t%05d" % work.count + bytes(100)
            sent[body] = (work.log.append(message(body), [(1, work.count)], transaction), {1})
        if commit:
            work.log.commit(transaction)
            work.new.update(sent)
        else:
            work.log.abort(transaction)

    @rule(checkpoint=st.booleans())
    def upkeep(self, checkpoint: bool) -> None:
        upkeep(self.work.log, checkpoint=checkpoint)

    @precondition(lambda self: hasattr(self, "work"))
    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        work = self.work
        if clean:
            work.log.close()
            work.completed()
            files = work.files.crashed(work.chance)
        else:
            files = work.files.crashed(work.chance)
        log = opened(files)
        work.check(log)
        assert log.clean or not clean
        found = {recovered.body: recovered for recovered in log.recovered()}
        work.files, work.log, work.new, work.leaving = files, log, {}, {}
        work.must = {body: (each.record, {queue for queue, _ in each.targets}) for body, each in found.items()}

    @invariant()
    def counted(self) -> None:
        if hasattr(self, "work"):
            known = {**self.work.must, **self.work.new}
            left = [body for body, (_, queues) in known.items() if queues - self.work.leaving.get(body, set())]
            assert self.work.log.statistics().live_records == len(left)


LogMachine.TestCase.settings = state_machine_settings(examples=60, steps=40)
TestLogMachine = LogMachine.TestCase
