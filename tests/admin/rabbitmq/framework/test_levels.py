from __future__ import annotations

from annulet.admin.rabbitmq.framework.levels import ADMINISTRATORS, MANAGEMENT, MONITORS, POLICY_MAKERS, REFUSALS


def test_an_administrator_has_every_right_and_each_level_a_text() -> None:
    for level in (ADMINISTRATORS, MONITORS, POLICY_MAKERS, MANAGEMENT):
        assert ADMINISTRATORS <= level <= MANAGEMENT
        assert REFUSALS[level]
