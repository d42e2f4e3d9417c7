"""``GET /metrics``: Prometheus text from a registry of this broker's own.

Gathering reads the queues in slices; rendering runs in a thread. Of very many queues only the busiest are listed
individually; the totals cover all, and a metric counts the omitted ones. ``?queue=REGEX`` answers with the series of
the matching queues only.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import msgspec
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from starlette.responses import Response

from annulet import __version__
from annulet.admin.figures.bounds import LISTED_QUEUES_MAX, bounds
from annulet.admin.figures.busiest_queues import BusiestQueues
from annulet.admin.figures.host_figures import HOST_COUNTERS, HOST_GAUGES, host_figures
from annulet.admin.figures.lag_figures import LagFigures, lag_families, lag_figures
from annulet.admin.figures.paging_figures import paging_counters, paging_gauges
from annulet.admin.figures.queue_figures import QUEUE_COUNTERS, QUEUE_FIELDS, QUEUE_GAUGES, queue_text
from annulet.admin.figures.rendering import render
from annulet.admin.requests.access import broker_of, hosts_without_credentials, require_user, visible_hosts
from annulet.admin.requests.local_requests import is_local
from annulet.admin.requests.parameters import read_parameters
from annulet.admin.requests.responses import ResourceError
from annulet.admin.requests.survey import survey
from annulet.admin.resources.overview import build_mode
from annulet.admin.resources.queues import unaccounted
from annulet.broker.connections.views import CONVERSIONS
from annulet.broker.durability.event_log import EVENT_QUEUE
from annulet.broker.durability.ledger_queue import LEDGER_QUEUE
from annulet.broker.observing.node_log import NODE_LOG
from annulet.broker.observing.recent_events import EVENTS
from annulet.broker.security.admission import SETTINGS_OF_LIMITS
from annulet.broker.turns.loop_watch import STALL_BOUNDS
from annulet.core.base.linear_expressions import ExpressionError, filter_expression
from annulet.core.base.reply_names import is_reply_name
from annulet.residency.bodies.memory_figures import Residence, residence_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.requests import Request

    from annulet.broker.broker import Broker
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.queue.statistics import QueueStatistics

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

RESIDENCE_SLICE: Final = 20
"""Large queues whose bodies are examined before other tasks get a turn: about 2 ms."""


@dataclasses.dataclass(slots=True)
class Snapshot:
    """The results of one scrape. Made on the event loop, read by the rendering thread, never changed in between."""

    listed: list[tuple[str, QueueStatistics]] = dataclasses.field(default_factory=list)
    omitted: int = 0  # queues without series of their own
    hosts_omitted: int = 0  # virtual hosts that the user does not see
    queues: Counter[str] = dataclasses.field(default_factory=Counter)  # by virtual host, without reply queues
    reply_queues: Counter[str] = dataclasses.field(default_factory=Counter)  # by virtual host
    totals: dict[str, dict[str, int]] = dataclasses.field(default_factory=dict)  # by virtual host and field
    removed: Counter[tuple[str, str]] = dataclasses.field(default_factory=Counter)  # by virtual host and reason
    unaccounted: Counter[str] = dataclasses.field(default_factory=Counter)  # by virtual host
    figures: dict[str, dict[str, int]] = dataclasses.field(default_factory=dict)  # by virtual host and name
    ledgers: list[tuple[str, int, int, int]] = dataclasses.field(default_factory=list)  # held, total, forgotten
    protocols: Counter[str] = dataclasses.field(default_factory=Counter)  # open connections by protocol
    gauges: dict[str, tuple[str, float]] = dataclasses.field(default_factory=dict)  # name -> help, value
    counters: dict[str, tuple[str, float]] = dataclasses.field(default_factory=dict)
    residence: Residence = dataclasses.field(default_factory=Residence)
    bounds: dict[str, float] = dataclasses.field(default_factory=dict)
    log: dict[str, float] = dataclasses.field(default_factory=dict)
    refused_connections: dict[str, int] = dataclasses.field(default_factory=dict)  # by the limit's name
    protocol_errors: Counter[tuple[str, str]] = dataclasses.field(default_factory=Counter)  # by protocol and code
    limit_hits: Counter[tuple[str, str]] = dataclasses.field(default_factory=Counter)  # by protocol and limit
    lags: LagFigures = dataclasses.field(default_factory=LagFigures)
    stalls: list[int] = dataclasses.field(default_factory=list)  # samples of the loop, by class of lateness
    stalled_seconds: float = 0.0  # their sum
    held: list[int] = dataclasses.field(default_factory=list)  # the same without waits for a processor
    held_seconds: float = 0.0


async def metrics(request: Request) -> Response:
    """Everything measurable, for Prometheus, with series of the virtual hosts that the user sees.

    Without credentials on this machine only: then the virtual hosts are those of the anonymous user.
    """
    if "authorization" in request.headers or not is_local(request):
        hosts = visible_hosts(request, await require_user(request))
    else:
        hosts = hosts_without_credentials(request)
    parameters = read_parameters(request, ("queue",))
    if "queue" in parameters:
        matches = _expression("queue", parameters["queue"])
        snapshot = await gather_queues(broker_of(request), hosts, matches)
        collector: Collector = LagCollector(snapshot)
    else:
        snapshot = await gather(broker_of(request), hosts)
        collector = BrokerCollector(snapshot)
    return Response(await asyncio.to_thread(exposition, snapshot, collector), media_type=CONTENT_TYPE)


def exposition(snapshot: Snapshot, collector: Collector) -> bytes:
    """Return the text of a collector's families and of the queues. For a thread."""
    return render(collector) + queue_text(snapshot.listed, snapshot.omitted)


