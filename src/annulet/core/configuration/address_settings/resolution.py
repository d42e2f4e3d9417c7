"""Combines declaration, policy and address settings to the settings of a queue, with the origin of each value.

A stronger origin wins. Contradicting values of a weaker one are set aside and reported: an operator's rule for many
queues must not prevent the declaration of one of them. A declaration that contradicts itself is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from annulet.core.base.errors import InvalidArgument
from annulet.core.base.settings import QueueSettings
from annulet.core.configuration.address_settings.fields import LIVE
from annulet.core.configuration.address_settings.policies import Policy, PolicyRepository
from annulet.core.configuration.address_settings.repository import DEFAULT_ORIGIN, AddressSettingsRepository
from annulet.core.configuration.arguments.combinations import DEFAULTS, Combination, refusal_for
from annulet.core.configuration.arguments.reading import GROUP_FIELDS, Reading, build, implied, read_arguments
from annulet.core.configuration.arguments.table import CHANGEABLE
from annulet.core.configuration.arguments.unknown import ACCEPT, REFUSE
from annulet.core.configuration.arguments.values import Arguments, shown

OPERATOR: Final = "operator"
ARGUMENT: Final = "argument"
POLICY: Final = "policy"
ADDRESS_SETTING: Final = "address setting"
IMPLIED: Final = "implied by "

STRENGTHS: Final = (ADDRESS_SETTING, POLICY, ARGUMENT, OPERATOR)
"""Origins, the weakest first (design §2, precedence); a default is weaker than all.

An operator's change of one queue is stronger than its declaration.
"""

FIELDS: Final = tuple(item.name for item in dataclasses.fields(QueueSettings))

ALL: Final = frozenset(FIELDS)

IMPLIED_BY: Final = {
    "overflow": ("max_length", "max_bytes"),
    "group_mode": ("group_key", "group_buckets", *GROUP_FIELDS),
}


@dataclass(frozen=True, slots=True)
class ResolvedQueue:
    """The settings of one queue with the origin of each, by field of ``QueueSettings``.

    An origin is ``argument 'x-ring-size'``, ``policy 'name'``, ``address setting 'pattern'``, ``operator``,
    ``default``, or ``implied by`` one of them. ``set_aside`` has, by field, the value of a weaker origin and the
    reason. ``without_effect`` are declared arguments without effect.
    """

    name: str
    address: str
    arguments: Arguments
    settings: QueueSettings
    origins: Mapping[str, str]
    set_aside: Mapping[str, str]
    without_effect: tuple[str, ...] = ()


class _Merge:
    """Values that are being put together, each with its origin."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.origins: dict[str, str] = {}
        self.set_aside: dict[str, str] = {}

    def put(self, field: str, value: Any, origin: str) -> None:
        self.values[field] = value
        self.origins[field] = origin

    def imply(self, movable: frozenset[str]) -> None:
        """Add implied values, if they are movable.

        Grouping is implied by arguments and policies only: an address setting like Artemis's ``default-group-buckets``
        configures groups, but does not switch them on.
        """
        asked = {
            field: value
            for field, value in self.values.items()
            if field not in IMPLIED_BY["group_mode"] or strength(self.origins[field]) > strength(ADDRESS_SETTING)
        }
        for field, value in implied(asked).items():
            if field not in movable:
                continue
            sources = [
                source
                for source in IMPLIED_BY[field]
                if source in asked and (source == "group_key" or asked[source] != getattr(DEFAULTS, source))
            ]
            strongest = max(sources, key=lambda source: strength(self.origins[source]))
            self.put(field, value, IMPLIED + self.origins[strongest])

    def settle(self, movable: frozenset[str], *, strict: bool) -> QueueSettings:
        """Set aside values that contradict stronger ones, until the settings are legal.

        ``movable`` are the fields that may still change. ``strict`` refuses with :class:`InvalidArgument` when only
        declared arguments or an operator's changes are left to give way; else these give way as well.
        """
        while True:
            self.imply(movable)
            settings = build(self.values)
            refusal = refusal_for(settings)
            if refusal is None:
                return settings
            for field in self._giving_way(refusal, settings, movable, strict=strict):
                text = f"{shown(self.values[field])} of {self.origins[field]} is set aside: {refusal.text(settings)}"
                self._take_out(field, text)

    def _take_out(self, field: str, text: str) -> None:
        del self.values[field]
        origin = self.origins.pop(field)
        self.set_aside[field] = text
        if origin.startswith(IMPLIED):  # or it would follow again
            for source in IMPLIED_BY[field]:
                if self.origins.get(source) == origin.removeprefix(IMPLIED):
                    self._take_out(source, text)

    def _giving_way(
        self, refusal: Combination, settings: QueueSettings, movable: frozenset[str], *, strict: bool
    ) -> tuple[str, ...]:
        present = [field for field in refusal.fields if field in self.values and field in movable]
        candidates = [field for field in present if field in refusal.involved(settings)]
        weakest = min((strength(self.origins[field]) for field in candidates), default=strength(OPERATOR))
        if weakest >= strength(ARGUMENT):
            # a weaker origin may have set the default explicitly: "off", "none"
            weaker = tuple(field for field in present if strength(self.origins[field]) < strength(ARGUMENT))
            if weaker:
                return weaker
            if strict:
                raise InvalidArgument(refusal.text(settings))
        # unchangeable settings were legal before, so a changeable one causes the contradiction
        assert candidates, refusal.identifier
        chosen = tuple(field for field in candidates if strength(self.origins[field]) == weakest)
        yielding = tuple(field for field in chosen if field in refusal.yields)
        return yielding or chosen


