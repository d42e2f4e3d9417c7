"""What other rooms import from the package."""

from __future__ import annotations

from annulet.core.configuration import arguments


def test_every_exported_name_is_there():
    assert all(hasattr(arguments, name) for name in arguments.__all__)


def test_arguments_are_read_described_and_judged():
    settings = arguments.parse_queue_arguments({"ring-size": 3})
    assert arguments.describe(settings) == {"x-ring-size": 3}
    assert arguments.refusal_for(settings) is None
    assert arguments.parse_consumer_arguments({"x-priority": 2}).priority == 2
    assert arguments.parse_alternate_exchange({}) is None
