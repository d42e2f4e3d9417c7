"""Which match classes demand which value of a property: a message with another value is for none of them (design S2).

If a thousand consumers wait for an answer with a correlation id each, a message is for one of them. Evaluating all
takes half a microsecond each; the value and the classes that require it are looked up once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.message.selector_names import lookup_for

if TYPE_CHECKING:
    from annulet.core.message.message import Message
    from annulet.selector.selector import Selector


class Demand:
    """The required values of one property: bits of the classes, together and by each value."""

    __slots__ = ("bits", "by_value")

    def __init__(self) -> None:
        self.bits = 0
        self.by_value: dict[object, int] = {}


class Demands:
    """The value of one property that each class requires, if any. Equal values of different types are one."""

    __slots__ = ("_by_name", "_shared")

    def __init__(self) -> None:
        self._by_name: dict[str, Demand] = {}
        self._shared: dict[str, Demand] = {}  # of these, those of several classes

    @property
    def empty(self) -> bool:
        """Whether no class requires anything."""
        return not self._by_name and not self._shared

    def add(self, selector: Selector | None, bit: int) -> None:
        """Add the requirements of a class with this bit."""
        for name, values in _first_of(selector):
            demand = self._by_name.setdefault(name, Demand())
            demand.bits |= bit
            for value in values:
                demand.by_value[value] = demand.by_value.get(value, 0) | bit
            self._note(name, demand)

    def remove(self, selector: Selector | None, bit: int) -> None:
        """Forget what :meth:`add` noted."""
        for name, values in _first_of(selector):
            demand = self._by_name[name]
            demand.bits &= ~bit
            for value in values:
                left = demand.by_value.get(value, 0) & ~bit
                if left:
                    demand.by_value[value] = left
                else:
                    demand.by_value.pop(value, None)  # a list may contain it twice
            self._note(name, demand)

    def _note(self, name: str, demand: Demand) -> None:
        if demand.bits & (demand.bits - 1):
            self._shared[name] = demand
            return
        self._shared.pop(name, None)
        if not demand.bits:
            del self._by_name[name]

    def unmet_by(self, message: Message) -> int:
        """Return the bits of classes that require another value than the message's; others may or may not match."""
        if not self._shared:
            return 0
        lookup = lookup_for(message)
        unmet = 0
        for name, demand in self._shared.items():
            value = lookup(name)
            # other types, octets or a list, equal no literal
            met = demand.by_value.get(value, 0) if isinstance(value, (str, int, float)) else 0
            unmet |= demand.bits & ~met
        return unmet


def _first_of(selector: Selector | None) -> list[tuple[str, list[str | int | float]]]:
    """Return the first property that a selector demands some values of, as a list of one or none."""
    return [] if selector is None else selector.required_values[:1]
