"""Every pair of policies under Hypothesis: the core against the oracle, command by command, on a virtual clock."""

from __future__ import annotations

from zlib import crc32

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from tests.core.model.compositions import Composition, all_pairs, compositions, compositions_of, refusal_of
from tests.core.model.policies import EXAMPLES
from tests.core.model.programs import LONGEST, SHORTEST, Interpreter
from tests.hypothesis_profiles import examples_of

SOAK_EXAMPLES = 100
"""Programs of each composition in ``make soak``, other ones on every run: about six minutes in all."""


@pytest.mark.hypothesis
@pytest.mark.parametrize("composition", compositions(), ids=lambda one: one.identifier)
def test_core_agrees_with_the_oracle(composition: Composition) -> None:
    def run(program: bytes) -> None:
        Interpreter(composition, program).run()

    soaking = settings.get_current_profile_name() == "soak"
    test = given(st.binary(min_size=SHORTEST, max_size=LONGEST))(run)
    test = settings(max_examples=SOAK_EXAMPLES if soaking else examples_of(EXAMPLES))(test)
    if not soaking:  # else all compositions would run the same programs
        test = seed(crc32(composition.identifier.encode()))(test)
    test()


def test_every_legal_pair_is_in_a_composition() -> None:
    missing = [pair for pair in all_pairs() if not refusal_of(pair) and not compositions_of(pair)]
    assert missing == []


def test_every_composition_is_legal() -> None:
    assert [one.identifier for one in compositions() if refusal_of(one.policies)] == []
