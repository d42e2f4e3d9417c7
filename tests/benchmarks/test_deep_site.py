"""The acceptance harness against a real broker process: it starts, fills, looks, stops and starts again."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from benchmarks.deep.client import BODY_BYTES, Client, ClientError, first_delivery, plain
from benchmarks.deep.looking import MATCHES, SELECTORS, evaluations, sparse, take_matches
from benchmarks.deep.run import stall_relations, wait_for
from benchmarks.deep.sampling import Sampler, Stalls
from benchmarks.deep.site import Site


def test_a_backlog_over_a_restart(tmp_path: Path) -> None:
    with Site("--body-budget", "1MiB", pure=False, folder=tmp_path) as site:
        sampler = Sampler(site, "test", time.monotonic())
        sampler.start()
        client = Client(site.port)
        assert client.declare("q", x_max_length=1000) == 0
        before = Stalls.of(site.metrics())
        client.publish("q", range(300), plain)
        with pytest.raises(ClientError, match="x-max-length"):
            client.declare("q", x_max_length=10)
        client.close()
        assert site.queue_metric("q", "messages_pending") == 300
        assert site.log_bytes() > 300 * BODY_BYTES
        wait_for(lambda: Stalls.of(site.metrics()).since(before).within(1) > 0, 10)
        assert stall_relations(site, before)[1].value > 0
        assert first_delivery(site.port, "q") < 60
        assert site.end(signal.SIGTERM) < 60
        site.start()
        site.drop_cache()
        consumer = Client(site.port)
        consumer.consume("q", 0)
        found = []
        for part in consumer.deliveries():
            found += part
            if len(found) >= 300:
                break
        assert [item.number for item in found] == list(range(300))
        consumer.acknowledge(found[-1].tag, multiple=True)
        wait_for(lambda: site.queue_metric("q", "messages_delivering") == 0, 10)
        consumer.close()
        sampler.end()
        assert sampler.highest_since(0) > 1 << 20
    assert not site.folder.exists()


def test_the_questions_a_selector_asked_are_told_by_the_broker(tmp_path: Path) -> None:
    count = 3 * MATCHES
    selectors = [selector for _, some, _, _ in SELECTORS.values() for selector in some][:4]
    with Site("--body-budget", "1MiB", pure=False, folder=tmp_path) as site:
        client = Client(site.port)
        client.declare("q")
        header_of, chosen = sparse(count)
        client.publish("q", range(count), header_of)
        for selector in selectors:
            assert take_matches(site, "q", selector).numbers == chosen
        wait_for(lambda: evaluations(site, "q", 4, count).value >= 4 * MATCHES, 10)
        told = evaluations(site, "q", 4, count)
        assert (told.most, told.holds) == (4 * count, True)
        assert not evaluations(site, "other", 4, count).holds, "a figure that is not told is a miss"
        client.close()