def _expression(name: str, text: str) -> Callable[[str], bool]:
    try:
        return filter_expression(text).search
    except ExpressionError as error:
        raise ResourceError(400, f"query parameter {name}={text!r} is no regular expression: {error}") from error


async def gather_queues(broker: Broker, hosts: list[VirtualHost], matches: Callable[[str], bool]) -> Snapshot:
    """Gather the queues with matching names, in slices."""
    snapshot = Snapshot()
    busiest = BusiestQueues(LISTED_QUEUES_MAX)
    async for host_name, statistics in survey(hosts, matches):
        if not is_reply_name(statistics.name):
            busiest.show(host_name, statistics)
    await _choose(broker, busiest, snapshot)
    places = {(host, statistics.name) for host, statistics in snapshot.listed}
    leases = snapshot.lags.leases
    snapshot.lags.leases = {place: sums for place, sums in leases.items() if place in places}
    return snapshot


async def _choose(broker: Broker, busiest: BusiestQueues, snapshot: Snapshot) -> None:
    snapshot.listed = busiest.chosen()
    snapshot.omitted = busiest.shown - len(snapshot.listed)
    snapshot.lags = await lag_figures(broker, [(host, statistics.name) for host, statistics in snapshot.listed])


async def gather(broker: Broker, hosts: list[VirtualHost] | None = None) -> Snapshot:
    """Gather everything, queues in slices; of virtual hosts only ``hosts``, all unless given."""
    snapshot = Snapshot()
    busiest = BusiestQueues(LISTED_QUEUES_MAX)
    hosts = list(broker.hosts.values()) if hosts is None else hosts
    snapshot.hosts_omitted = len(broker.hosts) - len(hosts)
    for host in hosts:
        snapshot.queues[host.name] = snapshot.reply_queues[host.name] = 0
        snapshot.unaccounted[host.name] = 0
        snapshot.totals[host.name] = dict.fromkeys(QUEUE_FIELDS, 0)
    async for host_name, statistics in survey(hosts):
        if is_reply_name(statistics.name):  # one for each requesting client, with a name that others must not see
            snapshot.reply_queues[host_name] += 1
        else:
            busiest.show(host_name, statistics)
            snapshot.queues[host_name] += 1
        snapshot.unaccounted[host_name] += unaccounted(statistics)
        sums = snapshot.totals[host_name]
        for field in QUEUE_FIELDS:
            sums[field] += getattr(statistics, field)
        for reason, count in statistics.removed.items():
            snapshot.removed[host_name, reason] += count
    for host in hosts:
        snapshot.figures[host.name] = host_figures(host, broker.blocked[host.name])
        ledger = host.ledger
        snapshot.ledgers.append((host.name, len(ledger), ledger.total, ledger.forgotten))
    if broker.pager is not None:
        budget = broker.pager.budget
        for number, queue in enumerate(budget.counted(), 1):
            snapshot.residence += residence_of(queue, budget.front_of(queue))
            if number % RESIDENCE_SLICE == 0:
                await asyncio.sleep(0)
    await _choose(broker, busiest, snapshot)
    _gather_broker(broker, snapshot)
    return snapshot


