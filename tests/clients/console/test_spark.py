"""The page of Spark: queues that are archived, and results of what-if as a chart."""

from __future__ import annotations

import json

from annulet.bulk.client import BulkClient
from annulet.bulk.protocol.protocol import OpenLease
from annulet.bulk.protocol.url import parse_url
from annulet.spark.what_if.report import document_of
from annulet.spark.what_if.settings import grid
from annulet.spark.what_if.simulation import simulate
from annulet.spark.what_if.traffic import Arrival
from tests.clients.console.browser import Browser
from tests.clients.console.conftest import Place


def test_a_queue_that_is_archived_is_told_apart(place: Place, chromium: Browser) -> None:
    place.fill("kept", 3)
    client = BulkClient(parse_url(place.process.bulk_url), retry_seconds=0)
    try:
        client.act(OpenLease(queue="kept", lease="archive.kept", owner="checkpoint", fresh=True))
        chromium.sign_in(place.url)
        chromium.visit("leases", "Spark leases")
        chromium.wait(text="No Spark query reads a queue.", exact=False)
        chromium.click(role="link", name="Archives")
        chromium.wait(selector="tr:has-text('archive.kept'):has-text('none runs')")
        chromium.accessible()
        chromium.click(role="button", name="Release")
        chromium.click(selector="dialog button.danger")
        chromium.told("Released")
        assert place.api("GET", "leases")["items"] == []
        chromium.wait(selector="main code:has-text('annulet pipeline report')")
        chromium.sound()
    finally:
        client.close()


def test_a_result_of_what_if_is_drawn(place: Place, chromium: Browser) -> None:
    burst = [Arrival(1_700_000_000_000 + (at if at < 50 else at * 100)) for at in range(200)]
    settings = grid({"consumers": 1, "rate": 5}, {"ring-size": [5, 20, 50, 80, 200]})
    results = [simulate(setting, burst) for setting in settings]
    document = document_of(settings, results)
    chromium.sign_in(place.url)
    chromium.visit("leases?tab=what-if", "Spark leases")
    chromium.fill(label="Result", value="{}")
    chromium.wait(selector=".failure:has-text('annulet pipeline what-if … --json FILE')")
    chromium.upload(label="Read a result", name="found.json", content=json.dumps(document))
    chromium.wait(selector=".chart figcaption:has-text('Messages that would have waited')")
    assert chromium.count(selector=".chart path.line") == 4
    assert "M" in chromium.evaluate(script="document.querySelector('.chart path.series-4').getAttribute('d')")
    assert chromium.count(selector="tr:has-text('ring-size 200') input:disabled") == 1
    lost = document["settings"][0]["loss %"]
    assert lost > 0
    chromium.wait(selector=f"tr:has-text('ring-size 5'):has-text('{lost:g} %')")
    chromium.click(selector="input[aria-label='Draw ring-size 5']")
    chromium.check(label="Draw ring-size 200")
    chromium.wait(selector=".legend:has-text('ring-size 200')")
    chromium.accessible()
    chromium.sound()
