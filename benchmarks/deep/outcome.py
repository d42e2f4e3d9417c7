"""What a check found: relations with bounds, each held or not."""

from __future__ import annotations

import dataclasses
from typing import Final

from benchmarks.deep.stolen import PAUSED_SHARE, TELLING_SHARE

MIB: Final = 1 << 20

STALL_MOST: Final = 20
"""Milliseconds the event loop may be held, but for one look in a thousand."""


@dataclasses.dataclass
class Relation:
    """A figure and the bound it is held against; without a bound it is for information.

    ``ratio``: of two rates, so that it depends on the processors being there, as what is in (milli)seconds does.
    ``rare``: of the slowest in a thousand, which few and short pauses change. ``single``: one value was beyond the
    bound, of any number: of less than a thousand the 99.9th percentile is the slowest, which says little.
    """

    what: str
    value: float
    unit: str = ""
    most: float | None = None
    least: float | None = None
    ratio: bool = False
    rare: bool = False
    single: bool = False

    @property
    def timed(self) -> bool:
        """Whether a machine that takes processors away for a while changes it."""
        return self.ratio or self.unit in {"s", "ms"}

    @property
    def holds(self) -> bool:
        """Whether the bound is kept."""
        return (self.most is None or self.value <= self.most) and (self.least is None or self.value >= self.least)

    def text(self) -> str:
        """Return figure, unit and bound."""
        bound = ""
        if self.most is not None and self.most == self.least:
            bound = f" (must be {shown(self.most)})"
        elif self.most is not None:
            bound = f" (at most {shown(self.most)})"
        elif self.least is not None:
            bound = f" (at least {shown(self.least)})"
        return f"{self.what} {shown(self.value)}{' ' + self.unit if self.unit else ''}{bound}"


def shown(value: float) -> str:
    """Format a figure: large ones without decimals."""
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:,.1f}" if abs(value) >= 20 else f"{value:.3g}"


def exactly(what: str, value: float, wanted: float, unit: str = "") -> Relation:
    """Return the relation of a figure that has one right value."""
    return Relation(what, value, unit, most=wanted, least=wanted)


@dataclasses.dataclass
class Outcome:
    """One check of the list A1 to A24. ``failure``: why it could not be measured to its end.

    ``stolen``: the part of the processors' time that the host took away meanwhile; ``paused``: the part of looks at the
    event loop that may have met such a pause. ``repeated``: its suite was run again, for one of these or as a single
    look decided what one of its checks missed, so this is not what counts. ``excused``: it was the last try, and that
    one was disturbed like those before it: what was missed is told, and fails nothing.
    """

    check: str
    title: str
    relations: list[Relation] = dataclasses.field(default_factory=list)
    failure: str = ""
    not_applicable: str = ""
    stolen: float = 0.0
    paused: float = 0.0
    repeated: bool = False
    excused: bool = False

    @property
    def missed(self) -> list[Relation]:
        """Bounds that were not kept."""
        return [relation for relation in self.relations if not relation.holds]

    @property
    def disturbed(self) -> bool:
        """Whether it missed times or ratios only, while the machine had not all of its processors."""
        timed = bool(self.missed) and all(relation.timed for relation in self.missed)
        rare = self.paused >= PAUSED_SHARE and all(relation.rare for relation in self.missed)
        return timed and not self.failure and (self.stolen >= TELLING_SHARE or rare)

    @property
    def by_one_look(self) -> bool:
        """Whether one look at the event loop is all it missed its bounds for."""
        return bool(self.missed) and all(relation.single for relation in self.missed) and not self.failure

    @property
    def verdict(self) -> str:
        """``pass``, ``MISS``, ``repeated``, ``disturbed`` or ``not applicable``."""
        if self.repeated:
            return "repeated"
        if self.not_applicable:
            return "not applicable"
        if self.excused and self.disturbed:
            return "disturbed"
        return "pass" if not self.failure and not self.missed else "MISS"

    def text(self) -> str:
        """Return what was measured in one line."""
        said = [relation.text() for relation in self.relations]
        stolen = f"the host took away {self.stolen:.1%} of the processors" if self.stolen >= TELLING_SHARE else ""
        paused = f"pauses of the host met {self.paused:.2%} of looks" if self.paused >= PAUSED_SHARE else ""
        return "; ".join([*said, *filter(None, [self.failure, self.not_applicable, stolen, paused])])
