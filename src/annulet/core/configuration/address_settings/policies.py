"""Policies: settings for the queues whose names match a regular expression, as operators of RabbitMQ know them.

One policy applies to a queue: the one with the highest priority, and of several the first by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from annulet.core.base.errors import InvalidArgument, NotFound, PreconditionFailed
from annulet.core.base.linear_expressions import (
    LOOKS_MAX,
    Expression,
    ExpressionError,
    LinearExpression,
    UnusableExpression,
    stored_expression,
)
from annulet.core.configuration.arguments.reading import read_arguments, refuse_contradiction_within
from annulet.core.configuration.arguments.table import PREFIX
from annulet.core.configuration.arguments.unknown import IDLE
from annulet.core.configuration.arguments.values import NAME_BYTES_MAX, Arguments, read_name, shown

PATTERN_LENGTH_MAX: Final = 1024
"""Characters of a policy's regular expression; names have 255 bytes, so a longer one is a mistake."""

PRIORITY_BITS: Final = 64
"""Bits of a policy's priority, with its sign: the widest integer that databases, logs and readers of JSON agree on."""

POLICIES_MAX: Final = 500
"""Policies of a virtual host: each is searched for each new queue's name, 25 us with all steps remembered."""

PLACEMENT: Final = frozenset(
    {
        "ha-mode",
        "ha-params",
        "ha-promote-on-failure",
        "ha-promote-on-shutdown",
        "ha-sync-batch-size",
        "ha-sync-mode",
    }
)
"""Where a RabbitMQ cluster mirrors a queue: accepted without effect, since there is one place."""


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy, checked. ``values`` are its settings by field of ``QueueSettings``; ``definition`` is as written."""

    name: str
    pattern: Expression
    definition: Arguments
    priority: int
    values: Mapping[str, Any]


class PolicyRepository:
    """All policies of a virtual host."""

    def __init__(self) -> None:
        self.listeners: list[Callable[[Policy], None]] = []
        """Called after each change with the policy that was set or removed."""
        self._policies: dict[str, Policy] = {}
        self._by_rank: list[Policy] | None = None  # the one that wins first; None: to be sorted

    def set(self, name: str, pattern: str, definition: Arguments, priority: int = 0, *, stored: bool = False) -> Policy:
        """Set a policy in place of the one of this name; ``pattern`` matches anywhere in a queue's name.

        ``stored``: it was accepted before, perhaps with a pattern that is not taken any more, which matches nothing.
        Raises :class:`InvalidArgument` for a wrong name, pattern, priority or definition; nothing is changed then.
        """
        read_name("name", name, "a policy", empty=False)
        if isinstance(priority, bool) or not isinstance(priority, int):
            raise InvalidArgument(f"policy '{name}': 'priority' must be an integer, not {shown(priority)}")
        most = (1 << (PRIORITY_BITS - 1)) - 1
        if not -most - 1 <= priority <= most:
            raise InvalidArgument(
                f"policy '{name}': 'priority' must be from {-most - 1} to {most}, not an integer of "
                f"{priority.bit_length()} bits"
            )
        try:
            values = _read(definition)
        except InvalidArgument as error:
            raise InvalidArgument(f"policy '{name}': {error}") from error
        policy = Policy(
            name, stored_expression(pattern) if stored else _compile(name, pattern), dict(definition), priority, values
        )
        before = self._policies.get(name)
        if before is None and len(self._policies) >= POLICIES_MAX and not stored:
            raise InvalidArgument(
                f"policy '{name}': there are {len(self._policies)} policies, and at most {POLICIES_MAX} are allowed in "
                "a virtual host; remove some, or put the names of several into one pattern"
            )
        self._policies[name] = policy
        self._by_rank = None
        if before is not None:
            self._changed(before)  # or queues that matched only the former would keep it
        self._changed(policy)
        return policy

    def remove(self, name: str) -> None:
        """Forget a policy. Raises :class:`NotFound`."""
        policy = self._policies.pop(name, None)
        if policy is None:
            raise NotFound(f"no policy '{name}'; there are {', '.join(sorted(self._policies)) or 'none'}")
        self._by_rank = None
        self._changed(policy)

    @property
    def count(self) -> int:
        """How many there are, at most :data:`POLICIES_MAX` and those that were stored before there was a bound."""
        return len(self._policies)

    def all(self) -> list[Policy]:
        """Return all policies, the one that wins first."""
        return list(self._ranked())

    def _ranked(self) -> list[Policy]:
        if self._by_rank is None:
            self._by_rank = sorted(self._policies.values(), key=lambda policy: (-policy.priority, policy.name))
        return self._by_rank

    def unusable(self) -> dict[str, str]:
        """Return the reasons why stored policies match nothing, by the name of the policy."""
        policies = self._policies.items()
        return {name: item.pattern.reason for name, item in policies if isinstance(item.pattern, UnusableExpression)}

    def match(self, queue_name: str) -> Policy | None:
        """Return the policy that applies to a queue, ``None`` when there is none."""
        for policy in self._ranked():
            if policy.pattern.search(queue_name):
                return policy
        return None

    def match_new(self, queue_name: str) -> Policy | None:
        """As :meth:`match`, for a name that a client chose: all patterns share the looks of one search.

        Raises :class:`PreconditionFailed` if these do not suffice: without its policy the queue would not be as the
        operator wants it.
        """
        looks = LOOKS_MAX
        for policy in self._ranked():
            found, looks = policy.pattern.search_within(queue_name, looks)
            if found:
                return policy
            if looks < 0:
                raise PreconditionFailed(
                    f"cannot declare queue '{queue_name}': to find its policy takes more than {LOOKS_MAX} looks at "
                    f"states of patterns, up to that of policy '{policy.name}'; choose a shorter name, or have the "
                    "patterns simplified"
                )
        return None

    def _changed(self, policy: Policy) -> None:
        for listener in self.listeners:
            listener(policy)


def _read(definition: Arguments) -> Mapping[str, Any]:
    effective = {key: value for key, value in definition.items() if key not in PLACEMENT and PREFIX + key not in IDLE}
    values = read_arguments(effective).values
    refuse_contradiction_within(values)
    return values


def _compile(name: str, pattern: str) -> Expression:
    if len(pattern) > PATTERN_LENGTH_MAX:
        raise InvalidArgument(
            f"policy '{name}': 'pattern' must be a regular expression of at most {PATTERN_LENGTH_MAX} characters for "
            f"names of at most {NAME_BYTES_MAX} bytes, not {shown(pattern)}"
        )
    try:
        return LinearExpression(pattern)
    except ExpressionError as error:
        raise InvalidArgument(
            f"policy '{name}': 'pattern' {shown(pattern)} is no regular expression that can be used: {error}"
        ) from error
