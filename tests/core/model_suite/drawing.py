"""Random programs for a composition: the same ones in each ``make test``, others on every run of ``make soak``."""

from __future__ import annotations

from collections.abc import Callable
from zlib import crc32

from hypothesis import given, seed, settings
from hypothesis import strategies as st

from tests.core.model_suite.programs import LONGEST, SHORTEST
from tests.hypothesis_profiles import examples_of

SOAK_EXAMPLES = 100
"""Programs of each composition in ``make soak``: about six minutes for all compositions of one test."""


def run_programs(run: Callable[[bytes], None], name: str, examples: int) -> None:
    """Run as many programs in ``make test`` as ``examples`` says; ``name``, of the composition, chooses them."""
    soaking = settings.get_current_profile_name() == "soak"
    test = given(st.binary(min_size=SHORTEST, max_size=LONGEST))(run)
    test = settings(max_examples=SOAK_EXAMPLES if soaking else examples_of(examples))(test)
    if not soaking:  # else all compositions would run the same programs
        test = seed(crc32(name.encode()))(test)
    test()
