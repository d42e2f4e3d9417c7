"""The broker: one event loop that owns catalogue, message log, virtual hosts, connections and services."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter, deque
from typing import TYPE_CHECKING, Final, Protocol, cast

import structlog

from annulet import __version__
from annulet.broker.amqp10.services import Amqp10Services
from annulet.broker.amqp_listener import AmqpListenerProtocol
from annulet.broker.durability.blocked import BlockedTargets
from annulet.broker.durability.commit import CommitPipeline
from annulet.broker.durability.definition_commits import DefinitionCommits
from annulet.broker.durability.deleted_queues import DeletedQueues
from annulet.broker.durability.effects import DurableLosses, HostEffects
from annulet.broker.durability.event_log import EventLog
from annulet.broker.durability.history import CounterRounds, HistoryRecorder
from annulet.broker.durability.leased import NoLeases, NoStages
from annulet.broker.durability.ledger_queue import LedgerQueue
from annulet.broker.durability.upkeep import LogUpkeep
from annulet.broker.network.listening import BACKLOG, listener_error
from annulet.broker.network.peer_watch import PeerWatch
from annulet.broker.observing.log_level import LogLevels
from annulet.broker.observing.log_lines import LogLines
from annulet.broker.observing.loss_lines import LossLines
from annulet.broker.observing.spans import BothSources, HostSpans, PushCounters, SpanBuffer
from annulet.broker.observing.stream_figures import StreamFigures
from annulet.broker.observing.traces import Traces
from annulet.broker.operation.backup import Backups
from annulet.broker.operation.broker_settings import BrokerSettings
from annulet.broker.operation.charts.history import FigureHistory
from annulet.broker.operation.definitions.applying import DefinitionImports
from annulet.broker.operation.global_parameters import CLUSTER_NAME, GlobalParameters
from annulet.broker.operation.management import ManagementOperations
from annulet.broker.operation.operator_settings import OperatorSettings
from annulet.broker.operation.rates import Rates
from annulet.broker.operation.revocation import Revocation
from annulet.broker.operation.undo_window import UndoWindow
from annulet.broker.operation.virtual_hosts import VirtualHosts
from annulet.broker.paging.memory import MemoryAlarm
from annulet.broker.paging.pager import Pager
from annulet.broker.recovery.declaring import configure_host, declare_all
from annulet.broker.recovery.recovery import (
    open_log,
    open_spill,
    release_dead_letters,
    restore_definitions,
    restore_history,
    restore_messages,
    save_counters,
)
from annulet.broker.security.access_directory import AccessDirectory
from annulet.broker.security.authentication import Authenticator
from annulet.broker.security.given_limits import MAX_QUEUES
from annulet.broker.security.tls_listeners import TlsListeners
from annulet.broker.security.web_sessions import WebSessions
from annulet.broker.settings.clock import Clock, system_clock
from annulet.broker.turns.delivery_shares import only_browse
from annulet.broker.turns.late_collection import LateCollection
from annulet.broker.turns.loop_watch import LoopWatch
from annulet.broker.turns.sliced_work import SlicedWorker
from annulet.broker.turns.wake import WakeTimer
from annulet.core.host.virtual_host import VirtualHost
from annulet.core.model.audit_trail import AuditTrail
from annulet.store.database.catalogue import Catalogue
from annulet.store.database.catalogue_mark import open_catalogue, refuse_new_catalogue, start_mark
from annulet.store.database.history import History, dropped_text
from annulet.store.files.data_format import CATALOGUE_FILE, HISTORY_FILE, KNOWN_NAMES, open_format
from annulet.store.files.errors import StoreError
from annulet.store.files.files import OsFileSystem, tighten
from annulet.store.files.lock import DirectoryLock
from annulet.store.inspection.backup import remove_staging

if TYPE_CHECKING:
    from collections.abc import Callable

    from argon2 import PasswordHasher

    from annulet.broker.connections.transport import AnyConnection
    from annulet.broker.durability.leased import LeaseFigures, StageFigures
    from annulet.broker.settings.configuration import BrokerConfiguration
    from annulet.core.queue.queue import Queue

logger = structlog.get_logger(__name__)

TICK_SECONDS: Final = 0.25
"""How often expiry, the memory alarm and the log's upkeep are looked at when nothing asks for it earlier."""

