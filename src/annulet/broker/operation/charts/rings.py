"""A ring of steps of time: rates of counters and values of gauges, in one compact array.

A value has 32 bits: 7 decimal digits, which a chart does not exceed. A step without a sample is not a number.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from annulet.broker.operation.rates import Sample

NAN: Final = float("nan")

FILLED_MAX: Final = 6
"""Steps behind the last sample up to which those between get the values of the next one: with very many queues a round
takes longer than a step."""

Values: TypeAlias = "array[float]"


@dataclass(frozen=True, slots=True)
class Shape:
    """The steps of a ring: their number and length in milliseconds; how many counters and gauges each has."""

    step: int
    length: int
    counters: int
    gauges: int

    @property
    def columns(self) -> int:
        """Values of a step."""
        return self.counters + self.gauges


class Ring:
    """The last steps of one object. The values of a step are its last sample's, rates are since the sample before."""

    __slots__ = ("_base", "_base_at", "_values", "shape", "slot")

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.slot = -1  # of the last sample: its time divided by the step
        self._values = array("f", [NAN]) * (shape.length * shape.columns)
        self._base: Sample = array("q")  # counters of the last sample
        self._base_at = 0

    def is_due(self, now: int) -> bool:
        """Return whether a step has begun that has no sample. A clock that went back has none for a while."""
        return now // self.shape.step != self.slot

    def note(self, now: int, counters: Sample, gauges: Sequence[float]) -> None:
        """Put a sample into the step of this time; a later sample of a step replaces its gauges."""
        shape = self.shape
        slot = now // shape.step
        values = array("f", [*self._rates(now, counters), *gauges])
        behind = slot - self.slot
        if (
            behind < 0 or behind > shape.length
        ):  # the clock went back, and steps to come would be answered; or all is old
            self._put(0, shape.length, array("f", [NAN]) * shape.columns)
        elif behind > FILLED_MAX:
            self._put(self.slot + 1, behind - 1, array("f", [NAN]) * shape.columns)
        elif behind > 1:  # the rates are of the whole time
            self._put(self.slot + 1, behind - 1, values)
        self._put(slot, 1, values)
        self.slot = slot
        self._base, self._base_at = counters, now

    def _rates(self, now: int, counters: Sample) -> Sequence[float]:
        """Return changes a second since the last sample; none before the second sample, or for another object."""
        before, seconds = self._base, (now - self._base_at) / 1000
        if len(before) != len(counters) or seconds <= 0:
            return [NAN] * len(counters)
        if before == counters:
            return [0.0] * len(counters)
        rates = [(after - earlier) / seconds for after, earlier in zip(counters, before, strict=True)]
        return rates if min(rates) >= 0 else [NAN] * len(counters)

    def _put(self, slot: int, count: int, values: Values) -> None:
        """Put the same values into consecutive steps."""
        length, columns = self.shape.length, self.shape.columns
        for each in range(slot, slot + count):
            first = each % length * columns
            self._values[first : first + columns] = values

    def steps(self) -> Iterator[tuple[int, Sequence[float]]]:
        """Yield the beginning of each step, milliseconds since 1970, and its values; the oldest first.

        Steps before the first sample are left out.
        """
        shape, begun = self.shape, False
        for slot in range(max(0, self.slot - shape.length + 1), self.slot + 1):
            first = slot % shape.length * shape.columns
            values = self._values[first : first + shape.columns]
            last = values[-shape.gauges]
            begun = begun or last == last  # noqa: PLR0124 - not a number is no equal of itself
            if begun:
                yield slot * shape.step, values
