"""The published matrix is what the tests run, and what it calls refused is an error of declare."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import InvalidArgument
from annulet.core.configuration.arguments import describe, parse_queue_arguments, refusal_for
from tests.core.model_suite.compositions import refused_pairs
from tests.core.model_suite.matrix import PAGE, render
from tests.core.model_suite.policies import Policy, compose


def test_the_page_is_what_the_tests_run() -> None:
    assert PAGE.read_text() == render(), "stale: run python -m tests.core.model_suite.matrix"


@pytest.mark.parametrize("pair", refused_pairs(), ids=lambda pair: f"{pair[0]}, {pair[1]}")
def test_a_refused_pair_cannot_be_declared(pair: tuple[Policy, Policy]) -> None:
    settings = compose(pair)
    refusal = refusal_for(settings)
    assert refusal is not None
    with pytest.raises(InvalidArgument) as error:
        parse_queue_arguments(describe(settings))
    assert refusal.reason in str(error.value)
