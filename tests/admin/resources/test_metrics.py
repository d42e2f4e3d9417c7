from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pamqp import commands
from prometheus_client.parser import text_string_to_metric_families

from annulet.admin.resources import metrics
from annulet.broker.durability.history import HistoryRecorder
from annulet.core.message.message import Message, Origin
from annulet.core.model.audit_trail import AuditEntry
from annulet.residency.bodies.memory_figures import residence_of
from annulet.store.database.history import History
from annulet.wire.amqp091.messages.properties import VIEW, BasicProperties, encode_properties
from tests.admin.conftest import REMOTE, Site
from tests.broker.amqp091.old_peer import OldPeer
from tests.broker.amqp091.peer import Peer
from tests.residency.acceptance.deep import deep_broker
from tests.wire.amqp091.old_versions import HEADER_0_8

if TYPE_CHECKING:
    from pathlib import Path

    from prometheus_client.core import Metric


async def scrape(site: Site, path: str = "/metrics") -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    response = await site.get(path, user=None)
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    families: list[Metric] = list(text_string_to_metric_families(response.text))
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def key(name: str, /, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


async def test_queue_series_and_removals_by_reason(site: Site) -> None:
    queue = site.queue('odd "name"\\', ring_size=2)
    site.fill(queue, 5, size=4)
    queue.acquire(1, -1, site.clock())
    samples = await scrape(site)
    labels = {"vhost": "/", "queue": 'odd "name"\\'}
    assert samples[key("annulet_queue_messages_pending", **labels)] == 1
    assert samples[key("annulet_queue_messages_delivering", **labels)] == 1
    assert samples[key("annulet_queue_pending_bytes", **labels)] == 4
    assert samples[key("annulet_queue_messages_added_total", **labels)] == 5
    assert samples[key("annulet_queue_messages_removed_total", **labels, reason="replaced-ring")] == 3
    assert samples[key("annulet_ledger_losses_total", vhost="/")] == 3
    assert samples[key("annulet_ledger_forgotten_total", vhost="/")] == 0
    assert samples[key("annulet_messages_unaccounted", vhost="/")] == 0


async def test_what_a_host_and_its_queues_have_beside_messages(site: Site) -> None:
    queue = site.queue(max_length=1, overflow="page", group_mode="sticky", group_key="k")
    for name in ("anna", "anna", "bert"):
        properties = BasicProperties()
        properties.headers = {"k": name}
        queue.enqueue(Message(encode_properties(properties), b"x", Origin("", "q", "", VIEW)), site.clock())
    site.broker.hosts["/"].publisher.duplicates.add("a", "1", 10)
    site.broker.limit_refusals = 7
    samples = await scrape(site)
    labels = {"vhost": "/", "queue": "q"}
    assert samples[key("annulet_queue_messages_paged", **labels)] == 2
    assert samples[key("annulet_queue_groups", **labels)] == 2
    assert samples[key("annulet_queue_matchers", **labels)] == 0
    assert samples[key("annulet_queue_scan_remaining", **labels)] == 0
    assert samples[key("annulet_queue_selector_evaluations_total", **labels)] == 0
    assert samples[key("annulet_queue_messages_browsed_total", **labels)] == 0
    assert samples[key("annulet_vhost_duplicate_ids", vhost="/")] == 1
    assert samples[key("annulet_vhost_dead_letters_unroutable_total", vhost="/")] == 0
    assert samples[key("annulet_publishes_over_limit_total")] == 7
    assert samples[key("annulet_bound", name="groups_per_queue_max")] == 100_000


async def test_broker_bounds_log_and_logins(site: Site) -> None:
    await site.get("/api/v1/overview", user="guest:wrong")
    samples = await scrape(site)
    assert samples[key("annulet_ready")] == 1
    assert samples[key("annulet_connections")] == 0
    assert samples[key("annulet_logins_refused_total")] == 1
    assert samples[key("annulet_bound", name="memory_limit_bytes")] == site.broker.configuration.memory_limit_bytes
    assert samples[key("annulet_bound", name="counters_interval_seconds")] == 10
    assert samples[key("annulet_bound", name="body_budget_bytes")] == site.broker.configuration.body_budget_bytes
    assert samples[key("annulet_memory_bodies_bytes")] == samples[key("annulet_queues_paging")] == 0
    assert samples[key("annulet_bound", name="spill_limit_bytes")] == 0, "a broker in memory spills nothing"
    for name in ("spill_files", "spill_bytes", "spill_live_bytes", "spill_bodies", "paging_bodies_spilled_total"):
        assert samples[key(f"annulet_{name}")] == 0
    assert samples[key("annulet_sliced_work")] == 0
    assert samples[key("annulet_paging_messages_unreadable_total")] == 0
    assert samples[key("annulet_paging_messages_selected_total")] == 0
    assert samples[key("annulet_log_window_bytes")] == 0
    assert samples[key("annulet_log_disk_full")] == 0


async def test_where_bodies_in_memory_are(site: Site, tmp_path: Path) -> None:
    samples = await scrape(site)
    assert samples[key("annulet_body_bytes", residence="head")] == 0
    async with deep_broker(tmp_path / "data") as deep:
        await deep.declare("q")
        await deep.publish(range(1500))
        snapshot = await metrics.gather(deep.broker)
        pager = deep.broker.pager
        assert pager is not None
        assert snapshot.residence == residence_of(deep.queue())
        assert 0 < snapshot.residence.head <= snapshot.residence.total < pager.budget.used


async def test_how_often_connections_and_looks_at_deep_queues_had_to_wait_for_the_next_turn(
    site: Site, tmp_path: Path
) -> None:
    shares = site.broker.shares
    shares.used_up, shares.used_up_by_browsers, shares.rounds_cut = 5, 2, 3
    site.broker.inputs.reads_cut = 4
    site.broker.input_turns.cut = 6
    samples = await scrape(site)
    assert samples[key("annulet_delivery_shares_used_total")] == 5
    assert samples[key("annulet_delivery_shares_used_by_browsers_total")] == 2
    assert samples[key("annulet_delivery_rounds_cut_total")] == 3
    assert samples[key("annulet_input_reads_cut_total")] == 4
    assert samples[key("annulet_stranger_reads_cut_total")] == 6
    assert samples[key("annulet_paging_scan_turns_total")] == 0, "a broker in memory never looks"
    async with deep_broker(tmp_path / "data") as deep:
        pager = deep.broker.pager
        assert pager is not None
        pager.scanning.turns, pager.scanning.turns_cut, pager.scanning.turns_put_off = 9, 8, 7
        counters = (await metrics.gather(deep.broker)).counters
        names = ("paging_scan_turns", "paging_scan_turns_cut", "paging_scan_turns_put_off")
        assert [counters[name][1] for name in names] == [9, 8, 7]


async def test_how_long_the_event_loop_was_held(site: Site) -> None:
    site.broker.loop_watch.stop()
    before = (await scrape(site))[key("annulet_event_loop_stall_seconds_count")]
    before_held = (await scrape(site))[key("annulet_event_loop_held_seconds_bucket", le="0.01")]
    for late in (0.0, 0.02, 0.021, 60.0):
        site.broker.loop_watch.note(late, 0.0125)
    samples = await scrape(site)
    held = samples[key("annulet_event_loop_held_seconds_bucket", le="0.01")]
    assert held == before_held + 3
    assert samples[key("annulet_event_loop_held_seconds_sum")] >= 59.9875
    assert samples[key("annulet_event_loop_stall_seconds_count")] == before + 4
    assert samples[key("annulet_event_loop_stall_seconds_bucket", le="10.0")] == before + 3
    assert samples[key("annulet_event_loop_stall_seconds_sum")] >= 60.041
    assert samples[key("annulet_event_loop_stall_longest_seconds")] == 60


async def test_connections_by_the_version_they_speak(site: Site) -> None:
    await OldPeer(site.broker, HEADER_0_8).start()
    for _ in range(2):
        await Peer(site.broker).open()
    Peer(site.broker)  # says nothing
    samples = await scrape(site)
    assert samples[key("annulet_connections")] == 4
    assert samples[key("annulet_connections_by_protocol", protocol="AMQP 0-8")] == 1
    assert samples[key("annulet_connections_by_protocol", protocol="AMQP 0-9-1")] == 2
    for connection in list(site.broker.connections):
        connection.abort()


async def test_what_the_history_wrote_and_could_not_write(site: Site, tmp_path: Path) -> None:
    samples = await scrape(site)
    names = ("history_failed", "history_batches_total", "history_failures_total", "audited_operations_total")
    assert [samples[key(f"annulet_{name}")] for name in names] == [0, 0, 0, 0], "a broker in memory has none"
    recorder = HistoryRecorder(History(tmp_path / "history.sqlite"))
    site.broker.history = recorder
    recorder.pending.paused[1] = True
    recorder.write_now(1)
    recorder.history.close()
    recorder.pending.paused[1] = True
    recorder.write_now(1)
    site.broker.audit.add(AuditEntry(1, "/", "anna", "purge", "q"))
    samples = await scrape(site)
    assert [samples[key(f"annulet_{name}")] for name in names] == [1, 1, 1, 1]


@pytest.mark.parametrize(("queues", "omitted"), [(2, 0), (3, 0), (4, 1)])
async def test_queues_beyond_the_bound_are_in_the_totals_only(
    site: Site, monkeypatch: pytest.MonkeyPatch, queues: int, omitted: int
) -> None:
    monkeypatch.setattr(metrics, "LISTED_QUEUES_MAX", 3)
    for number in range(queues):
        site.fill(site.queue(f"q{number}"), 1)
    samples = await scrape(site)
    assert samples[key("annulet_metrics_queues_omitted")] == omitted
    assert samples[key("annulet_queues", vhost="/")] == queues
    assert samples[key("annulet_vhost_messages_pending", vhost="/")] == queues
    listed = [name for name, _ in samples if name == "annulet_queue_messages_pending"]
    assert len(listed) == queues - omitted


async def test_the_busiest_queues_are_listed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "LISTED_QUEUES_MAX", 2)
    for number, count in enumerate((0, 5, 1, 7)):
        site.fill(site.queue(f"q{number}"), count)
    samples = await scrape(site)
    listed = {dict(labels)["queue"] for name, labels in samples if name == "annulet_queue_messages_pending"}
    assert listed == {"q1", "q3"}


