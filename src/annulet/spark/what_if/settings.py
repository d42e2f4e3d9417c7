"""The settings to try and their goal: syntax, and the order by which the smallest is chosen."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from annulet.core.base.errors import CoreError
from annulet.core.configuration.arguments.queues import parse_queue_arguments

Value = int | float | bool | str

CONSUMER_NAMES: Final = ("consumers", "rate", "prefetch")
"""Settings that are not arguments of the queue."""

RECORDED: Final = "recorded"
"""The rate of consumers that work as the recorded ones did."""

METRICS: Final = ("loss", "depth", "dwell-p50", "dwell-p90", "dwell-p99", "dwell-max")
CONDITION: Final = re.compile(r"\s*([\w-]+)\s*(<=|<)\s*(\d+(?:\.\d+)?)\s*(%|ms|s|min)?\s*")
UNITS: Final = {"": 1.0, "%": 0.01, "ms": 1.0, "s": 1000.0, "min": 60_000.0}


class WhatIfError(Exception):
    """Settings, a goal or the recorded traffic cannot be used; the text has the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One trial: a queue's arguments and its consumers; with ``consumers`` of 0 the result is the messages that the
    queue keeps.

    ``rate`` is of one consumer, in messages a second.
    """

    arguments: dict[str, Value] = field(default_factory=dict)
    consumers: int = 1
    rate: float = 100.0
    prefetch: int = 1
    work: tuple[float, ...] = ()  # quantiles of recorded working times in ms, shortest first; they win over ``rate``

    def described(self) -> dict[str, Value]:
        """Return it by names, as a row of a table."""
        rate: Value = RECORDED if self.work else self.rate
        return {"consumers": self.consumers, "rate": rate, "prefetch": self.prefetch, **self.arguments}


@dataclass(frozen=True, slots=True)
class Condition:
    """``metric <= most``: loss as a share, dwell in milliseconds, depth in messages. ``strict``: below."""

    metric: str
    most: float
    strict: bool

    def met(self, value: float) -> bool:
        """Return whether a value meets it."""
        return value < self.most if self.strict else value <= self.most


def grid(fixed: Mapping[str, Value], varied: Mapping[str, Sequence[Value]]) -> list[Setting]:
    """Return every combination, the smallest first: by the first name varied, then the second, and so on.

    Names are arguments of queues, by any of their names, and :data:`CONSUMER_NAMES`. Raises :class:`WhatIfError`.
    """
    names = list(varied)
    ordered = [sorted(dict.fromkeys(varied[name]), key=_rank) for name in names]
    return [setting_of({**fixed, **dict(zip(names, values, strict=True))}) for values in itertools.product(*ordered)]


def setting_of(values: Mapping[str, Value]) -> Setting:
    """Return the setting of some names. Raises :class:`WhatIfError` when the core would not take it."""
    consumer = {name: value for name, value in values.items() if name in CONSUMER_NAMES}
    arguments = {name: value for name, value in values.items() if name not in CONSUMER_NAMES}
    try:
        parse_queue_arguments(dict(arguments))
    except CoreError as error:
        raise WhatIfError(f"{_text(values)}: {error}") from error
    for name, value in consumer.items():
        kinds = (int, float) if name == "rate" else (int,)
        nobody = name == "consumers" and value == 0
        if isinstance(value, bool) or not isinstance(value, kinds) or not (nobody or 0 < value < math.inf):
            wanted = {"rate": "rate above 0", "prefetch": "number above 0"}.get(name, "number, 0 or above")
            raise WhatIfError(f"{name}: {value!r} is no {wanted}")
    known: dict[str, Any] = consumer
    return Setting(arguments=arguments, **known)


def with_recorded(
    settings: Sequence[Setting], named: Iterable[str], count: int, work: tuple[float, ...]
) -> list[Setting]:
    """Return settings whose consumers work as recorded, ``count`` of them unless a setting is ``named`` for it.

    Raises :class:`WhatIfError` when a rate is named: it would say the same in another way.
    """
    names = set(named)
    if "rate" in names:
        raise WhatIfError("rate: the consumers work as recorded; leave it out, or do without recorded consumers")
    changes: dict[str, Any] = {"work": work} if "consumers" in names else {"work": work, "consumers": count}
    return [replace(setting, **changes) for setting in settings]


def parse_goal(text: str) -> list[Condition]:
    """Read ``loss <= 0.1%, dwell-p99 < 5 s``. Raises :class:`WhatIfError`."""
    return [_condition(part) for part in re.split(r",|\band\b", text)]


def parse_value(text: str) -> Value:
    """Read a value of the command line: a number, true, false, or text."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _condition(text: str) -> Condition:
    match = CONDITION.fullmatch(text)
    if match is None:
        raise WhatIfError(f"goal {text.strip()!r}: write METRIC <= NUMBER, such as 'loss <= 0.1%' or 'dwell-p99 < 5 s'")
    metric, sign, number, unit = match[1], match[2], float(match[3]), match[4] or ""
    if metric not in METRICS:
        raise WhatIfError(f"goal {text.strip()!r}: no metric {metric!r}; there are {', '.join(METRICS)}")
    time_unit = unit in ("ms", "s", "min")
    if metric.startswith("dwell") != time_unit or (unit == "%" and metric != "loss"):
        wanted = "ms, s or min" if metric.startswith("dwell") else "% or nothing" if metric == "loss" else "no unit"
        raise WhatIfError(f"goal {text.strip()!r}: {metric} takes {wanted}")
    return Condition(metric, number * UNITS[unit], strict=sign == "<")


def _rank(value: Value) -> tuple[bool, float, str]:
    return (True, 0.0, value) if isinstance(value, str) else (False, float(value), "")


def _text(values: Mapping[str, Value]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def names_of(settings: Sequence[Setting]) -> Iterator[str]:
    """Yield the names in which settings differ, in their order; all names when they are one."""
    described = [setting.described() for setting in settings]
    names = list(dict.fromkeys(name for values in described for name in values))
    differing = [name for name in names if len({values.get(name) for values in described}) > 1]
    yield from differing or names
