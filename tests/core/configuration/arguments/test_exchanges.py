"""Exchange arguments."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import InvalidArgument
from annulet.core.configuration.arguments.exchanges import parse_alternate_exchange


def test_the_alternate_exchange():
    assert parse_alternate_exchange({"alternate-exchange": "ae", "x-other": 1}) == "ae"
    assert parse_alternate_exchange({}) is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"alternate-exchange": 1}, "name of an exchange, not 1"), ({"x-delayed-type": "direct"}, "'x-delay'")],
)
def test_refused(arguments, words):
    with pytest.raises(InvalidArgument, match=words):
        parse_alternate_exchange(arguments)