def strength(origin: str) -> int:
    """Return how strong an origin is: 0 for a default, 3 for a declared argument, 4 for an operator."""
    text = origin.removeprefix(IMPLIED)
    for number, kind in enumerate(STRENGTHS, 1):
        if text.startswith(kind):
            return number
    return 0


def resolve_queue(
    name: str,
    address: str,
    arguments: Arguments,
    repository: AddressSettingsRepository,
    policies: PolicyRepository | None = None,
    *,
    unknown: str = REFUSE,
    known: bool = False,
) -> ResolvedQueue:
    """Return the settings of a queue declared with ``arguments`` on ``address``.

    Declared argument wins over policy, policy over address setting, address setting over default. ``unknown``: see
    :func:`~annulet.core.configuration.arguments.reading.read_arguments`. ``known``: the name was declared once, before
    a restart. Raises :class:`InvalidArgument` for arguments that are wrong or contradict each other, and
    :class:`PreconditionFailed` if the search for its policy takes too long.
    """
    reading = read_arguments(arguments, name, unknown=unknown)
    policy = None if policies is None else policies.match(name) if known else policies.match_new(name)
    merge = _merged(address, reading, repository, policy)
    settings = merge.settle(ALL, strict=True)
    return replace(
        _result(name, address, arguments, settings, merge), without_effect=tuple(sorted(reading.without_effect))
    )


def refresh(
    current: ResolvedQueue, repository: AddressSettingsRepository, policies: PolicyRepository | None = None
) -> ResolvedQueue:
    """Return the settings of an existing queue after a change of address settings or policies.

    Live settings (:data:`~annulet.core.configuration.address_settings.fields.LIVE`) and changeable ones that a policy
    gives or gave follow the change; values copied from a ``default-`` setting at creation and unchangeable ones stay.
    """
    reading = read_arguments(current.arguments, current.name, unknown=ACCEPT)
    policy = None if policies is None else policies.match(current.name)
    fresh = _merged(current.address, reading, repository, policy)
    merge = _Merge()
    for field in FIELDS:
        before = current.origins.get(field, DEFAULT_ORIGIN)
        after = fresh.origins.get(field, DEFAULT_ORIGIN)
        policed = any(strength(origin) == strength(POLICY) for origin in (before, after))
        follows = field in CHANGEABLE and before != OPERATOR and (field in LIVE or policed or field in reading.values)
        if follows and field in fresh.values:
            merge.put(field, fresh.values[field], after)
        elif not follows and before != DEFAULT_ORIGIN:
            merge.put(field, getattr(current.settings, field), before)
    settings = merge.settle(CHANGEABLE, strict=False)
    return _after(current, settings, merge)


def change_queue(current: ResolvedQueue, changes: Arguments) -> ResolvedQueue:
    """Return the settings of an existing queue after an operator's changes, given as arguments.

    Raises :class:`InvalidArgument` for wrong arguments, for settings that cannot change while the queue exists, and for
    changes that contradict each other or the declaration; only values of policies and address settings for changeable
    settings are set aside for a change.
    """
    reading = read_arguments(changes, current.name)
    merge = _Merge()
    for field in FIELDS:
        if current.origins[field] != DEFAULT_ORIGIN:
            merge.put(field, getattr(current.settings, field), current.origins[field])
    for field, value in reading.values.items():
        if value == getattr(current.settings, field):
            continue
        if field not in CHANGEABLE:
            raise InvalidArgument(
                f"argument '{reading.given_as[field]}' of queue '{current.name}' cannot be changed from "
                f"{shown(getattr(current.settings, field))} to {shown(value)} while it lives; declare another "
                "queue and move the messages"
            )
        merge.put(field, value, OPERATOR)
    settings = merge.settle(CHANGEABLE, strict=True)
    return _after(current, settings, merge)


def _merged(address: str, reading: Reading, repository: AddressSettingsRepository, policy: Policy | None) -> _Merge:
    merge = _Merge()
    inherited = repository.resolve(address)
    for field, value in inherited.queue.items():
        merge.put(field, value, f"{ADDRESS_SETTING} '{inherited.origins[field]}'")
    if policy is not None:
        for field, value in policy.values.items():
            merge.put(field, value, f"{POLICY} '{policy.name}'")
    for field, value in reading.values.items():
        merge.put(field, value, f"{ARGUMENT} '{reading.given_as[field]}'")
    merge.imply(ALL)
    return merge


def _result(name: str, address: str, arguments: Arguments, settings: QueueSettings, merge: _Merge) -> ResolvedQueue:
    origins = {field: merge.origins.get(field, DEFAULT_ORIGIN) for field in FIELDS}
    return ResolvedQueue(name, address, dict(arguments), settings, origins, dict(merge.set_aside))


def _after(current: ResolvedQueue, settings: QueueSettings, merge: _Merge) -> ResolvedQueue:
    """Return the same queue after a change."""
    changed = _result(current.name, current.address, current.arguments, settings, merge)
    return replace(changed, without_effect=current.without_effect)
