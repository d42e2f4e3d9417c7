"""How Hypothesis runs: the same examples each time in ``make test``, many new ones in ``make soak``.

``HYPOTHESIS_PROFILE=test|soak`` chooses. A failure prints the ``@reproduce_failure`` line that repeats it, and the
steps of a state machine; ``--hypothesis-seed=N`` repeats a whole run of the soak profile.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

PROFILE_VARIABLE = "HYPOTHESIS_PROFILE"
DEFAULT_PROFILE = "test"

TEST_EXAMPLES = 25
"""Examples of each test in ``make test``. They are the same in every run, so a hundred would find hardly more, and the
hot modules' tests run twice. State machines say how many they need."""

SOAK_EXAMPLES = 2000
"""Examples of each test in ``make soak``, new ones each time."""

# No deadline anywhere: the time of one example says something about the machine, not about the code.
settings.register_profile("test", deadline=None, derandomize=True, print_blob=True, max_examples=TEST_EXAMPLES)
settings.register_profile(
    "soak",
    deadline=None,
    derandomize=False,
    print_blob=True,
    max_examples=SOAK_EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow],
)


def load_profile() -> None:
    """Load the profile the environment names. An unknown name is an error of the run, not of a test."""
    settings.load_profile(os.environ.get(PROFILE_VARIABLE) or DEFAULT_PROFILE)


def state_machine_settings(*, examples: int, steps: int) -> settings:
    """Return settings of a state machine: ``examples`` runs of up to ``steps`` steps, more runs if the profile asks."""
    if settings.get_current_profile_name() == "soak":
        examples = max(examples, SOAK_EXAMPLES)
    return settings(max_examples=examples, stateful_step_count=steps)


def fewer_examples(examples: int) -> settings:
    """Return settings of a test that is there for many kinds: ``examples`` of each, as many as ever in a soak."""
    return settings(max_examples=SOAK_EXAMPLES if settings.get_current_profile_name() == "soak" else examples)