def _gather_broker(broker: Broker, snapshot: Snapshot) -> None:
    authentication = broker.authenticator.statistics()
    admission, tls = broker.admission, broker.tls.counters
    snapshot.gauges = _gauges(broker)
    snapshot.protocols.update(connection.protocol_name for connection in broker.connections if connection.opened)
    snapshot.counters = {
        "connections_accepted": ("AMQP connections accepted", broker.connections_accepted),
        **_memory(broker),
        **_commits(broker),
        **_history(broker),
        **_connection_ends(broker),
        **paging_counters(broker),
        **_turns(broker),
        **_fed(broker),
        **_observing(broker),
        "messages_unroutable": ("Publishes that reached no queue", broker.unroutable),
        "publishes_refused": ("Persistent publishes refused because the disk takes no more", broker.refused_publishes),
        **_deliveries(broker),
        **_console(broker),
        "conversions": ("Messages converted to the protocol of a consumer", CONVERSIONS.conversions),
        "conversions_undecoded": (
            "Converted messages of which a part was too large to be decoded",
            CONVERSIONS.undecoded,
        ),
        "conversions_failed": ("Messages that could not be converted", CONVERSIONS.failures),
        "publishes_over_limit": ("Publishes that a full queue or address refused", broker.limit_refusals),
        "settled_losses": (
            "Messages refused after their sender had settled them (AMQP 1.0), so that none could be told",
            broker.settled_losses,
        ),
        "backups_finished": ("Backups taken", broker.backups.finished),
        "backups_failed": ("Backups that began and failed", broker.backups.failures),
        "tls_handshakes_completed": ("TLS hand-shakes done; bulk transfer's are not counted", tls.completed),
        "tls_handshakes_failed": ("TLS hand-shakes that failed; bulk transfer's are not counted", tls.failed),
        **{
            f"logins_{name}": (f"Logins {name}", value)
            for name, value in msgspec.structs.asdict(authentication).items()
        },
        **_issuer(broker),
        "telemetry_requests_failed": ("Requests that the collector of telemetry did not take", broker.pushes.failed),
        "spans_lost": ("Spans of these requests", broker.pushes.lost),
        "spans_dropped": (
            "Spans that found no room to wait for the collector",
            0 if broker.spans is None else broker.spans.dropped,
        ),
    }
    snapshot.bounds = bounds(broker)
    snapshot.stalls, snapshot.held = list(broker.loop_watch.counts), list(broker.loop_watch.counts_held)
    snapshot.stalled_seconds, snapshot.held_seconds = broker.loop_watch.total, broker.loop_watch.total_held
    snapshot.refused_connections = dict(admission.refused)
    snapshot.protocol_errors.update(broker.protocol_errors.counts)
    snapshot.limit_hits.update(admission.limit_hits)
    for connection in broker.connections:
        for limit, count in connection.engine.limit_hits.items():
            snapshot.limit_hits[connection.protocol_name, SETTINGS_OF_LIMITS.get(limit, limit)] += count
    snapshot.log = _log_figures(broker)


def _log_figures(broker: Broker) -> dict[str, float]:
    figures = dataclasses.asdict(broker.log.statistics())
    return {name: float(value) for name, value in figures.items() if isinstance(value, (int, float))}


