"""The dashboard and the alert rules name metrics, labels and bounds that are served."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from annulet import testing
from annulet.admin.figures.bounds import bounds
from annulet.admin.resources.metrics import BrokerCollector, exposition, gather
from annulet.cli.main import main
from annulet.cli.metrics import ALERTS, DASHBOARD, text_of

PROMTOOL = shutil.which("promtool")

ENDS_OF_HISTOGRAMS = re.compile(r"(annulet_event_loop_\w+_seconds)_(?:bucket|sum|count)$")


def printed(command: str) -> str:
    result = CliRunner().invoke(main, ["metrics", command])
    assert result.exit_code == 0, result.output
    return result.output


async def served() -> tuple[set[str], dict[str, float]]:
    async with testing.broker(http=False) as running:
        snapshot = await gather(running.broker)
        text = exposition(snapshot, BrokerCollector(snapshot)).decode()
        return set(re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE)), bounds(running.broker)


def expressions(tree: Any) -> list[str]:
    """Return the expressions and queries anywhere in a document."""
    if isinstance(tree, list):
        return [text for each in tree for text in expressions(each)]
    if not isinstance(tree, dict):
        return []
    found = [tree[name] for name in ("expr", "definition") if isinstance(tree.get(name), str)]
    return found + [text for each in tree.values() for text in expressions(each)]


def rule_fields(name: str) -> list[str]:
    """Return the values of a field of all rules: the file has one field a line, texts in single quotes."""
    return re.findall(rf"^ +(?:- )?{name}: '?(.*?)'?$", text_of(ALERTS), re.MULTILINE)


@pytest.mark.parametrize("name", [DASHBOARD, ALERTS])
async def test_each_metric_and_bound_is_served(name: str) -> None:
    names, limits = await served()
    found = expressions(json.loads(text_of(name))) if name == DASHBOARD else rule_fields("expr")
    assert len(found) > 30
    used = {ENDS_OF_HISTOGRAMS.sub(r"\1", metric) for text in found for metric in re.findall(r"annulet_\w+", text)}
    assert used - names == set()
    assert {bound for text in found for bound in re.findall(r'name="(\w+)"', text)} - limits.keys() == set()


def test_the_commands_print_the_files() -> None:
    assert printed("dashboard") == text_of(DASHBOARD)
    assert printed("alerts") == text_of(ALERTS)


def test_each_alert_has_a_severity_a_summary_and_a_remedy() -> None:
    alerts = rule_fields("alert")
    assert len(set(alerts)) == len(alerts) > 30
    assert set(rule_fields("severity")) == {"critical", "warning", "info"}
    for name in ("expr", "severity", "summary", "description"):
        assert len(rule_fields(name)) == len(alerts), name


def test_panels_have_places_and_identifiers_of_their_own() -> None:
    panels = json.loads(text_of(DASHBOARD))["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(places) == len(set(places))
    assert max(x for x, _ in places) == 23


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed: apt-get install prometheus")
def test_promtool_accepts_the_rules(tmp_path: Path) -> None:
    assert PROMTOOL is not None
    file = tmp_path / ALERTS
    file.write_text(printed("alerts"))
    run = subprocess.run(
        [PROMTOOL, "check", "rules", str(file)], check=False, capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr


SERIES = """
rule_files: [alerts.yml]
tests:
  - interval: 1m
    input_series:
      - {series: 'annulet_log_disk_full{job="annulet"}', values: '0 1 1'}
      - {series: 'annulet_unfinished_bytes{job="annulet",instance="a"}', values: '90x4'}
      - {series: 'annulet_bound{job="annulet",instance="a",name="unfinished_bytes_max"}', values: '100x4'}
      - {series: 'annulet_queue_messages_removed_total{queue="q",vhost="/",reason="overflow"}', values: '0 0 5'}
      - {series: 'annulet_queue_messages_removed_total{queue="q",vhost="/",reason="expired"}', values: '0 0 5'}
    alert_rule_test:
      - {eval_time: 0m, alertname: AnnuletDiskFull}
      - eval_time: 1m
        alertname: AnnuletDiskFull
        exp_alerts: [{exp_labels: {severity: critical, job: annulet}}]
      - eval_time: 2m
        alertname: AnnuletUnfinishedNearLimit
        exp_alerts: [{exp_labels: {severity: warning, job: annulet, instance: a}}]
      - eval_time: 2m
        alertname: AnnuletQueueDrops
        exp_alerts: [{exp_labels: {severity: warning, queue: q, vhost: /, reason: overflow}}]
"""


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed: apt-get install prometheus")
def test_alerts_fire_for_the_series_they_watch(tmp_path: Path) -> None:
    assert PROMTOOL is not None
    bare = re.sub(r"^ +(annotations:|summary: .*|description: .*)\n", "", printed("alerts"), flags=re.MULTILINE)
    (tmp_path / ALERTS).write_text(bare)  # a test has to repeat annotations
    (tmp_path / "tests.yml").write_text(SERIES)
    run = subprocess.run(
        [PROMTOOL, "test", "rules", str(tmp_path / "tests.yml")],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 0, run.stdout + run.stderr