TICKED: Final = 512
"""Queues of a virtual host that are examined in one turn for due work: 2 ms of the loop."""

REFUSAL_LOG_MILLISECONDS: Final = 1000
"""Between two log lines about refused publishes: a full queue refuses thousands a second."""

DRAIN_SECONDS: Final = 1.0
"""How long a clean stop waits for clients to answer its close before their sockets are cut: one that runs needs a round
trip, and a blocking client between two calls never answers."""

DEFAULT_HOST: Final = "/"


class Service(Protocol):
    """A part of the broker that lives beside the AMQP listener: HTTP, bulk transfer."""

    @property
    def urls(self) -> dict[str, str]:
        """URL of each of its listeners by its name in the configuration, with the real port once it listens."""

    def restore(self, broker: Broker) -> None:
        """Put back durable state. Called after messages were recovered, before any client may connect."""

    async def start(self, broker: Broker) -> None:
        """Start listening."""

    async def stop(self) -> None:
        """Stop listening and let running requests finish."""


class Broker(Amqp10Services):
    """Everything of one running broker. All methods belong to its event loop."""

    staged: StageFigures = NoStages()  # a service sets its own
    leases: LeaseFigures = NoLeases()  # a service sets its own
    hasher: PasswordHasher | None = None  # of passwords that it sets itself; None: the product's
    orphans: dict[int, int]  # since recovery: messages of queues that the catalogue does not know, by queue id
    _deleted: DeletedQueues  # since it listens
    _timers: dict[str, WakeTimer]  # by virtual host
    _ledger_queues: dict[str, LedgerQueue]  # by virtual host

    def __init__(self, configuration: BrokerConfiguration, *, clock: Clock = system_clock) -> None:
        super().__init__(configuration, clock)
        self.ready = False  # clients may connect
        self.started_at = 0
        self.spans = SpanBuffer() if configuration.otlp is not None and configuration.otlp.spans else None
        self.pushes = PushCounters()
        self.event_logs: dict[str, EventLog] = {}  # by virtual host; none unless configured
        self.fed_losses: Counter[str] = Counter()  # by name of the queue the broker could not put them into
        self.web_sockets = 0  # open STOMP connections over WebSocket
        self.limit_refusals = 0  # publishes that a full queue or address refused
        self.settled_losses = 0  # refused messages whose sender had settled them and could not be told
        self.amqp_address: tuple[str, int] = ("", 0)
        self.services: list[Service] = []
        self.amqps_address: tuple[str, int] | None = None  # None: no AMQP over TLS
        self.audit = AuditTrail()
        self.management = ManagementOperations(clock)
        self.undo = UndoWindow(self, configuration.undo_seconds, configuration.undo_bytes)
        self.memory, self._peer_watch = MemoryAlarm(configuration.memory_limit_bytes), PeerWatch()
        self.backups, self.rates, self.virtual_hosts = Backups(self), Rates(), VirtualHosts(self)
        self.definition_imports = DefinitionImports(self)
        self.revocation, self.loop_watch, self.late_collection = Revocation(self), LoopWatch(), LateCollection()
        self.stream_figures, self.figure_history = StreamFigures(), FigureHistory()
        self.traces, self.log_levels = Traces(clock), LogLevels(configuration.log_level, clock)
        self.log_lines, self._loss_lines = LogLines(), LossLines()
        self.counter_rounds: CounterRounds
        self._timers, self._ledger_queues = {}, {}
        self._refusal_logged_at = 0  # milliseconds since 1970
        self._restored = False  # queues hold what the log holds, and their counters are whole
        self._lock: DirectoryLock | None = None
        self._listener: asyncio.Server | None = None
        self._tls_listener: asyncio.Server | None = None
        self._dirty: deque[AnyConnection] = deque()
        self._round = 0  # so many of these are left of a round
        self._next_tick: asyncio.TimerHandle | None = None
        self.pager: Pager | None = None  # None: a broker in memory
        self.worker: SlicedWorker
        self.log_upkeep: LogUpkeep | None = None  # None: not recovered yet
        self._drained: asyncio.Event | None = None  # while stopping: the last socket is closed
        self._failure: asyncio.Future[BaseException] | None = None

    def add_service(self, service: Service) -> None:
        """Add a service before :meth:`start`."""
        self.services.append(service)

    # ------------------------------------------------------------------ start and stop

    async def start(self, before_listening: Callable[[], None] | None = None) -> None:
        """Recover, call ``before_listening``, and listen.

        Its work holds up no client: none is connected yet.

        Raises ``StoreError`` or ``OSError`` with a text that says what to do; nothing runs then.
        """
        self.loop = self.timer_loop(asyncio.get_running_loop())
        self.started_at = self.clock()
        self._failure = self.loop.create_future()
        self.log_lines.start()
        try:
            await self._recover()
            if before_listening is not None:
                before_listening()
            await self._listen()
        except BaseException:
            await self.stop()
            raise

    def timer_loop(self, running: asyncio.AbstractEventLoop) -> asyncio.AbstractEventLoop:
        """Return the loop whose timers the broker uses. The test kit has one that follows a clock."""
        return running

    async def _recover(self) -> None:
        self.tls = TlsListeners(self.configuration, self.admission, self.input_turns)
        directory = self.configuration.data_directory
        new = False  # the catalogue
        if directory is not None:
            OsFileSystem().make_directory(directory)
            self._lock = DirectoryLock(directory)
            self._lock.acquire()
            tighten(directory, KNOWN_NAMES)
            open_format(directory)
            remove_staging(directory)
            new = not (directory / CATALOGUE_FILE).exists()
            self.catalogue = open_catalogue(directory)
            self.history = HistoryRecorder(History(directory / HISTORY_FILE))
            if self.history.history.dropped.text:
                logger.error("history damaged", cost=dropped_text(self.history.history.dropped))
            self.counter_rounds = CounterRounds(self.history)
        else:
            self.catalogue = Catalogue(":memory:")
        self._open_directory()
        self.log = await open_log(directory, self.loop, heads=self.configuration.search_process)
        self.commit = CommitPipeline(self.log, self.loop, self.history)
        self.commit.on_failure = self._log_failed
        self.definitions = DefinitionCommits(None if directory is None else self.catalogue, self.loop)
        self.commit.definitions = None if directory is None else self.catalogue.groups
        if new and self.log.report.live_records:
            raise refuse_new_catalogue(self.catalogue)
        self.worker = SlicedWorker(self.loop, self.clock, self.log)
        if directory is not None:
            budget = self.configuration.body_budget_bytes
            spill = open_spill(directory, self.configuration.spill_limit_bytes)
            searches = self.configuration.search_process
            self.pager = Pager(
                self.log, self.loop, budget, self.memory.left, self.clock, spill, self.queues, searches=searches
            )
            self.spill_pace = self.pager.pace
            self.commit.on_written = self.pager.window_written
        for name in self.configuration.definitions.virtual_hosts():
            self.catalogue.add_virtual_host(name)
        self.operator_settings = OperatorSettings(self.catalogue, self.configuration.definitions)
        self.broker_settings = BrokerSettings(self.configuration, self.catalogue, self.undo)
        self.global_parameters = GlobalParameters(self.catalogue)
        self.server_properties[CLUSTER_NAME] = self.global_parameters.cluster_name
        restore_definitions(self)
        restore_history(self)
        await restore_messages(self)
        self.catalogue.on_queue = self.log.name_queue
        if directory is not None:
            start_mark(self.catalogue, directory)
        self._restored = True
        for name, event_log in self.event_logs.items():
            event_log.open(self.hosts[name], self.catalogue)
        declare_all(self.hosts, self.catalogue, self.configuration.definitions, self.clock())
        release_dead_letters(self)
        for service in self.services:
            service.restore(self)

    def _open_directory(self) -> None:
        """Know users and permissions, and have connections looked at when they change."""
        self.authenticator = Authenticator(self.catalogue, self.configuration, now=self.clock, hasher=self.hasher)
        if self.configuration.oidc is not None:
            from annulet.broker.security.access_tokens import access_tokens_of  # noqa: PLC0415 - PyJWT is optional

            self.authenticator.access_tokens = access_tokens_of(self.configuration.oidc, self.clock)
        self.login_ends.on_end, self.login_ends.on_renewed = self.revocation.login_ended, self.revocation.look_at
        source = str(self.configuration.definitions.source)
        given = self.admission.given
        directory = self.access_directory = AccessDirectory(self.catalogue, self.authenticator, given, source=source)
        directory.on_change = self.revocation.access_changed
        self.web_sessions = WebSessions(self.authenticator, self.clock)
        self.revocation.listeners.append(self.web_sessions.access_changed)
        directory.on_limits = self._apply_limits

    async def _listen(self) -> None:
        for service in self.services:
            await service.start(self)
        endpoint = self.configuration.amqp
        try:
            self._listener = await self.open_amqp_listener(endpoint.host, endpoint.port)
        except OSError as error:
            raise listener_error(endpoint, "AMQP", "--amqp", error) from error
        self.amqp_address = self._listener.sockets[0].getsockname()[:2]
        if self.configuration.amqps is not None:
            self._tls_listener, bound = await self.tls.listen("amqps", self.configuration.amqps, self._accept)
            self.amqps_address = (bound.host, bound.port)
        self._apply_limits()
        self.virtual_hosts.restore()
        self.log_upkeep = LogUpkeep(self.commit, self.loop, self.clock())
        self._deleted = DeletedQueues(self.catalogue, self.commit, self.loop)
        self.tick()
        self.loop_watch.start(self.loop)
        if self.pager is not None:
            self.memory.expect(-self.pager.budget.over)
        self.ready = True
        logger.info("ready", amqp=f"{self.amqp_address[0]}:{self.amqp_address[1]}", version=__version__)

    async def open_amqp_listener(self, host: str, port: int) -> asyncio.Server:
        """Listen for AMQP. Raises ``OSError``."""
        return await self.loop.create_server(self._accept, host, port, backlog=BACKLOG)

    async def stop(self) -> None:
        """Stop listening, close connections with 320, write everything down, release the directory."""
        if self.stopping:
            return
        self.stopping = True
        started, self.ready = self.ready, False
        self._stop_listening()
        self.stop_ticks()
        self.loop_watch.stop()
        self.late_collection.stop()
        for timer in self._timers.values():
            timer.stop()
        self.management.stop()
        await self.backups.stop()
        await self.virtual_hosts.stop()
        if self.log_upkeep is not None:
            await self.log_upkeep.stop()
            await self._deleted.stop()
        await self._close_connections()
        for service in reversed(self.services):
            await service.stop()
        try:
            if hasattr(self, "commit"):
                self.worker.finish()
                await self._close_log()
        finally:
            self._close_files()
        if started:  # of a start that failed its error is the last line
            logger.info("stopped")

    def _stop_listening(self) -> None:
        for listener in (self._listener, self._tls_listener):
            if listener is not None:
                listener.close()

    def _close_files(self) -> None:
        """Close all but the log, and release the directory."""
        if hasattr(self, "authenticator"):
            self.authenticator.close()
        if hasattr(self, "definitions"):
            self.definitions.close()
        if hasattr(self, "catalogue"):
            self.catalogue.close()
        if self.history is not None:
            self.history.history.close()
        if self._lock is not None:
            self._lock.release()

    async def _close_log(self) -> None:
        """Write everything down. A disk that refuses is logged: the next start recovers as after a crash."""
        if self.pager is not None:
            await self.pager.close()
        try:
            await self.commit.close()
            if self.commit.failed:
                return  # counters know of what the log does not hold, and came no further than a death leaves them
            if self._restored:
                DeletedQueues(self.catalogue, self.commit, self.loop).drop(self.catalogue.deleted_queues())
                save_counters(self)
            self.log.close()
            if self._restored and self.history is not None:  # losses that waited for room with their settlements
                self.history.write_now(self.log.next_record)
        except StoreError as error:
            logger.error("not everything was written down", error=str(error))  # noqa: TRY400 - the text says it all

    async def failed(self) -> BaseException:
        """Wait until the message log can no longer be written; the broker must then be restarted."""
        assert self._failure is not None
        return await asyncio.shield(self._failure)

    async def _close_connections(self) -> None:
        for undecided in list(self.undecided):
            undecided.abort()
        for connection in list(self.connections):
            connection.force_close("broker shut down")
        if self.connections or self.lingering:
            self._drained = asyncio.Event()
            with contextlib.suppress(TimeoutError):  # a peer without an answer by then is disconnected
                async with asyncio.timeout(DRAIN_SECONDS):
                    await self._drained.wait()
        for connection in list(self.connections):
            connection.abort()
        self.lingering.stop()
        self.traces.stop()
        self.log_levels.stop()
        self.log_lines.stop()
        await asyncio.sleep(0)  # the turn in which aborted connections return what they hold

    def _log_failed(self, error: BaseException) -> None:
        if self._failure is not None and not self._failure.done():
            self._failure.set_result(error)

    def queues(self) -> list[Queue]:
        """Return the queues of all virtual hosts."""
        return [queue for host in self.hosts.values() for queue in host.queues.values()]

    # ------------------------------------------------------------------ virtual hosts

    def add_host(self, name: str) -> VirtualHost:
        """Create a virtual host in memory; the catalogue is the caller's."""
        blocked = BlockedTargets()
        effects = HostEffects(name, self.log, self.commit, self.catalogue, self.audit, blocked)
        host = VirtualHost(name, effects)
        host.unknown_arguments = self.configuration.unknown_arguments
        effects.host = host
        if self.pager is not None:
            effects.use_pager(self.pager)
        effects.worker = self.worker
        if self.configuration.event_queues:
            patterns, queue_bytes = self.configuration.event_queues, self.configuration.event_queue_bytes
            self.event_logs[name] = EventLog(patterns, self.loop, self.clock, self.fed_losses, queue_bytes)
            effects.event_log = self.event_logs[name]
        if self.spans is not None:
            own = HostSpans(self.spans, name)
            effects.event_log = own if effects.event_log is None else BothSources(effects.event_log, own)
        host.ledger.listeners.append(DurableLosses(effects))
        effects.timer = WakeTimer(self.loop, self.clock, lambda now: self._tick_host(host, now))
        configure_host(host, self.configuration.definitions)
        self.blocked[name] = blocked
        self._timers[name] = effects.timer
        self.hosts[name] = host
        if self.configuration.ledger_queue:
            self._ledger_queues[name] = LedgerQueue(host, self.loop, self.clock, self.fed_losses)
        return host

    def create_host(self, name: str) -> VirtualHost:
        """Create a durable virtual host, see :meth:`VirtualHosts.put`."""
        self.virtual_hosts.put(name)
        return self.hosts[name]

    def open_host(self, name: str) -> None:
        """Let clients enter a virtual host of the catalogue that was made at run time."""
        host = self.add_host(name)
        if name in self.event_logs:
            self.event_logs[name].open(host, self.catalogue)
        self._apply_limits()

    def feeds_no_more(self, host: VirtualHost) -> None:
        """Put no losses and events into queues of a virtual host any more: it is being deleted."""
        if host.name in self.event_logs:
            self.event_logs[host.name].close()
        if host.name in self._ledger_queues:
            host.ledger.listeners.remove(self._ledger_queues.pop(host.name))

    def remove_host(self, host: VirtualHost) -> None:
        """Forget a virtual host that is empty, and of which the catalogue knows nothing any more."""
        self.hosts.pop(host.name)
        self._timers.pop(host.name).stop()
        self.blocked.pop(host.name)
        self.event_logs.pop(host.name, None)
        self.dynamic_nodes.pop(host.name, None)

    def _apply_limits(self) -> None:
        """Let the core know how many queues virtual hosts may have."""
        for host in self.hosts.values():
            host.queues_max = self.admission.given.of_host(host.name, MAX_QUEUES)

    # ------------------------------------------------------------------ connections

    def _accept(self) -> asyncio.BaseProtocol:
        self.connections_accepted += 1
        return self.accepted(cast("asyncio.BaseProtocol", AmqpListenerProtocol(self)))

    def connection_ended(self, connection: AnyConnection) -> None:
        """Forget a connection whose socket is gone."""
        self.login_ends.forget(connection)
        if connection in self.connections:
            self.connections.remove(connection)
            self.admission.note_limits(connection.protocol_name, connection.engine.limit_hits)
        self.look_drained()

    def look_drained(self) -> None:
        """Note that a socket is closed: a stop may wait for the last."""
        if self._drained is not None and not self.connections and not self.lingering:
            self._drained.set()

    def flush_later(self, connection: AnyConnection) -> None:
        """Write a connection's output at the end of this loop turn: the rest of it, in one write.

        Or in one of the next turns, where those before it took long: writing makes room for deliveries.
        """
        if not self._dirty:
            self.loop.call_soon(self.flush)
        self._dirty.append(connection)

    def flush(self) -> None:
        """Write what connections have for the end of this turn, as far as the turn has time."""
        dirty, shares = self._dirty, self.shares
        if not self._round:
            self._round = len(dirty)
        self.inputs.turn_ended()
        shares.turn_began()
        try:
            while self._round:
                self._round -= 1
                try:
                    self._flush_one(dirty[0])
                finally:
                    dirty.popleft()  # not before: a session added to others requests no turn
                if self._round and shares.over():
                    break
            else:
                shares.round_ended()
        finally:  # whatever happened: nothing else requests the next turn, and all would be silent
            if dirty:
                self.loop.call_soon(self.flush)

    def _flush_one(self, connection: AnyConnection) -> None:
        scanning = None if self.pager is None else self.pager.scanning
        charged = scanning is not None and scanning.browsing and only_browse(connection.channels.values())
        began = time.thread_time() if charged else 0.0
        try:
            connection.flush()
        except Exception as error:  # noqa: BLE001 - a defect that meets one connection must not silence all others
            connection.note_defect(error)
            connection.abort()
        if charged and scanning is not None:
            scanning.charge(time.thread_time() - began)

    def accepts_durable(self, size: int, now: int) -> bool:
        """Return whether the message log takes another persistent message of ``size`` bytes."""
        return not self.commit.failed and self.log.has_room(size, now)

    def note_limit_refusal(self, text: str, now: int) -> None:
        """Count a publish that a full queue or address refused; log at most one a second."""
        self.limit_refusals += 1
        if not 0 <= now - self._refusal_logged_at < REFUSAL_LOG_MILLISECONDS:
            self._refusal_logged_at = now
            logger.warning("publish refused", reason=text, refused=self.limit_refusals)

    def note_settled_loss(self, name: str, reason: str) -> None:
        """Count a refused message whose sender had settled it (AMQP 1.0 §2.6.12); log at most one a second."""
        self.settled_losses += 1
        now = self.clock()
        if not 0 <= now - self._refusal_logged_at < REFUSAL_LOG_MILLISECONDS:
            self._refusal_logged_at = now
            logger.warning("settled message refused", address=name, reason=reason, refused=self.settled_losses)

    # ------------------------------------------------------------------ upkeep

    def _tick_host(self, host: VirtualHost, now: int) -> int | None:
        """Do the due work in some queues of a virtual host; deleted queues are one group of definitions."""
        begun = self.definitions.begin()
        try:
            return host.tick_some(now, TICKED)
        finally:
            self.definitions.end(begun, None)

    def tick(self) -> None:
        """Do the upkeep of a tick now, and of the next one :data:`TICK_SECONDS` later."""
        self.stop_ticks()  # a direct call must not leave a second chain of ticks, which no stop ends
        self._next_tick = self.loop.call_later(TICK_SECONDS, self.tick)  # first: upkeep goes on whatever happens below
        for timer in list(self._timers.values()):
            timer.tick()
        self.tls.renew()
        now = self.clock()
        if self.history is not None:
            self.counter_rounds.tick(self.hosts.values(), now)
            if self.history.changed or self.history.pending.losses:  # a checkpoint may have made room for what waited
                self.commit.request()
        self._check_memory()
        if self.log_upkeep is not None:
            self.log_upkeep.tick(now)
            self._deleted.tick()
        self.consumer_timeouts.tick(now)
        self.access_directory.tick(now)
        self.rates.tick(self.hosts, now)
        self._loss_lines.tick(self.hosts, self.unroutable, now)
        self.figure_history.tick(self.hosts, now)
        self.undo.tick(now)
        if self.pager is not None:  # last: it serves consumers, whose defects must not stop the work above
            self.pager.tick(now)
            for host in self.hosts.values():
                if host.dead_letters.waiting:  # the disk did not give their bodies
                    host.dead_letters.flush(now)

    def stop_ticks(self) -> None:
        """Let no tick come by itself until the next :meth:`tick`."""
        if self._next_tick is not None:
            self._next_tick.cancel()

    def _check_memory(self) -> None:
        """Hold publishers back or let them go on, and look for ends of peers that are not read."""
        blocked = self.memory.check()
        if blocked != self.memory_blocked:
            self.memory_blocked = blocked
            for connection in self.connections:
                connection.mark_dirty()
        self._peer_watch.tick(self.connections, self.loop.time())
