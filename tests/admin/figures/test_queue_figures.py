from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families

from annulet.admin.figures.queue_figures import QUEUE_COUNTERS, QUEUE_GAUGES, queue_text
from tests.admin.conftest import Site

LABELS = ["vhost", "queue"]


class Families:
    """The same by the library."""

    def __init__(self, site: Site) -> None:
        self._queues = [queue.statistics() for queue in site.broker.hosts["/"].queues.values()]

    def collect(self) -> list[Metric]:
        families: list[Metric] = [
            GaugeMetricFamily("annulet_metrics_queues_omitted", "Queues without series of their own", 3)
        ]
        for name, field, text in QUEUE_GAUGES:
            gauge = GaugeMetricFamily(f"annulet_queue_{name}", text, labels=LABELS)
            for queue in self._queues:
                gauge.add_metric(["/", queue.name], getattr(queue, field))
            families.append(gauge)
        for name, field, text in QUEUE_COUNTERS:
            counter = CounterMetricFamily(f"annulet_queue_{name}", text, labels=LABELS)
            for queue in self._queues:
                counter.add_metric(["/", queue.name], getattr(queue, field))
            families.append(counter)
        text = "Messages that left the queue, by reason"
        removed = CounterMetricFamily("annulet_queue_messages_removed", text, labels=[*LABELS, "reason"])
        for queue in self._queues:
            for reason, count in queue.removed.items():
                removed.add_metric(["/", queue.name, reason], count)
        return [*families, removed]


async def test_it_is_what_the_library_writes(site: Site) -> None:
    for number, name in enumerate(("plain", 'odd "name"\\', "naïve")):
        site.fill(site.queue(name, ring_size=1), number)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Families(site))  # type: ignore[arg-type]  # it has what a collector needs
    listed = [("/", queue.statistics()) for queue in site.broker.hosts["/"].queues.values()]
    ours, theirs = queue_text(listed, 3).decode(), generate_latest(registry).decode()
    assert [*text_string_to_metric_families(ours)] == [*text_string_to_metric_families(theirs)]
    assert [line for line in ours.split("\n") if line.startswith("#")] == [
        line for line in theirs.split("\n") if line.startswith("#")
    ]


async def test_a_name_that_is_no_utf_8_does_not_end_the_scrape(site: Site) -> None:
    text = queue_text([("/", site.queue("q\udc80").statistics())], 0).decode()
    assert 'queue="q\\udc80"' in text