async def test_a_pattern_answers_with_its_queues_only(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "LISTED_QUEUES_MAX", 2)
    for number in range(3):
        site.fill(site.queue(f"orders.{number}"), number)
    site.fill(site.queue("bills"), 9)
    samples = await scrape(site, "/metrics?queue=^ORDERS%5C.[0-9]$")
    assert {name.split("_")[1] for name, _ in samples} == {"queue", "metrics"}
    assert samples[key("annulet_metrics_queues_omitted")] == 1
    listed = {dict(labels)["queue"] for name, labels in samples if name == "annulet_queue_messages_pending"}
    assert listed == {"orders.1", "orders.2"}


async def test_wrong_patterns_and_parameters_are_refused_by_name(site: Site) -> None:
    status, reason = await site.refused("GET", "/metrics?queue=(")
    assert (status, reason) == (400, "query parameter queue='(' is no regular expression: missing ')'")
    status, reason = await site.refused("GET", "/metrics?queues=a")
    assert status == 400
    assert "'queues'" in reason
    assert "'queue'" in reason


async def test_from_another_machine_metrics_need_credentials(site: Site) -> None:
    assert (await site.get("/metrics", peer=REMOTE, user=None)).status_code == 401
    assert (await site.get("/metrics", peer=REMOTE, user="plain:pass")).status_code == 403
    assert (await site.get("/metrics", peer=REMOTE, user="manager:pass")).status_code == 200


