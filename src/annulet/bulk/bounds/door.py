"""The listening sockets of bulk transfer: they bound the input of Flight's server, and do TLS for it.

Flight's server accepts messages of any size from any peer, before a handler is called, and its library has no setting
for that. So it listens on a Unix socket that only this process uses, and connections are accepted here: a client's
input is counted until it has logged in, checked (:mod:`annulet.bulk.bounds.message_meter`) and passed on. The relays
run in a thread with a separate event loop, so that the broker's loop has no work with passing rows.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar, cast

import msgspec
import structlog

from annulet.broker.network.listening import PeerFacts, is_loopback, open_listening_socket, release_transport
from annulet.broker.network.paced_handshake import HandshakePace
from annulet.broker.network.unfinished import LIMIT_UNFINISHED
from annulet.broker.observing.limited_log import LimitedLog
from annulet.broker.security.admission import EXPLANATION_SECONDS, Admission
from annulet.broker.security.tls import TlsAcceptor, TlsCounters
from annulet.broker.turns.input_shares import INPUT_BYTES_FIRST
from annulet.broker.turns.input_turns import InputTurns
from annulet.bulk.bounds.arriving import ArrivingBytes
from annulet.bulk.bounds.call_bounds import LIMIT_SERVED_STRANGERS, SERVED_STRANGERS_MAX, CallsUnderWay, StrangersServed
from annulet.bulk.bounds.http2_frames import EMPTY_SETTINGS, go_away
from annulet.bulk.bounds.message_meter import (
    LIMIT_STRANGER_STREAMS,
    LIMIT_STREAMS,
    ROWS_BYTES_MORE,
    STRANGER_STREAMS_MAX,
    STREAMS_MAX,
    MessageRefusedError,
    RequestMeter,
    ResponseMeter,
)
from annulet.bulk.protocol.errors import OverLimitError, UnavailableError

if TYPE_CHECKING:
    from annulet.broker.network.unfinished import Unfinished
    from annulet.broker.security.authentication import User
    from annulet.broker.security.given_limits import GivenLimits
    from annulet.broker.security.tls import TlsListener
    from annulet.broker.settings.configuration import Endpoint
    from annulet.broker.settings.limits import Limits

logger = structlog.get_logger(__name__)
T = TypeVar("T")

CONNECTIONS_MAX: Final = 1000
"""Connections of bulk transfer, each with two file descriptors. A process of Spark that runs tasks has one."""

DESCRIPTORS_SHARE: Final = 16
"""If the system allows few open files, one connection for this many of them."""

READ_BYTES: Final = 256 * 1024
"""Read of a client at once: asyncio's own figure.