def _history(broker: Broker) -> dict[str, tuple[str, float]]:
    history = broker.history
    batches, failures = (0, 0) if history is None else (history.batches, history.failures)
    return {
        "history_batches": ("Batches of losses, duplicate ids and delivery counts written down", batches),
        "history_failures": ("Batches of these that could not be written and are tried again", failures),
    }


def _connection_ends(broker: Broker) -> dict[str, tuple[str, float]]:
    admission = broker.admission
    return {
        "access_connections_closed": ("Connections closed because access was taken away", broker.revocation.closed),
        "handshakes_timed_out": ("Connections cut because they were not open in time", admission.handshakes_timed_out),
        "connections_idle_closed": ("Connections closed because they were idle", admission.idle_closed),
        "connections_silent_closed": ("Connections cut because the peer missed heartbeats", admission.silent_closed),
        "connections_lingering_cut": (
            "Ended connections whose peers did not close in time, or sent too much",
            broker.lingering.cut,
        ),
    }


def _commits(broker: Broker) -> dict[str, tuple[str, float]]:
    commits = broker.definitions
    return {
        "commit_batches": ("Group commits written", broker.commit.batches),
        "definition_commits": ("Commits of what clients declared, each of a turn of the loop", commits.commits),
        "definition_commits_refused": (
            "Of these, those that the disk refused: their declarations are undone, and the connections were cut",
            commits.refused,
        ),
    }


def _memory(broker: Broker) -> dict[str, tuple[str, float]]:
    late = broker.late_collection
    return {
        "late_collections": ("Full garbage collections while clients are served", late.collections),
        "late_collections_put_off": ("Full garbage collections that would have taken too long", late.put_off),
        "late_collected_objects": ("Objects that these freed: above a few it is a defect", late.freed_total),
        "memory_alarms": ("Times the memory alarm went on", broker.memory.alarms),
        "unfinished_refused": ("Connections ended because unfinished work was too much", broker.unfinished.refused),
    }


def _observing(broker: Broker) -> dict[str, tuple[str, float]]:
    return {
        "audited_operations": ("Management operations in the audit trail, with those it forgot", broker.audit.total),
        "traces_started": ("Protocol traces of connections that operators began", broker.traces.started),
        "node_lines_left_out": (
            "Log lines about queues, exchanges, bindings, consumers and operations beyond the limit a second",
            NODE_LOG.log.left_out_total,
        ),
    }


def _fed(broker: Broker) -> dict[str, tuple[str, float]]:
    return {
        "recent_events_forgotten": ("Events that made room for later ones in GET /api/v1/events", EVENTS.forgotten),
        "events_lost": ("Events that could not be put into amq.events", broker.fed_losses[EVENT_QUEUE]),
        "ledger_messages_lost": (
            "Losses that could not be put into amq.ledger; the ledger itself has them",
            broker.fed_losses[LEDGER_QUEUE],
        ),
        "undo_forgotten": ("Kept messages whose time for an undo was over", broker.undo.forgotten),
        "undo_dropped": ("Kept messages that made room for others before", broker.undo.dropped),
        "undo_unkept": ("Messages of operations that no undo brings back, although it was wanted", broker.undo.unkept),
        "undo_operations": ("Undo operations begun", broker.undo.undone),
    }


def _console(broker: Broker) -> dict[str, tuple[str, float]]:
    sessions, streams = broker.web_sessions, broker.stream_figures
    return {
        "console_snapshots": ("Snapshots made for streams of the web console", streams.sampled),
        "console_snapshots_skipped": ("Of these, times that a viewer did not take one in time", streams.skipped),
        "web_sessions_begun": ("Sign-ins to the web console", sessions.begun),
        "web_sessions_expired": ("Its sessions that ended because of their time", sessions.expired),
        "web_sessions_revoked": ("Its sessions that ended because their user or its token changed", sessions.revoked),
        "web_sessions_displaced": ("Its sessions that later ones displaced because of a bound", sessions.displaced),
    }


