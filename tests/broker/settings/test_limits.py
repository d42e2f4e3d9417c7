from __future__ import annotations

import msgspec
import pytest

from annulet.broker.settings.limits import RANGES, Limits


def test_each_limit_is_one_number_of_its_ranges_kind() -> None:
    for name, value in msgspec.structs.asdict(Limits()).items():
        assert isinstance(value, (int, float)), name
        assert RANGES[name].unit.split()[0] in {
            "connections",
            "sessions",
            "links",
            "bytes",
            "seconds",
            "attempts",
            "operations",
        }


def test_limits_cannot_be_misspelt() -> None:
    with pytest.raises(TypeError):
        Limits(max_conections=1)  # type: ignore[call-arg]


def test_the_default_wait_ends_before_the_default_handshake_does() -> None:
    from annulet.broker.settings.configuration import HANDSHAKE_TIMEOUT

    assert Limits().login_delay_most <= HANDSHAKE_TIMEOUT / 2
