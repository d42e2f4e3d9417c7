"""How Hypothesis runs: the same examples each time in ``make test``, many new ones in ``make soak``.

``HYPOTHESIS_PROFILE=test|again|soak`` chooses. A failure prints the ``@reproduce_failure`` line that repeats it,
and the steps of a state machine; ``--hypothesis-seed=N`` repeats a whole run of the soak profile.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

PROFILE_VARIABLE = "HYPOTHESIS_PROFILE"
DEFAULT_PROFILE = "test"

TEST_EXAMPLES = 25
"""Examples of each test in ``make test``. They are the same in every run, so a hundred would find hardly more. State
machines say how many they need."""

AGAIN_SHARE = 3
"""The hot modules' tests run once more in the other mode. What a compiled module does differently shows in most
examples of a kind, so a third of them is enough there, and halves the time of that run."""

SOAK_EXAMPLES = 2000
"""Examples of each test in ``make soak``, new ones each time."""

# No deadline anywhere: the time of one example says something about the machine, not about the code.
settings.register_profile("test", deadline=None, derandomize=True, print_blob=True, max_examples=TEST_EXAMPLES)
settings.register_profile(
    "again", deadline=None, derandomize=True, print_blob=True, max_examples=TEST_EXAMPLES // AGAIN_SHARE
)
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


def examples_of(count: int) -> int:
    """Return how many examples a test that wants ``count`` in ``make test`` takes under the current profile."""
    profile = settings.get_current_profile_name()
    if profile == "soak":
        return max(count, SOAK_EXAMPLES)
    return max(1, count // AGAIN_SHARE) if profile == "again" else count


def state_machine_settings(
    *, examples: int, steps: int, suppress_health_check: tuple[HealthCheck, ...] = ()
) -> settings:
    """Return settings of a state machine: ``examples`` runs of up to ``steps`` steps, as many as the profile asks."""
    if settings.get_current_profile_name() == "soak":
        suppress_health_check = (*suppress_health_check, HealthCheck.too_slow)
    return settings(
        max_examples=examples_of(examples), stateful_step_count=steps, suppress_health_check=suppress_health_check
    )


def fewer_examples(examples: int) -> settings:
    """Return settings of a test that is there for many kinds: ``examples`` of each, as many as ever in a soak."""
    return settings(max_examples=examples_of(examples))
