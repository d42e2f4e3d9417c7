"""Every pair of policies under Hypothesis: the core against the oracle, command by command, on a virtual clock."""

from __future__ import annotations

import pytest

from annulet.core.base.settings import QueueSettings
from tests.core.model_suite.compositions import Composition, all_pairs, compositions, compositions_of, refusal_of
from tests.core.model_suite.drawing import run_programs
from tests.core.model_suite.policies import EXAMPLES
from tests.core.model_suite.programs import Interpreter
from tests.core.model_suite.runner import ACKNOWLEDGE, ConsumerShape, MessageShape, Runner


@pytest.mark.hypothesis
@pytest.mark.parametrize("composition", compositions(), ids=lambda one: one.identifier)
def test_core_agrees_with_the_oracle(composition: Composition) -> None:
    def run(program: bytes) -> None:
        Interpreter(composition, program).run()

    run_programs(run, composition.identifier, EXAMPLES)


def test_a_cap_on_what_is_in_delivery_holds_when_there_is_room_for_one() -> None:
    """The most important message stands behind the lanes, and in them what was found for a consumer with no-local."""
    runner = Runner(QueueSettings(priorities=3, in_flight_max=2))
    runner.open_session(-1)
    pair = runner.sessions[0]
    runner.attach(pair, ConsumerShape(messages_max=3))
    runner.attach(pair, ConsumerShape(messages_max=1, no_local=True))
    for priority in (None, None, None, None, None, 9):
        runner.publish(MessageShape(priority=priority))
        runner.compare()
    runner.settle(pair, 1, ACKNOWLEDGE, multiple=False, transacted=False)
    runner.compare()
    assert len(runner.queue.delivering) == 2


def test_every_legal_pair_is_in_a_composition() -> None:
    missing = [pair for pair in all_pairs() if not refusal_of(pair) and not compositions_of(pair)]
    assert missing == []


def test_every_composition_is_legal() -> None:
    assert [one.identifier for one in compositions() if refusal_of(one.policies)] == []
