from __future__ import annotations

from annulet.wire.stomp import names


def test_no_name_means_two_things() -> None:
    groups = [value for name, value in vars(names).items() if name.endswith("_NAMES") and name != "SCHEDULE_NAMES"]
    listed = [name for group in groups for name in group]
    assert len(listed) == len(set(listed))
    assert names.TIME_TO_LIVE not in listed
    assert names.EXPIRES not in listed


def test_what_a_delivery_says_is_standard_and_commands_are_not_lost() -> None:
    assert names.OF_A_DELIVERY <= names.STANDARD
    assert not names.STANDARD & set(names.SCHEDULE_NAMES)  # consumers see that a message was scheduled
