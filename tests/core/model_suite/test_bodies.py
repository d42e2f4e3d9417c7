"""Every composition with its bodies on disk: each command is followed by a pager that drops every body that may go.

The oracle knows nothing of bodies, so any policy that decided otherwise without them would differ from it. Every third
message is transient, and every other program is of a queue that is not durable: what no log holds is spilled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from annulet.core.base.settings import QueueSettings
from annulet.core.deliveries.compaction import Compaction
from annulet.core.message.message import Message
from annulet.core.model.consumer import Consumer
from annulet.core.model.entry import DELIVERING, REMOVED, QueueEntry
from annulet.residency.bodies import bodies as bodies_module
from annulet.residency.bodies import body_store, spilling
from annulet.residency.bodies.bodies import StoredBodies
from annulet.residency.bodies.body_store import BodyStore
from annulet.residency.bodies.budget import drift_of
from annulet.residency.loading.figures import PagingFigures
from annulet.store.segments.interface import LoggedMessage
from annulet.testing.oracle.records import OracleMessage
from tests.core.helpers import RecordingEffects
from tests.core.model_suite.compositions import Composition, compositions
from tests.core.model_suite.doubles import ModelSession
from tests.core.model_suite.drawing import run_programs
from tests.core.model_suite.policies import AXES
from tests.core.model_suite.programs import BROWSERS, Interpreter
from tests.core.model_suite.runner import ConsumerShape, MessageShape, Runner
from tests.residency.doubles import Spill, plenty, spilling_of

ALL = 1 << 60
TRANSIENT = 3
"""Of so many messages one is not persistent."""
FOLDED_PROGRAMS = 25
"""Of each composition in which messages in delivery are folded."""
HELD = 2 * TRANSIENT
"""Messages in delivery when such a program begins."""
PROGRAMS = 2
"""Of each composition; those of ``test_compositions`` are ten, without a pager."""


class ModelDisk:
    """A log that has every message of the model as it was when it was made."""

    def __init__(self) -> None:
        self.stored: dict[int, LoggedMessage] = {}
        self.reads = 0

    def store(self, message: Message) -> None:
        message.record = len(self.stored) + 1
        self.stored[message.record] = LoggedMessage(message.header, message.body, ("", "q", "", ""), 4, 0, 0, [])

    def read(self, records: Sequence[int]) -> list[LoggedMessage | None]:
        self.reads += len(records)
        return [self.stored.get(record) for record in records]

    def prefetch(self, records: Sequence[int]) -> None:
        assert all(record in self.stored for record in records)


class StoringEffects(RecordingEffects):
    def __init__(self) -> None:
        super().__init__()
        self.disk = ModelDisk()

    def store(self, message: Message, entries: list[QueueEntry]) -> None:
        super().store(message, entries)
        self.disk.store(message)


class ReadingSession(ModelSession):
    """A client that looks at the body of what it gets: its number, over and over."""

    def deliver(self, consumer: Consumer, entry: QueueEntry, tag: int) -> None:
        super().deliver(consumer, entry, tag)
        message = entry.message
        assert message.body == (message.header * message.size)[: message.size]
        assert not entry.away


class AwayRunner(Runner):
    """Every message is stored or spilled, and every body that may leave does, after each command."""

    effects_class = StoringEffects
    session_class = ReadingSession

    def __init__(self, settings: QueueSettings, *, durable: bool, **options: Any) -> None:
        super().__init__(settings, **options)
        self.disk = self.effects.disk
        self.queue.queue_id = 7 if durable else 0
        self.spill = Spill()
        store = BodyStore(self.disk, PagingFigures(), plenty, None, spilling_of(self.spill))
        self.bodies = StoredBodies(self.queue, store)
        self.queue.bodies = self.bodies
        self.went = 0
        self.folded = 0

    def _make(self, shape: MessageShape) -> tuple[Message, OracleMessage]:
        real, model = super()._make(shape)
        real.arrive((real.header * real.size)[: real.size])
        if self.names % TRANSIENT:
            real.durable = True
            self.disk.store(real)
        return real, model

    def compare(self) -> None:
        super().compare()
        self.bodies.let_all_go(ALL)
        self.went = max(self.went, self.bodies.count)
        self.bodies.store.drop_orphans()
        assert drift_of(self.queue) == 0
        waiting = [*self.queue.order.in_memory(), *(item.entry for item in self.queue.schedule.snapshot())]
        assert all(entry.away for entry in waiting if entry.state != REMOVED)
        assert all(entry.away or entry.consumer is None for entry in self.queue.delivering)
        assert all(entry.state == DELIVERING for entry in self.queue.delivering)
        for pair in self.sessions:
            while Compaction(pair.real.unacknowledged, newest=True).step(ALL):
                pass
        self.folded = max(self.folded, self.queue.delivering.folded)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies_module, "LOAD_MESSAGES", 2)
    monkeypatch.setattr(body_store, "AHEAD_BYTES", 8)
    monkeypatch.setattr(bodies_module, "BODY_BYTES_LEAST", 0)
    monkeypatch.setattr(spilling, "BODY_BYTES_LEAST", 0)


@pytest.mark.hypothesis
@pytest.mark.parametrize("composition", compositions(), ids=lambda one: one.identifier)
def test_core_agrees_with_the_oracle_when_its_bodies_are_on_disk(composition: Composition, tiny: None) -> None:
    went = []
    copies = composition.settings.non_destructive or BROWSERS in composition.traits

    def run(program: bytes) -> None:
        interpreter = Interpreter(composition, program)
        interpreter.runner = runner = AwayRunner(composition.settings, durable=len(went) % 2 == 0, copies=copies)
        interpreter.run()
        went.append(runner.went)
        assert runner.went == 0 or runner.queue.queue_id or runner.spill.writes

    run_programs(run, composition.identifier, PROGRAMS)
    assert went


class HoldingInterpreter(Interpreter):
    """Begins with a consumer that holds folded messages: where there are selectors and times to live, few are later."""

    def open_sessions(self) -> None:
        self.runner.open_session(-1)
        self.runner.attach(self.runner.sessions[0], ConsumerShape(messages_max=HELD))
        for _ in range(HELD):
            self.runner.publish(MessageShape())
        self.runner.compare()
        super().open_sessions()


FOLDED = [
    Composition((AXES["order"][0], retention, AXES["dispatch"][0], consumers, AXES["flow"][0], time, back))
    for retention in (AXES["retention"][0], AXES["retention"][1])
    for consumers in AXES["consumers"]
    for time in AXES["time"][:2]
    for back in AXES["returns"]
]
"""First in, first out, all kept, with every kind of consumer and of return."""


@pytest.mark.hypothesis
@pytest.mark.parametrize("composition", FOLDED, ids=lambda one: one.identifier)
def test_nobody_sees_that_messages_in_delivery_are_folded(composition: Composition, tiny: None) -> None:
    def run(program: bytes) -> None:
        interpreter = HoldingInterpreter(composition, program)
        copies = BROWSERS in composition.traits
        interpreter.runner = runner = AwayRunner(composition.settings, durable=True, copies=copies)
        interpreter.run()
        assert runner.folded > 0

    run_programs(run, composition.identifier, FOLDED_PROGRAMS)