For a stranger it is :data:`INPUT_BYTES_FIRST`, as input beyond ``max_unauthenticated_bytes`` is kept until the login is
known.
"""

LIMIT_UNAUTHENTICATED: Final = "max_unauthenticated_bytes"

SERVER_SOCKET: Final = "flight"


class Watcher(NamedTuple):
    """The door's calls of the broker, from its own thread: limits reached, refused connections, logins that took too
    long, and the data of connections.

    The first argument of each is the limit, the limit, the peer with the seconds it had, and bytes by connection with a
    function to call when these were processed, from any thread.
    """

    limit: Callable[[str], None]
    refused: Callable[[str], None]
    timed_out: Callable[[str, float], None]
    held: Callable[[dict[Unfinished, int], Callable[[], None]], None]


class Door:
    """The listeners of bulk transfer. Made and closed on the broker's loop; its relays run in a thread."""

    def __init__(
        self, limits: Limits, login_seconds: float, watcher: Watcher, given: GivenLimits | None = None
    ) -> None:
        self.message_bytes_max = limits.max_message_bytes + ROWS_BYTES_MORE
        self.unauthenticated_bytes_max = limits.max_unauthenticated_bytes
        self.login_seconds = login_seconds
        self.watcher = watcher
        most = min(limits.max_connections, connections_max())
        limits = msgspec.structs.replace(limits, max_connections=most)
        self.admission = Admission(limits, when_refused=watcher.refused, given=given)
        self.log = LimitedLog(logger)
        self.arriving = ArrivingBytes(self._tell_held)
        self._directory = Path(tempfile.mkdtemp(prefix="annulet-bulk-"))  # only this user may enter it
        self._connections: dict[str, Relay] = {}
        self._counting = threading.Lock()  # of running calls, which begin and end in threads of their own
        self._next = 0
        self._pace = HandshakePace(InputTurns())
        self._loop = asyncio.new_event_loop()
        self.strangers = StrangersServed(self._loop)
        self.calls = CallsUnderWay()
        self._thread = threading.Thread(target=self._loop.run_forever, name="annulet-bulk-door", daemon=True)
        self._servers: list[asyncio.Server] = []
        self._thread.start()

    def relays(self) -> list[Relay]:
        """Return the connections that are open."""
        return list(self._connections.values())

    @property
    def location(self) -> str:
        """The address for Flight's server."""
        return f"grpc+unix://{self._directory / SERVER_SOCKET}"

    async def listen(self, endpoint: Endpoint, title: str, option: str, tls: TlsListener | None) -> int:
        """Take connections from now on and return the port. Raises :class:`ListenerError`."""
        listening = open_listening_socket(endpoint, title, option)
        make: Callable[[], asyncio.BaseProtocol] = partial(Relay, self)
        if tls is not None:
            make = partial(self._acceptor, tls)
        await self._in_thread(self._listen(make, listening))
        return int(listening.getsockname()[1])

    def peer_of(self, name: str) -> PeerFacts | None:
        """Return whose connection Flight calls ``name``; ``None`` when it has ended. From any thread."""
        relay = self._connections.get(name)
        return None if relay is None else relay.peer

    def user_of(self, name: str) -> str:
        """Return the user logged in on a connection, empty for a stranger and when it has ended. From any thread."""
        relay = self._connections.get(name)
        return "" if relay is None else relay.user

    def revoke(self, gone: Callable[[User], bool], reason: str) -> None:
        """End the connections of users that are gone, and tell them. Called on the broker's loop."""
        for relay in self.relays():
            known = relay.known
            if known is not None and gone(known):
                self._to_thread(relay.refuse, "", reason)

    def logged_in(self, name: str, user: User) -> None:
        """A call of this connection was made by a user whose login is known. From any thread."""
        relay = self._connections.get(name)
        if relay is not None and not relay.opened:
            self._loop.call_soon_threadsafe(relay.log_in, user)

    @contextlib.contextmanager
    def running(self, name: str) -> Iterator[None]:
        """Count a call of this connection while its handler has a thread. From any thread.

        A client that cancels a call may make another one at once, but the thread of the first is still taken. Raises
        :class:`OverLimitError`.
        """
        relay = self._connections.get(name)
        if relay is None:
            raise UnavailableError("the connection of this call has ended")
        with self._counting:
            if relay.running >= STREAMS_MAX:
                raise OverLimitError(
                    f"more than {STREAMS_MAX} calls of one connection are running, with those that were cancelled "
                    f"({LIMIT_STREAMS}); cancel fewer, or open another connection",
                    LIMIT_STREAMS,
                )
            relay.running += 1
        try:
            yield
        finally:
            with self._counting:
                relay.running -= 1

    async def close_listeners(self) -> None:
        """Take no more connections."""
        await self._in_thread(self._close_listeners())

    async def close(self) -> None:
        """End every connection and the thread."""
        await self._in_thread(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join)
        self._loop.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def refuse_unfinished(self, relay: Relay, text: str) -> None:
        """Refuse the data of a connection, called by the broker. From any thread."""
        self._to_thread(relay.refuse, LIMIT_UNFINISHED, text)

    def _to_thread(self, work: Callable[..., object], *values: object) -> None:
        with contextlib.suppress(RuntimeError):  # the door is closed, and no connection is left
            self._loop.call_soon_threadsafe(work, *values)

    # ------------------------------------------------------------------ in the door's thread

    def _tell_held(self, figures: dict[Unfinished, int], taken: Callable[[], None]) -> None:
        self.watcher.held(figures, partial(self._to_thread, taken))

    def enter(self, relay: Relay) -> tuple[str, socket.socket]:
        """Return the name that Flight will know a new connection by, and the socket that gives it."""
        self._next += 1
        path = str(self._directory / f"c{self._next}")
        inner = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            inner.bind(path)
            Path(path).unlink()  # the name stays with the socket
        except OSError:
            inner.close()
            raise
        inner.setblocking(False)
        name = f"unix:{path}"
        self._connections[name] = relay
        return name, inner

    def leave(self, name: str) -> None:
        """A connection has ended."""
        self._connections.pop(name, None)

    @property
    def server_path(self) -> str:
        """The socket of Flight's server."""
        return str(self._directory / SERVER_SOCKET)

    def _acceptor(self, tls: TlsListener) -> asyncio.BaseProtocol:
        acceptor = TlsAcceptor(
            tls,
            partial(Relay, self),
            self.admission,
            TlsCounters(),
            self.login_seconds,
            self.log,
            self._pace,
            watched=False,
        )
        return cast("asyncio.BaseProtocol", acceptor)

    async def _listen(self, make: Callable[[], asyncio.BaseProtocol], listening: socket.socket) -> None:
        self._servers.append(await self._loop.create_server(make, sock=listening))

    async def _close_listeners(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()

    async def _close(self) -> None:
        await self._close_listeners()
        for relay in self.relays():
            relay.end()
        await asyncio.sleep(0)
        tasks = asyncio.all_tasks(self._loop) - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)

    async def _in_thread(self, work: Coroutine[object, object, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))


