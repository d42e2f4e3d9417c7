"""Every pair of policies under Hypothesis: the core against the oracle, command by command, on a virtual clock."""

from __future__ import annotations

import pytest

from tests.core.model.compositions import Composition, all_pairs, compositions, compositions_of, refusal_of
from tests.core.model.drawing import run_programs
from tests.core.model.policies import EXAMPLES
from tests.core.model.programs import Interpreter


@pytest.mark.hypothesis
@pytest.mark.parametrize("composition", compositions(), ids=lambda one: one.identifier)
def test_core_agrees_with_the_oracle(composition: Composition) -> None:
    def run(program: bytes) -> None:
        Interpreter(composition, program).run()

    run_programs(run, composition.identifier, EXAMPLES)


def test_every_legal_pair_is_in_a_composition() -> None:
    missing = [pair for pair in all_pairs() if not refusal_of(pair) and not compositions_of(pair)]
    assert missing == []


def test_every_composition_is_legal() -> None:
    assert [one.identifier for one in compositions() if refusal_of(one.policies)] == []
