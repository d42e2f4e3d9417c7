"""What the evaluations of selectors in one call may take.

A client decides how long a selector takes for a message, and how many consumers have another one. Answers stay with the
entry or in the frontier of the class, so nothing is evaluated twice when a later turn goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from annulet.core.policies.matchers import Matchers

EVALUATION_STEPS_MAX: Final = 32_000
"""Steps of selectors in one dispatch, scan or slice, but for the evaluation that ends it: some 8 ms in pure Python."""


def used_up(matchers: Matchers) -> bool:
    """Return whether a dispatch has to end because of its selectors, and note that it goes on later."""
    if matchers.steps < EVALUATION_STEPS_MAX:
        return False
    matchers.cut = True
    return True