class Relay(asyncio.Protocol):
    """One connection: the client's side. Belongs to the door's thread, but for :attr:`peer` and :attr:`opened`."""

    def __init__(self, door: Door) -> None:
        self.peer = PeerFacts()
        self.name = ""  # of the peer, in the log
        self.user = ""
        self.known: User | None = None  # the same with its scope
        self.opened = False  # it has logged in
        self.running = 0  # calls that have a thread
        self.response = ResponseMeter()
        self._door = door
        self._meter = RequestMeter(door.message_bytes_max)
        self._outer: asyncio.Transport
        self._inner: asyncio.Transport | None = None  # None: not connected yet
        self._name = ""
        self._admitted = False
        self._served = False  # its input is passed on
        self._unserved: list[bytes] = []  # input before that
        self._unauthenticated = 0  # octets passed on before the login
        self._kept: list[bytes] = []  # input that may pass only after it
        self._calls_kept = False  # it begins with a call that is one too many before the login
        self._early: list[bytes] = []  # input before Flight's server had the connection
        self._refused = False
        self._inner_full = False
        self._watch: asyncio.TimerHandle | None = None
        self._connecting: asyncio.Task[None] | None = None

    # ------------------------------------------------------------------ the client's transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connect to Flight's server, unless there are too many connections."""
        self._outer = cast("asyncio.Transport", transport)
        address = transport.get_extra_info("peername") or ("", 0)
        tls = transport.get_extra_info("ssl_object") is not None
        self.peer = PeerFacts(str(address[0]), int(address[1]), is_loopback(str(address[0])), tls=tls)
        self.name = str(self.peer)
        if self._door.admission.may_connect(self.peer):
            self._outer.abort()
            return
        self._admitted = True
        self._read_at_once(INPUT_BYTES_FIRST)
        self._outer.pause_reading()
        loop = asyncio.get_running_loop()
        self._watch = loop.call_later(self._door.login_seconds, self._too_late)
        self._connecting = loop.create_task(self._connect())

    def data_received(self, data: bytes) -> None:
        """Check a client's input and pass it on; before the login only a bounded part of it."""
        if self._refused:  # it is read so that the client reads why
            return
        if not self._served:
            self._unserved.append(data)
            self._outer.pause_reading()
            if len(self._unserved) == 1:
                self._door.strangers.enter(self)
            return
        self._take(data)

    def _take(self, data: bytes) -> None:
        try:
            answerable = self._meter.read(data)
        except MessageRefusedError as error:
            self.refuse(error.limit, str(error))
            return
        self._door.calls.note(self, self._meter.calls)
        if self._refused:
            return
        if not self.opened:
            allowed = self._door.unauthenticated_bytes_max - self._unauthenticated
            if answerable < min(len(data), allowed):
                self._calls_kept, allowed = True, answerable
            if self._kept:
                allowed = 0  # a transport may deliver once more when it is paused, as that of TLS
            if len(data) > allowed:
                self._kept.append(data[allowed:])
                data = data[:allowed]
            self._unauthenticated += len(data)
            self._pace()
        self._pass_on(data)
        self._note_held()

    def eof_received(self) -> bool:
        """The client sends nothing more: Flight's clients end a connection so."""
        return False

    def connection_lost(self, error: BaseException | None) -> None:  # noqa: ARG002 - the next call says what matters
        """End the server's side too."""
        if self._watch is not None:
            self._watch.cancel()
        if self._admitted:
            self._admitted = False
            self._door.admission.closed(self.peer, self.user)
        self._leave_counts()
        self._door.leave(self._name)
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None  # it ends with an error whose traceback references us
        if self._inner is not None:
            self._inner.close()
        release_transport(self._outer)

    def pause_writing(self) -> None:
        """The client reads slower than the server sends."""
        if self._inner is not None:
            self._inner.pause_reading()

    def resume_writing(self) -> None:
        """The client has caught up."""
        if self._inner is not None and not self._inner.is_closing():
            self._inner.resume_reading()

    # ------------------------------------------------------------------ the server's side

    def server_connected(self, transport: asyncio.Transport) -> None:
        """Flight's server has taken the connection."""
        self._inner = transport
        early, self._early = self._early, []
        for data in early:
            transport.write(data)
        self._pace()

    def server_sent(self, data: bytes) -> None:
        """Pass on the server's output, and note which calls it ends."""
        for stream in self.response.read(data):
            self._meter.answered(stream)
        self._door.calls.note(self, self._meter.calls)
        self._outer.write(data)
        self._note_held()

    def server_ended(self) -> None:
        """The server closed the connection."""
        if not self._refused:
            self._outer.close()

    def server_full(self, *, full: bool) -> None:
        """The server reads slower than the client sends, or has caught up."""
        self._inner_full = full
        self._pace()

    # ------------------------------------------------------------------ as the account of unfinished work sees it

    def unfinished_bytes(self) -> int:
        """Return the bytes in memory of the client's input. For strangers it is little, and bounded by their number."""
        return self._meter.held if self.opened and not self._refused else 0

    def refuse_unfinished(self, text: str) -> None:
        """End the connection. Called on the broker's loop."""
        self._door.refuse_unfinished(self, text)

    # ------------------------------------------------------------------ as the bounds of all connections see it

    def serve(self) -> None:
        """Pass the input on from now on."""
        self._served = True
        unserved, self._unserved = self._unserved, []
        for data in unserved:
            self.data_received(data)
        self._pace()

    def give_way(self) -> None:
        """End: other strangers wait, and this one keeps the server waiting."""
        text = (
            f"more than {SERVED_STRANGERS_MAX} connections wait for a login ({LIMIT_SERVED_STRANGERS}); log in at once"
        )
        self.refuse(LIMIT_SERVED_STRANGERS, text)

    def _leave_counts(self) -> None:
        """Forget all input, and count in no bound of all connections any more."""
        for kept in (self._unserved, self._kept, self._early):
            kept.clear()
        self._door.arriving.note(self, 0)
        self._door.calls.note(self, 0)
        self._door.strangers.leave(self)

    def _read_at_once(self, octets: int) -> None:
        if hasattr(self._outer, "max_size"):  # of asyncio's selector transports; there is no method to set it
            self._outer.max_size = octets

    def _note_held(self) -> None:
        self._door.arriving.note(self, self.unfinished_bytes())

    # ------------------------------------------------------------------ logins and ends

    def log_in(self, known: User) -> None:
        """Let everything pass from now on, unless the user has too many connections."""
        if self.opened or not self._admitted:
            return
        user = known.name
        reason = self._door.admission.may_open(user, self.peer)
        if reason:
            self.refuse("", reason)
            return
        self.user, self.known, self.opened = user, known, True
        self._meter.log_in()
        self._door.strangers.leave(self)
        if self._watch is not None:
            self._watch.cancel()
        for data in self._take_kept():
            self._pass_on(data)
        self._read_at_once(READ_BYTES)
        self._note_held()
        self._pace()

    def end(self) -> None:
        """Cut the connection."""
        self._outer.abort()

    def _too_late(self) -> None:
        if self._unserved:
            self.give_way()
            return
        if self._calls_kept:
            text = (
                f"more than {STRANGER_STREAMS_MAX} calls before authentication ({LIMIT_STRANGER_STREAMS}); log in first"
            )
            self.refuse(LIMIT_STRANGER_STREAMS, text)
            return
        if self._kept:
            most = self._door.unauthenticated_bytes_max
            text = f"more than {most} octets before authentication ({LIMIT_UNAUTHENTICATED}); log in first"
            self.refuse(LIMIT_UNAUTHENTICATED, text)
            return
        self._door.watcher.timed_out(str(self.peer), self._door.login_seconds)
        self._outer.abort()

    def refuse(self, limit: str, reason: str) -> None:
        """End the connection and say why, where a frame may begin."""
        if self._refused or self._outer.is_closing():
            return
        self._refused = True
        self._leave_counts()
        if limit:
            self._door.watcher.limit(limit)
        self._door.log.warning("bulk connection refused", peer=str(self.peer), user=self.user, reason=reason)
        if self._inner is not None:
            self._inner.abort()
        if not self.response.between_frames or not self._door.admission.may_explain():
            self._outer.abort()
            return
        if not self.response.started:
            self._outer.write(EMPTY_SETTINGS)
        self._outer.write(go_away(reason))
        # Closed at once, the socket would be reset and the client might not read the reason: so it continues reading.
        self._outer.resume_reading()
        asyncio.get_running_loop().call_later(EXPLANATION_SECONDS, self._outer.abort)

    def _take_kept(self) -> list[bytes]:
        kept, self._kept = self._kept, []
        return kept

    def _pass_on(self, data: bytes) -> None:
        if self._inner is None:
            self._early.append(data)
        elif not self._inner.is_closing():
            self._inner.write(data)

    def _pace(self) -> None:
        """Read from the client only as much as can be passed on."""
        if self._refused or self._outer.is_closing():
            return
        if self._inner is None or self._inner_full or self._kept or self._unserved:
            self._outer.pause_reading()
        else:
            self._outer.resume_reading()

    async def _connect(self) -> None:
        try:
            self._name, inner = self._door.enter(self)
            loop = asyncio.get_running_loop()
            await loop.create_unix_connection(partial(_ServerSide, self), sock=await self._connected(inner))
        except OSError as error:
            self._door.log.warning("bulk connection not passed on", peer=str(self.peer), error=str(error))
            self._outer.abort()

    async def _connected(self, inner: socket.socket) -> socket.socket:
        loop = asyncio.get_running_loop()
        while True:
            try:
                await loop.sock_connect(inner, self._door.server_path)
            except BlockingIOError:  # its queue of connections is full for a moment
                await asyncio.sleep(CONNECT_PAUSE_SECONDS)
            except BaseException:
                inner.close()
                raise
            else:
                return inner


CONNECT_PAUSE_SECONDS: Final = 0.01
"""Pause between attempts to reach Flight's server, which accepts connections in its own threads."""


class _ServerSide(asyncio.Protocol):
    """The other side of a relay."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._relay.server_connected(cast("asyncio.Transport", transport))

    def data_received(self, data: bytes) -> None:
        self._relay.server_sent(data)

    def connection_lost(self, error: BaseException | None) -> None:  # noqa: ARG002 - either way it has ended
        self._relay.server_ended()
        release_transport(self._transport)

    def pause_writing(self) -> None:
        self._relay.server_full(full=True)

    def resume_writing(self) -> None:
        self._relay.server_full(full=False)


def connections_max() -> int:
    """Return how many connections there may be: fewer where the system allows this process few open files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return CONNECTIONS_MAX if soft == resource.RLIM_INFINITY else min(CONNECTIONS_MAX, soft // DESCRIPTORS_SHARE)
