"""The security page works as written: its commands make certificates, its file starts a broker, its client logs in."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from annulet import testing
from annulet.admin.figures.rendering import render
from annulet.admin.listening.web_socket import LIMIT_MESSAGE
from annulet.admin.requests.bodies import LIMIT_BODY
from annulet.admin.resources.metrics import BrokerCollector, gather
from annulet.broker.amqp091.getting import LIMIT_GETS
from annulet.broker.connections.transport import UNREAD_LIMIT
from annulet.broker.network.unfinished import LIMIT_UNFINISHED
from annulet.broker.security.admission import SETTINGS_OF_LIMITS
from annulet.broker.settings.configuration import BrokerConfiguration
from annulet.broker.settings.limits import RANGES, Limits
from annulet.broker.stomp.commands import LIMIT_SUBSCRIPTIONS, LIMIT_TRANSACTIONS
from annulet.broker.stomp.destinations import LIMIT_TEMPORARY_QUEUES
from annulet.bulk.bounds.call_bounds import LIMIT_CALLS, LIMIT_SERVED_STRANGERS
from annulet.bulk.bounds.message_meter import LIMIT_MESSAGE as LIMIT_BULK_MESSAGE
from annulet.bulk.bounds.message_meter import LIMIT_REQUEST, LIMIT_STRANGER_STREAMS, LIMIT_STREAMS
from annulet.bulk.bounds.message_meter import LIMIT_UNFINISHED as LIMIT_BULK_UNFINISHED
from annulet.bulk.bounds.stage_account import LIMIT_ALL, LIMIT_USER
from annulet.bulk.writing.commit_room import LIMIT_COMMIT
from annulet.core.host.commit_plan import LIMIT_TRANSACTION
from annulet.demo.ports import free_ports
from tests.broker_process import BrokerProcess

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "security.md").read_text()


def block(name: str) -> str:
    match = re.search(rf"<!-- test: {name} -->\s*```\w+\n(.*?)```", PAGE, re.DOTALL)
    assert match is not None, name
    return match[1]


@pytest.mark.debian
def test_the_how_to_ends_with_a_client_that_is_logged_in(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    subprocess.run(["sh", "-e", "-c", block("shell")], cwd=tmp_path, check=True, capture_output=True, timeout=60)
    amqps, https = free_ports(2)
    text = block("configuration").replace("5671", str(amqps)).replace("8162", str(https))
    for name in ("broker.pem", "broker.key", "authority.pem"):
        text = text.replace(f'"{name}"', f'"{tmp_path / name}"')
    file = tmp_path / "annulet.toml"
    file.write_text(text)
    with BrokerProcess(None, "--config", str(file), log_file=tmp_path / "broker.log") as process:
        code = block("client").replace("5671", str(amqps))
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True, timeout=60)
        process.wait_for_log("user=guest")


def tables() -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return the rows of settings and of built-in bounds by name; a row of two settings is two."""
    settings: dict[str, list[str]] = {}
    bounds: dict[str, list[str]] = {}
    found = settings
    limits = PAGE[PAGE.index("## Limits") : PAGE.index("## Interactions")]
    for line in limits.splitlines():
        if line.startswith("| bound |"):
            found = bounds
        if not line.startswith("| `"):
            continue
        names, *cells = line.strip("| ").split(" | ")
        defaults = cells[1].partition(":")[0].replace(" ", "").split(",")
        for number, name in enumerate(re.findall(r"`(\w+)`", names)):
            found[name] = [cells[0], defaults[number], *cells[2:]]
    return settings, bounds


SETTINGS, BOUNDS = tables()


def test_every_limit_is_in_the_table_with_unit_and_default() -> None:
    assert SETTINGS.keys() - set(Limits.__struct_fields__) == {
        "handshake_timeout", "channel_max", "frame_max", "heartbeat"
    }  # fmt: skip
    configuration = BrokerConfiguration()
    for name, (unit, default, *_) in SETTINGS.items():
        owner = configuration.limits if name in Limits.__struct_fields__ else configuration
        assert float(default) == getattr(owner, name), name
        if name in RANGES:
            assert unit.split()[0] == RANGES[name].unit.split()[0], name


async def test_every_limit_is_in_the_metrics_with_its_bound_and_what_counts_it() -> None:
    async with testing.broker(http=False) as running:
        snapshot = await gather(running.broker)
    text = render(BrokerCollector(snapshot)).decode()
    for name, row in (SETTINGS | BOUNDS).items():
        counters = re.findall(r"`(annulet_\w+)(\{[^}]+\})?`", row[-1])
        assert counters, f"{name} has no metric"
        for counter, labels in counters:
            if counter == "annulet_limit_hits_total":  # of each limit once it was met
                assert f"# TYPE {counter.removesuffix('_total')}" in text
            else:
                assert f"\n{counter}{labels} " in text, (name, counter)
        (bound,) = [key for key in (name, f"{name}_seconds", f"{name}_bytes") if key in snapshot.bounds]
        if row[1].replace(".", "").isdigit():
            assert snapshot.bounds[bound] == float(row[1]), name


def test_limits_are_counted_under_the_names_of_the_table() -> None:
    """Whatever the engines call them."""
    counted = {
        SETTINGS_OF_LIMITS.get(name, name)
        for source in (ROOT / "src" / "annulet" / "wire").glob("amqp*/**/*.py")
        for name in re.findall(r'\bcount_hit\("(\w+)"\)', source.read_text())
    }
    named = set(re.findall(r'annulet_limit_hits_total\{limit="(\w+)"\}', PAGE))
    assert counted - {"link_credit"} <= named, "credit is the peer's own promise, no limit of ours"
    stomp = {"max_header_bytes", "stomp_headers_max", LIMIT_SUBSCRIPTIONS, LIMIT_TRANSACTIONS, LIMIT_TEMPORARY_QUEUES}
    bulk = {
        LIMIT_USER,
        LIMIT_ALL,
        LIMIT_BULK_MESSAGE,
        LIMIT_REQUEST,
        LIMIT_STRANGER_STREAMS,
        LIMIT_SERVED_STRANGERS,
        LIMIT_CALLS,
        LIMIT_STREAMS,
        LIMIT_BULK_UNFINISHED,
        LIMIT_COMMIT,
    }
    others = {LIMIT_BODY, LIMIT_COMMIT, LIMIT_GETS, LIMIT_MESSAGE, LIMIT_TRANSACTION, LIMIT_UNFINISHED, UNREAD_LIMIT}
    assert named - counted == {*stomp, *bulk, *others}


def test_the_page_of_stomp_has_the_same_limits() -> None:
    page = (ROOT / "docs" / "stomp.md").read_text()
    named = set(re.findall(r"^\| [^|(]+ \(`(\w+)`\) \|", page[page.index("## Limits") :], re.MULTILINE))
    assert named - SETTINGS.keys() - BOUNDS.keys() == set()
    assert named >= {name for name in BOUNDS if name.startswith(("stomp_", "web_socket"))}