def _deliveries(broker: Broker) -> dict[str, tuple[str, float]]:
    return {
        "deliveries_too_large": (
            "Deliveries withheld because the message's header does not fit into a frame of the consumer's connection",
            broker.deliveries_too_large,
        ),
        "consumers_timed_out": ("Consumers ended as they did not settle in time", broker.consumer_timeouts.timed_out),
        "deliveries_extended": ("Deliveries whose time their consumer began anew", broker.consumer_timeouts.extended),
    }


def _turns(broker: Broker) -> dict[str, tuple[str, float]]:
    shares, inputs = broker.shares, broker.inputs
    turns, cut, put_off = (0, 0, 0) if broker.pager is None else broker.pager.scanning.figures()
    searching = None if broker.pager is None else broker.pager.searching
    started, failed = (0, 0) if searching is None else (searching.started, searching.failed)
    return {
        "delivery_shares_used": ("Times a connection waited for the next turn as it had its share", shares.used_up),
        "delivery_shares_used_by_browsers": ("Of these, connections that only browse", shares.used_up_by_browsers),
        "stranger_reads_cut": (
            "Reads of peers not logged in, of HTTP and of WebSocket that one turn had no time for.",
            broker.input_turns.cut,
        ),
        "input_reads_cut": (
            "Times less is read of a connection from then on, as its input takes long",
            inputs.reads_cut,
        ),
        "input_rests": ("Times what a client sent waited for another turn, as this one had no time left", inputs.rests),
        "spill_pace_waits": (
            (
                "Times a connection was not read until bodies were spilled, as memory held far more than the body "
                "budget, including those that cannot leave"
            ),
            broker.spill_pace.waits,
        ),
        "delivery_rounds_cut": ("Turns whose time was up before all connections were written to", shares.rounds_cut),
        "paging_search_process_starts": ("Times a process was started that looks ahead of selectors", started),
        "paging_search_process_failures": (
            "Times it could not be started, ended or gave no answer: selectors find the same without it, more slowly",
            failed,
        ),
        "paging_scan_turns": ("Turns of the loop in which selectors, groups and browsers looked at deep queues", turns),
        "paging_scan_turns_cut": ("Of these, those whose time was up before all was looked at", cut),
        "paging_scan_turns_put_off": ("Times the next of these turns waited because others had work", put_off),
    }


def _issuer(broker: Broker) -> dict[str, tuple[str, float]]:
    tokens = broker.authenticator.access_tokens
    fetched, failed = (0, 0) if tokens is None else (tokens.keys.fetched, tokens.keys.failed)
    return {
        "issuer_key_fetches": ("Times the issuer's keys were fetched", fetched),
        "issuer_key_fetches_failed": ("Times the issuer's keys could not be fetched", failed),
    }


