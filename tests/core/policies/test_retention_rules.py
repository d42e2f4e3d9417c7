"""Retention rules: which settings ask for one, and errors that name what a new one lacks."""

from __future__ import annotations

import pytest

from annulet.core.base.settings import RETENTION_SETTINGS, QueueSettings
from annulet.core.policies.last_per_key import KeyTable
from annulet.core.policies.retention_rules import (
    RETENTION_RULES,
    RetentionRule,
    missing_pieces,
    require_pieces,
    retention_for,
)
from tests.core.model_suite.policies import AXES

KEY = RETENTION_RULES[0]


def test_a_setting_that_is_not_its_default_asks_for_its_rule() -> None:
    assert retention_for(QueueSettings()) is None
    assert retention_for(QueueSettings(ring_size=3)) is None
    assert isinstance(retention_for(QueueSettings(last_value_key="k")), KeyTable)


@pytest.mark.parametrize("setting", RETENTION_SETTINGS)
def test_the_model_suite_has_each_rule(setting: str) -> None:
    assert any(setting in policy.settings for policy in AXES["retention"]), (
        f"tests/core/model_suite/policies.py has no policy with {setting}; add one to RETENTION"
    )


@pytest.mark.parametrize(
    ("setting", "file"),
    [
        ("nothing", "core/base/settings.py"),
        ("last_value_fallback", "core/base/settings.py"),  # a field, and no retention
    ],
)
def test_a_rule_without_its_setting_is_named_with_the_file(setting: str, file: str) -> None:
    rule = RetentionRule(setting, KEY.make)
    found = list(missing_pieces([KEY, rule]))
    assert f"'{setting}'" in found[0]
    assert file in found[0]
    with pytest.raises(TypeError, match=r"core/base/settings\.py"):
        require_pieces([rule])


def test_a_setting_without_rule_is_named_with_the_file() -> None:
    assert list(missing_pieces([])) == [
        "retention rule 'last_value_key': core/policies/retention_rules.py has no rule for the setting; add it"
    ]


def test_two_rules_that_no_combination_refuses_together_are_named_with_the_file() -> None:
    other = RetentionRule("ring_size", KEY.make)
    assert "core/configuration/arguments/combinations.py" in list(missing_pieces([KEY, other]))[-1]
    assert list(missing_pieces([KEY])) == []
