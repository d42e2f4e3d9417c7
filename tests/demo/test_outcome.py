from __future__ import annotations

import pytest

from annulet.demo.outcome import Outcome, Phases
from annulet.demo.reconciliation import Check


@pytest.mark.parametrize(("actual", "fits"), [(2, True), (1, False)])
def test_an_outcome_fits_when_every_check_does(actual: int, fits: bool) -> None:
    checks = [Check("one", 1, 1), Check("two", 2, actual)]
    assert Outcome([], checks, {}, [], {}).fits is fits


def test_a_phase_is_measured_also_when_it_fails() -> None:
    phases = Phases()
    with pytest.raises(ValueError, match="broken"), phases.measure("first"):
        raise ValueError("broken")
    with phases.measure("second"):
        pass
    assert list(phases.seconds) == ["first", "second"]