def _gauges(broker: Broker) -> dict[str, tuple[str, float]]:
    connections, admission = broker.connections, broker.admission
    stages, stage_bytes = broker.staged.figures()
    tokens = broker.authenticator.access_tokens
    return {
        "issuer_keys": ("Keys of the issuer of access tokens at hand", 0 if tokens is None else len(tokens.keys)),
        "spans_waiting": ("Spans that wait for the collector", 0 if broker.spans is None else len(broker.spans)),
        "logins_ending": ("Connections that end with their token", len(broker.login_ends)),
        "bulk_stages": ("Stages of bulk writes that wait for their commit", stages),
        "bulk_stage_bytes": ("Bytes of these and of stages being written", stage_bytes),
        "orphaned_messages": (
            "Messages of queues that the catalogue does not know: kept, and not to be consumed",
            sum(broker.orphans.values()),
        ),
        "ready": ("1 when clients may connect", broker.ready),
        "uptime_seconds": ("Seconds since start", max(0, broker.clock() - broker.started_at) / 1000),
        "http_connections": ("Open HTTP connections, WebSockets not counted", admission.http_connections),
        "web_sockets": ("STOMP connections over WebSocket", broker.web_sockets),
        "console_streams": ("Streams of figures for pages of the web console", broker.stream_figures.streams),
        "chart_queues": ("Queues with a history of their figures", len(broker.figure_history)),
        "chart_queues_fine": ("Of these, queues with a history in steps of 10 s", broker.figure_history.fine),
        "chart_queues_left_out": ("Queues without a history, because of the bound", broker.figure_history.left_out),
        "web_sessions": ("Sessions of the web console", len(broker.web_sessions)),
        "handshakes": ("Connections that are not logged in yet", admission.handshakes),
        "connections": ("Open AMQP connections", len(connections)),
        "connections_lingering": (
            "Ended connections that are read until the peer has closed",
            len(broker.lingering),
        ),
        "channels": ("Open AMQP channels", sum(len(connection.channels) for connection in connections)),
        "memory_resident_bytes": ("Resident set of the process at the last look", broker.memory.resident),
        **paging_gauges(broker),
        "event_loop_stall_longest_seconds": (
            "Longest lateness of the timer that watches the event loop, since the start",
            broker.loop_watch.longest,
        ),
        "traces": ("Protocol traces of connections that are kept", len(broker.traces.all())),
        "sliced_work": (
            "Returns, purges, expiries and dead letters of very many messages under way",
            broker.worker.waiting,
        ),
        "late_collection_objects": ("Objects that the last full collection freed", broker.late_collection.freed),
        "late_collection_seconds": ("Seconds that the last full collection took", broker.late_collection.seconds),
        "unfinished_bytes": (
            "Bytes of open transactions and of messages still arriving, all connections",
            broker.unfinished.total,
        ),
        "management_queues_sampled": ("Queues whose counters are sampled for rates", broker.rates.sampled),
        "management_queues_unsampled": ("Queues without rates, as there are too many", broker.rates.unsampled),
        "global_parameters": ("Global parameters kept", len(broker.global_parameters.all())),
        "memory_blocked": ("1 while publishers are held back for memory", broker.memory_blocked),
        "commit_failed": ("1 when the message log cannot be written any more", broker.commit.failed),
        "history_failed": (
            "1 while losses, duplicate ids and delivery counts cannot be written down",
            broker.history is not None and broker.history.failed,
        ),
    }


