"""What each load shall reach, and whether it does.

A target is a bound of one figure of one form of Annulet, alone or as a share of another figure of the same run.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from benchmarks.report import Summary

COMPILED: Final = "Annulet compiled"
PURE: Final = "Annulet pure"
RABBITMQ: Final = "RabbitMQ"
LAZY: Final = "NATS"

FIGURES: Final = {
    "rate": ("rate", "{:,.0f}/s"),
    "cpu": ("CPU", "{:,.1f} µs"),
    "p99": ("p99", "{:,.0f} µs"),
    "written": ("written", "{:.2f} B a byte"),
}


class Target(NamedTuple):
    """The ``figure`` of a load shall be at least (rates) or at most (all others) the bound.

    With ``of``, a load and a broker, the bound is a share of their figure: 0.5 is half of it.
    """

    load: str
    figure: str
    bound: float
    broker: str = COMPILED
    of: tuple[str, str] = ("", "")

    @property
    def rising(self) -> bool:
        """Whether more is better."""
        return self.figure == "rate"

    def reached(self, summary: Summary) -> float | None:
        """Return the figure, or its share of the other one; None when one of them was not measured."""
        value = _value(summary, self.load, self.broker, self.figure)
        if not self.of[1]:
            return value
        other = _value(summary, self.of[0], self.of[1], self.figure)
        return value / other if value is not None and other else None

    def met(self, summary: Summary) -> bool | None:
        """Whether the figure keeps the bound; None when it was not measured."""
        value = self.reached(summary)
        if value is None:
            return None
        return value >= self.bound if self.rising else value <= self.bound

    def text(self, value: float) -> str:
        """Return a value as the page has it, with what is measured."""
        name, form = FIGURES[self.figure]
        if not self.of[1]:
            return f"{name} {form.format(value)}"
        other = self.of[1] if self.of[0] == self.load else f"{self.of[0]} of {self.of[1]}"
        share = f"{value:.2f} ×" if self.rising else f"1/{1 / value:.1f}" if value else "0"
        return f"{name} {share} {other}"


def of_rabbitmq(load: str, *, rate: float = 0.0, cpu: float = 0.0, broker: str = COMPILED) -> list[Target]:
    """Return targets of one load against RabbitMQ: times its rate, and the share of its processor time."""
    targets = []
    if rate:
        targets.append(Target(load, "rate", rate, broker, (load, RABBITMQ)))
    if cpu:
        targets.append(Target(load, "cpu", cpu, broker, (load, RABBITMQ)))
    return targets


TARGETS: Final = [
    Target("transient-16", "rate", 1_200_000),
    Target("transient-1k", "rate", 450_000),
    Target("transient-1k", "cpu", 2.2),
    *of_rabbitmq("transient-64k", rate=1.5),
    *of_rabbitmq("persistent-1k", rate=9, cpu=1 / 12),
    *of_rabbitmq("persistent-16", rate=9, cpu=1 / 12),
    *of_rabbitmq("backlog", rate=8),
    Target("backlog", "written", 1.15),
    Target("backlog", "rate", 1.3, COMPILED, ("backlog", LAZY)),
    Target("drain", "rate", 1, COMPILED, ("drain", LAZY)),
    *of_rabbitmq("fan-in", rate=6),
    *of_rabbitmq("fan-in-persistent", rate=9),
    *of_rabbitmq("ring", rate=6),
    *of_rabbitmq("priority", rate=6),
    *of_rabbitmq("amqp10-settled", rate=1),
    *of_rabbitmq("amqp10-durable", rate=9),
    Target("amqp10-durable", "cpu", 7),
    Target("stomp", "rate", 0.6, COMPILED, ("transient-1k", COMPILED)),
    Target("stomp-receipts", "rate", 0.6, COMPILED, ("persistent-1k", COMPILED)),
    *of_rabbitmq("paced-2000", cpu=0.5),
    Target("paced-2000", "p99", 300),
    *of_rabbitmq("paced-10000", cpu=0.4),
    *of_rabbitmq("transient-16", rate=2, broker=PURE),
    *of_rabbitmq("transient-1k", rate=2, broker=PURE),
    *of_rabbitmq("persistent-1k", rate=4, broker=PURE),
    *of_rabbitmq("slow-persistent", rate=1),
    *of_rabbitmq("slow-backlog", rate=1),
]


def _value(summary: Summary, load: str, broker: str, figure: str) -> float | None:
    return summary.get(load, {}).get(broker, {}).get(figure)
