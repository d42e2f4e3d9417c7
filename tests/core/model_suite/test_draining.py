"""A consumer that drains a queue is told that there is nothing more neither too early nor never.

Everything runs as in :mod:`tests.core.model_suite.test_paged`, and after each command every consumer drains the queue
before the turns of walks and browsers are taken. The oracle knows no turns: everything that it hands over with a
command has to be there before the answer.
"""

from __future__ import annotations

from typing import Any

import pytest

from annulet.core.base.settings import BROWSE_FOLLOW, QueueSettings
from annulet.core.model.consumer import Consumer
from annulet.residency.pages import pages as pages_module
from tests.core.model_suite.compositions import Composition
from tests.core.model_suite.doubles import ModelSession
from tests.core.model_suite.drawing import run_programs
from tests.core.model_suite.programs import Interpreter
from tests.core.model_suite.runner import ConsumerShape, MessageShape
from tests.core.model_suite.test_paged import LEVELS, PAGING, PLAIN, PagedRunner, runner_of, with_policy

EXAMPLES = 4
"""Programs of each composition in ``make test``."""


class DrainingSession(ModelSession):
    """Notes how much it had received when it was told that there was nothing more for a consumer."""

    def __init__(self, name: str, connection: object) -> None:
        super().__init__(name, connection)
        self.told: dict[str, int] = {}

    def nothing_more(self, consumer: Consumer) -> None:
        assert consumer.tag not in self.told, "told once"
        self.told[consumer.tag] = self.received_by(consumer)

    def received_by(self, consumer: Consumer) -> int:
        return sum(tag == consumer.tag for _, tag, _ in self.received)


class DrainingRunner(PagedRunner):
    """Lets every consumer drain before the turns, and holds the answers to what the turns brought."""

    session_class = DrainingSession

    def __init__(self, settings: QueueSettings, **options: Any) -> None:
        super().__init__(settings, **options)
        self.waited = 0  # drains that were not answered at once

    def walk(self) -> None:
        consumers = list(self.queue.consumers)
        for consumer in consumers:
            self.session_of(consumer).told.pop(consumer.tag, None)
            self.queue.drain(consumer, self.now)
        self.waited += sum(consumer.session.writable for consumer in self.queue.draining)
        super().walk()
        for consumer in consumers:
            session = self.session_of(consumer)
            if consumer.cancelled:  # a snapshot that came to its end
                assert consumer not in self.queue.draining
                continue
            if not session.writable:
                self.queue.stop_draining(consumer)
                continue
            assert session.told.get(consumer.tag) == session.received_by(consumer), "all turns were taken"
        assert not self.queue.draining

    def session_of(self, consumer: Consumer) -> DrainingSession:
        session = consumer.session
        assert isinstance(session, DrainingSession)
        return session


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages_module, "LOAD_MESSAGES", 2)


@pytest.mark.hypothesis
@pytest.mark.parametrize("composition", PAGING, ids=lambda one: one.identifier)
def test_the_answer_to_a_drain_comes_with_the_last_turn(composition: Composition, tiny: None) -> None:
    def run(program: bytes) -> None:
        interpreter = Interpreter(composition, program)
        paged = runner_of(composition)
        interpreter.runner = DrainingRunner(composition.settings, copies=paged.copies)
        interpreter.run()

    run_programs(run, f"draining {composition.identifier}", EXAMPLES)


@pytest.mark.parametrize("base", [PLAIN, LEVELS], ids=["FIFO", "levels"])
def test_some_have_to_wait_for_turns(base: Composition, tiny: None) -> None:
    runner = DrainingRunner(with_policy(base, "browsers").settings, copies=True)
    runner.open_session(-1)
    for _ in range(8):
        runner.publish(MessageShape())
        runner.compare()
    assert (runner.paged > 0, runner.waited) == (True, 0)
    (pair,) = runner.sessions
    runner.attach(pair, ConsumerShape(browse=BROWSE_FOLLOW))
    runner.compare()
    assert runner.waited == 1
    assert len(pair.real.received) == 8