class BrokerCollector(Collector):
    """Turns a snapshot into metric families."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        """Yield every family."""
        yield InfoMetricFamily("annulet_build", "What runs here", {"version": __version__, "mode": build_mode()})
        for name, (text, value) in self._snapshot.gauges.items():
            yield GaugeMetricFamily(f"annulet_{name}", text, value)
        for name, (text, value) in self._snapshot.counters.items():
            yield CounterMetricFamily(f"annulet_{name}", text, value)
        yield self._labelled(
            "annulet_connections_by_protocol",
            "Connections that are logged in",
            "protocol",
            dict(self._snapshot.protocols),
        )
        yield self._labelled(
            "annulet_body_bytes",
            "Bodies in memory of queues that are large enough to page, by where they are",
            "residence",
            dict(self._snapshot.residence.as_dict()),
        )
        yield self._labelled("annulet_bound", "Configured and built-in limits", "name", self._snapshot.bounds)
        for name, value in self._snapshot.log.items():
            yield GaugeMetricFamily(f"annulet_log_{name}", f"Message log: {name.replace('_', ' ')}", value)
        refused = CounterMetricFamily("annulet_connections_refused", "Connections refused, by limit", labels=["limit"])
        for name, count in self._snapshot.refused_connections.items():
            refused.add_metric([name], count)
        yield refused
        hits = CounterMetricFamily(
            "annulet_limit_hits",
            "Times a peer met a limit that ended its connection, session, channel or link",
            labels=["protocol", "limit"],
        )
        for (protocol, limit), count in sorted(self._snapshot.limit_hits.items()):
            hits.add_metric([protocol, limit], count)
        yield hits
        errors = CounterMetricFamily(
            "annulet_protocol_errors",
            "Errors with which the broker ended a connection, session, channel or link",
            labels=["protocol", "code"],
        )
        for (protocol, code), count in sorted(self._snapshot.protocol_errors.items()):
            errors.add_metric([protocol, code], count)
        yield errors
        snapshot = self._snapshot
        text = "How late a timer of 50 ms fired: longer stalls are always seen, shorter ones by chance"
        yield _lateness("annulet_event_loop_stall_seconds", text, snapshot.stalls, snapshot.stalled_seconds)
        text = "How late it fired at least, without time in which the loop's thread waited for a processor"
        yield _lateness("annulet_event_loop_held_seconds", text, snapshot.held, snapshot.held_seconds)
        yield from self._hosts()
        yield from self._ledgers()
        yield from lag_families(self._snapshot.lags, LISTED_QUEUES_MAX)

    def _labelled(self, name: str, text: str, label: str, values: dict[str, float]) -> GaugeMetricFamily:
        family = GaugeMetricFamily(name, text, labels=[label])
        for key, value in values.items():
            family.add_metric([key], value)
        return family

    def _hosts(self) -> Iterator[Metric]:
        snapshot = self._snapshot
        yield self._labelled("annulet_queues", "Queues, reply queues not counted", "vhost", dict(snapshot.queues))
        text = "Reply queues: channels that wait for answers by direct reply-to"
        yield self._labelled("annulet_reply_queues", text, "vhost", dict(snapshot.reply_queues))
        yield GaugeMetricFamily(
            "annulet_metrics_vhosts_omitted", "Virtual hosts that the user does not see", snapshot.hosts_omitted
        )
        yield self._labelled(
            "annulet_messages_unaccounted",
            "Messages neither there nor removed for a reason: anything but 0 is a defect of the broker",
            "vhost",
            dict(snapshot.unaccounted),
        )
        for name, field, text in QUEUE_GAUGES:
            family = GaugeMetricFamily(f"annulet_vhost_{name}", f"{text}, all queues", labels=["vhost"])
            for host in snapshot.queues:
                family.add_metric([host], snapshot.totals[host][field])
            yield family
        for name, field, text in QUEUE_COUNTERS:
            # a gauge: the sum shrinks when a queue is deleted
            family = GaugeMetricFamily(f"annulet_vhost_{name}", f"{text}, all present queues", labels=["vhost"])
            for host in snapshot.queues:
                family.add_metric([host], snapshot.totals[host][field])
            yield family
        text = "Messages that left the present queues, by reason"
        removed = GaugeMetricFamily("annulet_vhost_messages_removed", text, labels=["vhost", "reason"])
        for (host, reason), count in snapshot.removed.items():
            removed.add_metric([host, reason], count)
        yield removed
        for name, text in HOST_GAUGES:
            yield self._labelled(f"annulet_vhost_{name}", text, "vhost", self._figure(name))
        for name, text in HOST_COUNTERS:
            counter = CounterMetricFamily(f"annulet_vhost_{name}", text, labels=["vhost"])
            for host, value in self._figure(name).items():
                counter.add_metric([host], value)
            yield counter

    def _figure(self, name: str) -> dict[str, float]:
        return {host: figures[name] for host, figures in self._snapshot.figures.items()}

    def _ledgers(self) -> Iterator[Metric]:
        held = GaugeMetricFamily("annulet_ledger_records", "Losses with a record", labels=["vhost"])
        total = CounterMetricFamily(
            "annulet_ledger_losses", "Losses, with those of earlier runs that survived", labels=["vhost"]
        )
        forgotten = CounterMetricFamily(
            "annulet_ledger_forgotten", "Losses whose record fell out of the bound", labels=["vhost"]
        )
        for host, records, losses, pushed_out in self._snapshot.ledgers:
            held.add_metric([host], records)
            total.add_metric([host], losses)
            forgotten.add_metric([host], pushed_out)
        yield from (held, total, forgotten)


class LagCollector(Collector):
    """Turns the figures of lagging queues of a snapshot into metric families."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        """Yield the families."""
        yield from lag_families(self._snapshot.lags, LISTED_QUEUES_MAX, totals=False)


def _lateness(name: str, text: str, looks: list[int], seconds: float) -> HistogramMetricFamily:
    names = [*(str(bound) for bound in STALL_BOUNDS), "+Inf"]
    return HistogramMetricFamily(
        name, text, buckets=list(zip(names, accumulate(looks), strict=True)), sum_value=seconds
    )
