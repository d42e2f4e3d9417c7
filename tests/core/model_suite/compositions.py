"""Which compositions are tested: few enough to run, and every legal pair of policies occurs in one of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations, product

from annulet.core.base.settings import QueueSettings
from annulet.core.configuration.arguments import refusal_for
from tests.core.model_suite.policies import AXES, Policy, compose, traits_of

Pair = frozenset[Policy]


@dataclass(frozen=True)
class Composition:
    """One policy of each axis, in the order of ``AXES``."""

    policies: tuple[Policy, ...]

    @property
    def settings(self) -> QueueSettings:
        return compose(self.policies)

    @property
    def traits(self) -> frozenset[str]:
        return traits_of(self.policies)

    @property
    def identifier(self) -> str:
        return ", ".join(policy.name for policy in self.policies)

    def pairs(self) -> list[Pair]:
        return [frozenset(pair) for pair in combinations(self.policies, 2)]


def all_pairs() -> list[tuple[Policy, Policy]]:
    """Return every policy of one axis with every policy of each later one."""
    return [pair for first, second in combinations(AXES.values(), 2) for pair in product(first, second)]


@cache
def refusal_of(policies: tuple[Policy, ...]) -> str:
    """Return the identifier of the refusal of these policies together, empty when they are legal."""
    refused = refusal_for(compose(policies))
    return "" if refused is None else refused.identifier


def refused_pairs() -> dict[tuple[Policy, Policy], str]:
    """Return the pairs that no queue may have, and by which rule."""
    return {pair: reason for pair in all_pairs() if (reason := refusal_of(pair))}


@cache
def compositions() -> tuple[Composition, ...]:
    """Return compositions that together contain every legal pair: one for each pair of the two longest axes and more.

    The other axes are filled in one after the other, each with what adds most pairs; the same on every run.
    """
    missing = {frozenset(pair) for pair in all_pairs() if not refusal_of(pair)}
    chosen: list[Composition] = []
    longest = sorted(AXES, key=lambda name: len(AXES[name]), reverse=True)[:2]
    while missing:
        before = len(missing)
        for base in product(*(AXES[name] for name in longest)):
            filled = _fill_in(dict(zip(longest, base, strict=True)), missing)
            if filled is not None and not missing.isdisjoint(filled.pairs()):
                chosen.append(filled)
                missing.difference_update(filled.pairs())
        assert len(missing) < before, f"no composition has {sorted(str(set(pair)) for pair in missing)}"
    return tuple(chosen)


def _fill_in(chosen: dict[str, Policy], missing: set[Pair]) -> Composition | None:
    """Choose a policy of each axis that has none, the one that makes most missing pairs with those chosen before."""
    if refusal_of(tuple(chosen.values())):
        return None
    for name in sorted(AXES.keys() - chosen.keys(), key=lambda name: (-len(AXES[name]), name)):
        legal = [policy for policy in AXES[name] if not refusal_of((*chosen.values(), policy))]
        present = list(chosen.values())
        chosen[name] = max(legal, key=lambda policy: sum(frozenset((policy, other)) in missing for other in present))
    return Composition(tuple(chosen[name] for name in AXES))


def compositions_of(pair: tuple[Policy, Policy]) -> list[Composition]:
    """Return the compositions that prove a pair."""
    return [one for one in compositions() if set(pair) <= set(one.policies)]
