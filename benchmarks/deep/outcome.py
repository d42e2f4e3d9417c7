"""What a check found: relations with bounds, each held or not."""

from __future__ import annotations

import dataclasses
from typing import Final

MIB: Final = 1 << 20


@dataclasses.dataclass
class Relation:
    """A figure and the bound it is held against; without a bound it is for information."""

    what: str
    value: float
    unit: str = ""
    most: float | None = None
    least: float | None = None

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
    """One check of the list A1 to A24. ``failure``: why it could not be measured to its end."""

    check: str
    title: str
    relations: list[Relation] = dataclasses.field(default_factory=list)
    failure: str = ""
    not_applicable: str = ""

    @property
    def verdict(self) -> str:
        """``pass``, ``MISS`` or ``not applicable``."""
        if self.not_applicable:
            return "not applicable"
        return "pass" if not self.failure and all(relation.holds for relation in self.relations) else "MISS"

    def text(self) -> str:
        """Return what was measured in one line."""
        said = [relation.text() for relation in self.relations]
        return "; ".join([*said, *filter(None, [self.failure, self.not_applicable])])
