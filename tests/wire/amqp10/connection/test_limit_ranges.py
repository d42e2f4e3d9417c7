from __future__ import annotations

import re

import pytest

from annulet.wire.amqp10.connection.limit_ranges import LIMIT_RANGES, check_limits
from annulet.wire.amqp10.types.errors import LocalProtocolError


@pytest.mark.parametrize("name", LIMIT_RANGES)
def test_both_ends_of_a_range_are_allowed_and_nothing_beyond(name: str) -> None:
    least, most = LIMIT_RANGES[name]
    check_limits({name: least})
    check_limits({name: most})
    for wrong in (least - 1, most + 1):
        with pytest.raises(
            LocalProtocolError, match=re.escape(f"{name} is {wrong}; give a number from {least} to {most}")
        ):
            check_limits({name: wrong})
