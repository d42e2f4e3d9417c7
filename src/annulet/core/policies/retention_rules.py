"""The retention rules with state of their own: which setting asks for which.

The import fails where a piece of a rule is missing, and the error names the file that lacks it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final

from annulet.core.base.settings import RETENTION_SETTINGS, QueueSettings
from annulet.core.configuration.arguments.combinations import REFUSED
from annulet.core.configuration.arguments.table import BY_FIELD
from annulet.core.policies.last_per_key import key_table_of

if TYPE_CHECKING:
    from annulet.core.policies.retention import Retention

DEFAULTS: Final = QueueSettings()


@dataclass(frozen=True, slots=True)
class RetentionRule:
    """A rule. ``setting``: the field of :class:`QueueSettings` that asks for it with any value but its default."""

    setting: str
    make: Callable[[QueueSettings], Retention]

    def asked(self, settings: QueueSettings) -> bool:
        """Return whether these settings ask for the rule."""
        return bool(getattr(settings, self.setting) != getattr(DEFAULTS, self.setting))


RETENTION_RULES: Final = (RetentionRule("last_value_key", key_table_of),)


def retention_for(settings: QueueSettings) -> Retention | None:
    """Return the state of a queue's retention; ``None`` for a queue that keeps all, or has a ring only."""
    for rule in RETENTION_RULES:
        if rule.asked(settings):
            return rule.make(settings)
    return None


def missing_pieces(rules: Sequence[RetentionRule]) -> Iterator[str]:
    """Yield each piece that a rule lacks, with the file that it belongs to."""
    for name in set(RETENTION_SETTINGS).difference(rule.setting for rule in rules):
        yield f"retention rule '{name}': core/policies/retention_rules.py has no rule for the setting; add it"
    for rule in rules:
        name = rule.setting
        if name not in RETENTION_SETTINGS or not hasattr(DEFAULTS, name):
            yield (
                f"retention rule '{name}': core/base/settings.py has no such field in QueueSettings or name in "
                "RETENTION_SETTINGS; add both"
            )
        elif name not in BY_FIELD:
            yield f"retention rule '{name}': core/configuration/arguments/table.py has no Setting of it; add one"
        elif BY_FIELD[name].changed:
            yield (
                f"retention rule '{name}': core/configuration/arguments/table.py lets it change on a live queue, which "
                "no retention can; leave 'changed' out"
            )
    for rule, other in combinations(rules, 2):
        both = {rule.setting, other.setting}
        if not any(both <= set(combination.fields) for combination in REFUSED):
            yield (
                f"retention rules '{rule.setting}' and '{other.setting}': a queue has one at most, and "
                "core/configuration/arguments/combinations.py does not refuse both; add a Combination"
            )


def require_pieces(rules: Sequence[RetentionRule]) -> None:
    """Raise :class:`TypeError` that names every piece that is missing."""
    missing = list(missing_pieces(rules))
    if missing:
        raise TypeError("; ".join(missing))


require_pieces(RETENTION_RULES)