async def test_admission_and_logins(site: Site) -> None:
    admission = site.broker.admission
    admission.refused["max_connections_per_user"] += 3
    admission.handshakes_timed_out += 4
    admission.idle_closed += 5
    site.broker.tls.counters.completed += 6
    site.broker.tls.counters.failed += 7
    assert (await site.get("/api/v1/overview", user="guest:wrong")).status_code == 401
    samples = await scrape(site)
    assert samples[key("annulet_connections_refused_total", limit="max_connections_per_user")] == 3
    assert samples[key("annulet_connections_refused_total", limit="max_connections")] == 0
    assert samples[key("annulet_handshakes_timed_out_total")] == 4
    assert samples[key("annulet_connections_idle_closed_total")] == 5
    assert samples[key("annulet_tls_handshakes_completed_total")] == 6
    assert samples[key("annulet_tls_handshakes_failed_total")] == 7
    assert samples[key("annulet_logins_refused_total")] == 1
    assert samples[key("annulet_handshakes")] == 0
    assert samples[key("annulet_bound", name="max_connections_per_user")] == 0
    assert samples[key("annulet_bound", name="login_delay_most")] == 4.0


async def test_limits_that_peers_met_are_counted_while_they_are_connected_and_after(site: Site) -> None:
    name = key("annulet_limit_hits_total", protocol="AMQP 0-9-1", limit="channel_max")
    assert name not in await scrape(site)
    peer = await Peer(site.broker).open(*range(1, 101))
    await peer.send(3000, commands.Channel.Open())
    assert (await scrape(site))[name] == 1
    for connection in list(site.broker.connections):
        connection.connection_lost(None)
        connection.connection_lost(None)  # once more counts nothing
    samples = await scrape(site)
    assert samples[key("annulet_connections")] == 0
    assert samples[name] == 1


async def test_what_the_broker_could_not_put_into_its_own_queues(site: Site) -> None:
    site.broker.fed_losses.update({"amq.events": 3, "amq.ledger": 2})
    samples = await scrape(site)
    assert samples[key("annulet_events_lost_total")] == 3
    assert samples[key("annulet_ledger_messages_lost_total")] == 2


async def test_messages_refused_after_their_sender_settled_them(site: Site) -> None:
    site.broker.note_settled_loss("q", "full")
    assert (await scrape(site))[key("annulet_settled_losses_total")] == 1
