"""Figures that show whether consumers and Spark queries keep up: the wait of the oldest message, and leased
messages."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from typing import TYPE_CHECKING, Final

from prometheus_client.core import GaugeMetricFamily

from annulet.admin.figures.rendering import in_parts
from annulet.core.queue.statistics import lag_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from annulet.broker.broker import Broker
    from annulet.broker.durability.leased import LeaseSum

SLICE: Final = 250
"""Queues processed before other tasks get a turn: below 1 ms, if no record has to be read."""

LABELS: Final = ("vhost", "queue")


@dataclasses.dataclass(slots=True)
class LagFigures:
    """The results of one scrape, by virtual host and queue."""

    at: int = 0  # when, milliseconds since 1970
    ages: dict[tuple[str, str], float] = dataclasses.field(default_factory=dict)  # seconds; those not known are missing
    leases: Mapping[tuple[str, str], LeaseSum] = dataclasses.field(default_factory=dict)  # queues with leases only


async def lag_figures(broker: Broker, places: Sequence[tuple[str, str]]) -> LagFigures:
    """Measure the queues of ``places`` (virtual host, name), and all leases."""
    found = LagFigures(broker.clock(), leases=broker.leases.sums())
    for number, place in enumerate(places, 1):
        host = broker.hosts.get(place[0])
        queue = None if host is None else host.queues.get(place[1])
        lag = None if queue is None else lag_of(queue, found.at)
        if lag is not None:
            found.ages[place] = lag / 1000
        if number % SLICE == 0:
            await asyncio.sleep(0)
    return found


def lag_families(figures: LagFigures, listed_max: int, *, totals: bool = True) -> Iterator[GaugeMetricFamily]:
    """Yield the families. Of queues with leases ``listed_max`` at most have series, the sums of virtual hosts, with
    ``totals``, are of all."""
    text = "How long the oldest pending message has waited, 0 when there is none"
    ages = GaugeMetricFamily("annulet_queue_oldest_message_age_seconds", text, labels=LABELS)
    for place, seconds in in_parts(figures.ages.items()):
        ages.add_metric(place, seconds)
    yield ages
    leases = GaugeMetricFamily("annulet_queue_leases", "Leases of Spark queries", labels=LABELS)
    messages = GaugeMetricFamily("annulet_queue_messages_leased", "Messages in delivery to leases", labels=LABELS)
    oldest = GaugeMetricFamily("annulet_queue_oldest_lease_age_seconds", "Age of the oldest lease", labels=LABELS)
    for place, sums in sorted(figures.leases.items())[:listed_max]:
        leases.add_metric(place, sums.leases)
        messages.add_metric(place, sums.messages)
        oldest.add_metric(place, max(0, figures.at - sums.oldest_created_at) / 1000)
    yield from (leases, messages, oldest)
    if totals:
        yield from _host_families(figures)


def _host_families(figures: LagFigures) -> Iterator[GaugeMetricFamily]:
    counts: Counter[str] = Counter()
    held: Counter[str] = Counter()
    for (host, _), sums in figures.leases.items():
        counts[host] += sums.leases
        held[host] += sums.messages
    for name, text, values in (
        ("leases", "Leases of Spark queries, all queues", counts),
        ("messages_leased", "Messages in delivery to leases, all queues", held),
    ):
        family = GaugeMetricFamily(f"annulet_vhost_{name}", text, labels=["vhost"])
        for host, value in sorted(values.items()):
            family.add_metric([host], value)
        yield family
