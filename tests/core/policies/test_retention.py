"""The interface of a retention with state of its own."""

from __future__ import annotations

import pytest

from annulet.core.base.settings import QueueSettings
from annulet.core.model.entry import QueueEntry
from annulet.core.policies.retention import Retention
from annulet.core.policies.retention_rules import RETENTION_RULES
from tests.core.helpers import make_message, make_queue

METHODS = ("__len__", "accept", "superseded", "withdraw", "forget", "detached")


@pytest.mark.parametrize("rule", RETENTION_RULES, ids=lambda rule: rule.setting)
def test_each_rule_answers_every_call_of_the_queue(rule) -> None:
    state = rule.make(QueueSettings())
    assert isinstance(state, Retention)
    assert "=" in state.rule
    for name in METHODS:
        assert getattr(type(state), name) is not getattr(Retention, name), f"{type(state).__name__} lacks {name}"
    assert len(state.detached()) == len(state) == 0


def test_the_interface_itself_answers_nothing() -> None:
    state = Retention("nothing=1")
    with pytest.raises(NotImplementedError):
        len(state)
    with pytest.raises(NotImplementedError):
        state.detached()
    entry = QueueEntry(make_queue(), make_message("a"), 1)
    for call in (state.accept, state.superseded, state.withdraw, state.forget):
        with pytest.raises(NotImplementedError):
            call(entry)
