from __future__ import annotations

import pytest

from annulet.testing import VirtualClock
from annulet.testing.clock import START


def test_it_stands_still_until_told() -> None:
    clock = VirtualClock()
    assert clock() == clock() == START
    assert clock.advance(5) == START + 5
    assert clock() == START + 5
    assert clock.advance(0) == START + 5


def test_it_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="milliseconds=-1"):
        VirtualClock().advance(-1)
