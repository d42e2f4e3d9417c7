"""Arguments that change nothing here: taken, or refused where they are nearly a setting's name."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import InvalidArgument
from annulet.core.configuration.arguments.combinations import DEFAULTS
from annulet.core.configuration.arguments.queues import parse_queue_arguments
from annulet.core.configuration.arguments.reading import KNOWN, read_arguments
from annulet.core.configuration.arguments.unknown import ACCEPT, IDLE, REFUSE, WARN, near_miss, nearest


def test_every_known_name_is_its_own_nearest():
    assert [nearest(name, KNOWN) for name in KNOWN] == KNOWN
    assert nearest("qqqqqqqqqqqqqqqqq", KNOWN) == ""


@pytest.mark.parametrize("name", [*sorted(IDLE), "x-team", "x-description", "owner", "x-my-own-thing", "x-retry-delay"])
def test_what_changes_nothing_is_taken_and_listed_unless_that_is_refused(name):
    arguments = {name: {"any": ["value"]}, "x-max-length": 5}
    reading = read_arguments(arguments, unknown=WARN)
    assert (reading.values, reading.without_effect) == ({"max_length": 5}, [name])
    assert parse_queue_arguments({name: 1}, unknown=WARN) == DEFAULTS
    for strict in ({}, {"unknown": REFUSE}):
        with pytest.raises(InvalidArgument, match=name):
            read_arguments(arguments, **strict)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("x-ringsize", "x-ring-size"),
        ("ring-sise", "x-ring-size"),
        ("x-max-lenght", "x-max-length"),
        ("x-max_length", "x-max-length"),
        ("X-Message-TTL", "x-message-ttl"),
        ("x-max-prio", "x-max-priority"),
        ("x-delivery-limits", "delivery-limit"),
        ("x-dead-leter-exchange", "x-dead-letter-exchange"),
        ("qpid.max_cuont", "qpid.max_count"),
    ],
)
def test_a_near_miss_of_a_setting_is_refused_with_its_name(name, meant):
    assert near_miss(name) == meant
    for unknown in (WARN, REFUSE):
        with pytest.raises(InvalidArgument, match=f"unknown queue argument '{name}'; did you mean '{meant}'"):
            read_arguments({name: 5}, unknown=unknown)
    assert read_arguments({name: 5}, unknown=ACCEPT).without_effect == [name]


def test_names_with_a_remedy_and_wrong_values_are_refused_however_unknown_ones_are_taken():
    for unknown in (ACCEPT, WARN, REFUSE):
        for arguments, word in (
            ({"x-max-age": "1D"}, "streams"),
            ({"x-max-length": "many"}, "integer"),
            ({"x-max-priority": -1}, "0 to 255 levels"),
        ):
            with pytest.raises(InvalidArgument, match=word):
                read_arguments(arguments, unknown=unknown)
