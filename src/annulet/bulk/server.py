"""The Arrow Flight listener.

Flight's own threads take calls and stream; every decision is made on the broker's loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import wait
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
import pyarrow as pa
import structlog
from pyarrow import flight

from annulet.broker.connections.payloads import payload_of
from annulet.broker.network.listening import PeerFacts
from annulet.broker.security.tls_listeners import TITLES
from annulet.broker.settings.configuration import Endpoint
from annulet.broker.turns.rounds import RoundTimer
from annulet.bulk.bounds.door import Door, Watcher
from annulet.bulk.protocol import protocol
from annulet.bulk.protocol.errors import (
    AuthenticationError,
    BulkError,
    InvalidRequestError,
    OverLimitError,
    PermissionDeniedError,
    TokenExpiredError,
    UnavailableError,
    encode_error,
)
from annulet.bulk.protocol.schema import positioned_batches, schema_of, select_columns
from annulet.bulk.protocol.tokens import TokenStore, parse_basic
from annulet.bulk.reading.leases import LeaseManager
from annulet.bulk.reading.sequences import SequenceStore
from annulet.bulk.reading.snapshots import SnapshotStore
from annulet.bulk.requests import PROTOCOL, Caller, RequestHandler
from annulet.bulk.writing.encoding import check_write_schema
from annulet.bulk.writing.publisher import Publisher
from annulet.bulk.writing.stages import StageKey, StageStore
from annulet.store.files.errors import StoreError

if TYPE_CHECKING:
    from annulet.broker.broker import Broker
    from annulet.broker.network.unfinished import Unfinished
    from annulet.broker.security.authentication import User
    from annulet.broker.settings.configuration import BrokerConfiguration
    from annulet.broker.settings.limits import Limits
    from annulet.bulk.protocol.schema import Row
    from annulet.bulk.reading.deep_snapshots import ViewRead

logger = structlog.get_logger(__name__)
T = TypeVar("T")

CALL_SECONDS_MAX: Final = 300.0
"""How long a Flight thread waits for the loop.

Longer than any pause of a disk; a longer call is answered as unavailable.
"""

CANCELLED_SECONDS: Final = 0.5
"""How often a waiting Flight thread looks whether its call was cancelled: it would be taken until its work ends."""

STOP_SECONDS: Final = 5.0
"""How long a clean stop waits for streams under way. They can be read again after the restart."""

UPKEEP_SECONDS: Final = 60.0
"""Interval of checks for idle leases, old stages and old snapshots: their limits are an hour and more."""

MEMORY_STAGES_SHARE: Final = 0.25
"""The part of the memory limit for stages without a directory: a commit needs as much again."""

AUTHORIZATION: Final = "authorization"


class BulkService:
    """Leases, staged publishes and batch reads over Arrow Flight. A service of the broker."""

    def __init__(self, endpoint: Endpoint | None, tls_endpoint: Endpoint | None = None) -> None:
        self.endpoint = endpoint  # once started: with the actual port, if 0 was requested
        self.tls_endpoint = tls_endpoint  # the listener ``bulks`` of the configuration
        self.leases: LeaseManager
        self.publisher: Publisher
        self.snapshots: SnapshotStore
        self.sequences: SequenceStore
        self.stages: StageStore
        self._tokens: TokenStore[User] = TokenStore()
        self._door: Door | None = None
        self._server: _FlightServer | None = None
        self._upkeep: RoundTimer | None = None
        self._revoking: asyncio.Task[int] | None = None  # the end of leases of users that are gone

    @property
    def urls(self) -> dict[str, str]:
        """URL of each listener by its name in the configuration: ``bulk``, ``bulks``."""
        schemes = (("bulk", "annulet", self.endpoint), ("bulks", "annulets", self.tls_endpoint))
        return {name: f"{scheme}://{endpoint}" for name, scheme, endpoint in schemes if endpoint is not None}

    @property
    def port(self) -> int:
        """Port of the plain listener, or of the other when there is only that."""
        endpoint = self.endpoint or self.tls_endpoint
        assert endpoint is not None
        return endpoint.port

    def restore(self, broker: Broker) -> None:
        """Put the messages of leases back into delivery, and learn which batches were published."""
        self.stages = StageStore(broker.configuration.data_directory, _stage_limits(broker.configuration))
        broker.staged = self.stages
        self.leases = LeaseManager(broker)
        self.publisher = Publisher(broker, self.stages)
        self.snapshots = SnapshotStore(broker.clock)
        self.sequences = SequenceStore(broker, self.leases.queue)
        self.leases.restore()
        broker.leases = self.leases
        self.publisher.restore()

    async def start(self, broker: Broker) -> None:
        """Listen. Raises :class:`StartError` when the address cannot be had."""
        configuration = broker.configuration
        door = self._door = Door(
            configuration.limits, configuration.handshake_timeout, _watcher(broker), broker.admission.given
        )
        try:
            handler = RequestHandler(broker, self.leases, self.publisher, self.snapshots, self.sequences)
            self._server = _FlightServer(door, broker.loop, handler, self.stages, self._tokens)
            if self.endpoint is not None:
                port = await door.listen(self.endpoint, "bulk", "--bulk", None)
                self.endpoint = Endpoint(self.endpoint.host, port)
            if self.tls_endpoint is not None:
                tls = broker.tls.listeners["bulks"]
                port = await door.listen(self.tls_endpoint, TITLES["bulks"], "--bulks", tls)
                self.tls_endpoint = Endpoint(self.tls_endpoint.host, port)
        except BaseException:
            await self.stop()
            raise
        self._upkeep = RoundTimer(broker.loop, UPKEEP_SECONDS, self._maintain)
        self._upkeep.begin()
        broker.revocation.listeners.append(self._revoke)
        logger.info("bulk listener", **self.urls)

    def _revoke(self, gone: Callable[[User], bool], reason: str) -> None:
        """End the tokens, leases and connections of users that are gone. Called on the broker's loop."""
        self._tokens.forget(gone)
        self._revoking = asyncio.get_running_loop().create_task(self.leases.revoke(gone))
        if self._door is not None:
            self._door.revoke(gone, reason)

    async def stop(self) -> None:
        """Refuse new calls, let running ones finish for a while, close."""
        upkeep, self._upkeep = self._upkeep, None
        if upkeep is not None:
            await upkeep.stop()
        door, self._door = self._door, None
        server, self._server = self._server, None
        if door is None:
            return
        await door.close_listeners()
        if server is not None:
            server.stopping = True
            try:
                await asyncio.wait_for(self._shut_down(server).wait(), STOP_SECONDS)
            except TimeoutError:
                logger.warning("bulk transfer: streams cut off", waited_seconds=STOP_SECONDS)
        await door.close()

    @staticmethod
    def _shut_down(server: _FlightServer) -> asyncio.Event:
        """Have the server end when its streams have. The event is set then.

        A stream whose client does not read would block this permanently, so it is done in a thread that may be
        abandoned.
        """
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()

        def shut_down() -> None:
            server.shutdown()
            with contextlib.suppress(RuntimeError):  # the loop was closed in the meantime: there are no waiters
                loop.call_soon_threadsafe(ended.set)

        threading.Thread(target=shut_down, name="annulet-bulk-stop", daemon=True).start()
        return ended

    async def _maintain(self) -> None:
        try:
            await self.leases.expire()
            self.snapshots.expire()
            self.sequences.expire()
            await asyncio.to_thread(self.stages.drop_old)
        except Exception:  # a disk that refuses once must not end upkeep for good; the next round tries again
            logger.exception("upkeep of bulk transfer failed")


def _stage_limits(configuration: BrokerConfiguration) -> Limits:
    """Return the limits that say how many bytes of stages may wait: of a broker without a directory less."""
    limits = configuration.limits
    if configuration.data_directory is not None:
        return limits
    most = int(configuration.memory_limit_bytes * MEMORY_STAGES_SHARE)
    return msgspec.structs.replace(
        limits,
        max_stage_bytes=min(limits.max_stage_bytes, most),
        max_stage_bytes_per_user=min(limits.max_stage_bytes_per_user, most),
    )


def _watcher(broker: Broker) -> Watcher:
    """Return the functions that report the door's events to the broker, on its loop."""
    admission, say = broker.admission, broker.loop.call_soon_threadsafe
    return Watcher(
        limit=lambda limit: _say(say, admission.note_limits, PROTOCOL, {limit: 1}),
        refused=lambda limit: _say(say, admission.note_refused, limit),
        timed_out=lambda peer, seconds: _say(say, admission.note_timed_out, peer, seconds),
        held=lambda figures, taken: _say(say, _note_held, broker, figures, taken),
    )


def _note_held(broker: Broker, figures: dict[Unfinished, int], taken: Callable[[], None]) -> None:
    """Take the door's figures into the account of unfinished work, in one turn of the loop."""
    try:
        for connection, held in figures.items():
            broker.unfinished.note(connection, held)
    finally:
        taken()


def _say(say: Callable[..., object], note: Callable[..., None], *values: object) -> None:
    with contextlib.suppress(RuntimeError):  # the loop was closed in the meantime: nothing is counted any more
        say(note, *values)


class _Headers(flight.ServerMiddleware):  # type: ignore[misc] # pyarrow ships no types
    """Keeps a call's Authorization header for its handler, which has the peer."""

    def __init__(self, authorization: str) -> None:
        super().__init__()
        self.authorization = authorization


class _HeadersFactory(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    def start_call(self, info: Any, headers: dict[str, list[str]]) -> _Headers:  # noqa: ARG002 - Flight's signature
        values = [value for name, value in headers.items() if name.lower() == AUTHORIZATION]
        return _Headers(values[0][0] if values else "")


class _FlightServer(flight.FlightServerBase):  # type: ignore[misc]
    """Runs on gRPC's threads."""

    def __init__(
        self,
        door: Door,
        loop: asyncio.AbstractEventLoop,
        handler: RequestHandler,
        stages: StageStore,
        tokens: TokenStore[User],
    ) -> None:
        self.stopping = False  # the broker is
        self._door = door
        self._loop = loop
        self._handler = handler
        self._stages = stages
        self._tokens = tokens
        self._actions = msgspec.json.Decoder(protocol.Action)
        super().__init__(door.location, middleware={AUTHORIZATION: _HeadersFactory()})

    def do_action(self, context: Any, action: Any) -> Iterator[Any]:
        """Carry out one request and answer with one JSON result."""
        answer = self._mapped(context, lambda: self._act(context, action))
        return iter([flight.Result(msgspec.json.encode(answer))])

    def list_actions(self, context: Any) -> list[tuple[str, str]]:  # noqa: ARG002 - Flight's signature
        """Name the actions."""
        requests: tuple[type[protocol.Request], ...] = protocol.Action.__args__
        return [(str(kind.__struct_config__.tag), (kind.__doc__ or "").strip()) for kind in requests]

    def do_get(self, context: Any, ticket: Any) -> Any:
        """Stream the rows of a ticket."""
        return self._mapped(context, lambda: self._get(context, ticket.ticket))

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Write a stage; the answer is sent when it is on disk."""
        counts = self._mapped(context, lambda: self._put(context, descriptor, reader))
        writer.write(msgspec.json.encode(counts))

    def _act(self, context: Any, action: Any) -> dict[str, Any]:
        request = self._decode(action.type, action.body, self._actions)
        if isinstance(request, protocol.Login):
            return self._login(context)
        return self._call(context, self._handler.act(request, self._caller(context)))

    def _get(self, context: Any, ticket_bytes: bytes) -> Any:
        caller = self._caller(context)
        ticket = self._decode("ticket", pa.py_buffer(ticket_bytes), _TICKETS)
        columns = select_columns(ticket.columns)
        queue, rows = self._call(context, self._handler.rows(ticket, caller))

        source = rows if isinstance(rows, list) else self._read(context, ticket, queue, rows, caller)

        def batches() -> Iterator[pa.RecordBatch | tuple[pa.RecordBatch, pa.Buffer]]:
            for batch, position in positioned_batches(source, queue, columns, payload_of):
                if self.stopping:
                    raise _flight_error(UnavailableError("the broker is stopping"))
                # removed messages are no rows any more: a continued read needs a place, not a number of rows
                yield batch if isinstance(rows, list) else (batch, pa.py_buffer(b"%d" % position))

        return flight.GeneratorStream(schema_of(columns), batches())

    def _read(self, context: Any, ticket: protocol.Ticket, queue: str, view: ViewRead, caller: Caller) -> Iterator[Row]:
        """Read slice after slice, each in a turn of the loop, when the client has taken those before."""

        def following() -> list[Row] | None:
            return self._call(context, self._handler.following(ticket, queue, view, caller))

        while (rows := self._mapped(context, following)) is not None:
            yield from rows

    def _put(self, context: Any, descriptor: Any, reader: Any) -> dict[str, int]:
        caller = self._caller(context)
        request = self._decode("stage", pa.py_buffer(descriptor.command or b""), _STAGES)
        key = StageKey(protocol.scoped(request.virtual_host, caller.user, request.query), request.stage)
        self._call(context, self._handler.check_stage(request, caller))
        schema = reader.schema
        check_write_schema(schema)

        def batches() -> Iterator[pa.RecordBatch]:
            complete = False
            for chunk in reader:
                if self.stopping:
                    raise UnavailableError("the broker is stopping")
                if chunk.data is not None:
                    _check_batch(chunk.data)
                    yield chunk.data
                elif chunk.app_metadata is not None:
                    complete = chunk.app_metadata.to_pybytes() == protocol.END_OF_STAGE
            if not complete:  # Flight ends a stream quietly when its client dies or its connection breaks
                raise UnavailableError(f"stage {request.stage} broke off before its end; send it again")

        try:
            rows, size = self._stages.write(key, schema, batches())
        except OSError as error:
            raise UnavailableError(f"the stage cannot be written: {error.strerror or error}") from error
        return {"rows": rows, "bytes": size}

    # ------------------------------------------------------------------ callers

    def _login(self, context: Any) -> dict[str, Any]:
        user, password = parse_basic(self._authorization(context))
        peer = self._peer(context)
        caller = Caller(user, str(peer), loopback=peer.is_loopback)
        known = self._call(context, self._handler.authenticate(user, password, caller))
        self._door.logged_in(context.peer(), known)
        return {"token": self._tokens.issue(known, from_loopback=peer.is_loopback)}

    def _caller(self, context: Any) -> Caller:
        scheme, _, token = self._authorization(context).partition(" ")
        peer = self._peer(context)
        if scheme.lower() != "bearer":
            raise AuthenticationError("no bearer token: call the action login with Authorization: Basic first")
        user = self._tokens.user_of(token, from_loopback=peer.is_loopback)
        self._door.logged_in(context.peer(), user)
        return Caller(user.name, str(peer), loopback=peer.is_loopback, known=user)

    def _peer(self, context: Any) -> PeerFacts:
        """Return the client's address, which Flight does not know: its peer is the door."""
        peer = self._door.peer_of(context.peer())
        if peer is None:
            raise UnavailableError("the connection of this call has ended")
        return peer

    @staticmethod
    def _authorization(context: Any) -> str:
        headers = context.get_middleware(AUTHORIZATION)
        return headers.authorization if headers is not None else ""

    def _decode(self, what: str, body: pa.Buffer, decoder: msgspec.json.Decoder[T]) -> T:
        try:
            return decoder.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidRequestError(f"{what}: {error}") from error

    def _mapped(self, context: Any, work: Callable[[], T]) -> T:
        """Run a handler; its errors travel with code and text intact, are counted and leave a line in the log."""
        try:
            with self._door.running(context.peer()):
                return work()
        except BulkError as error:
            if isinstance(error, OverLimitError):
                self._loop.call_soon_threadsafe(self._handler.note_limit, error.limit)
            peer = self._door.peer_of(context.peer())
            user = self._door.user_of(context.peer())
            _say(
                self._loop.call_soon_threadsafe,
                self._handler.note_error,
                error,
                user,
                "" if peer is None else str(peer),
            )
            raise _flight_error(error) from error
        except flight.FlightError:
            raise
        except Exception as error:
            logger.exception("bulk request failed")
            raise _flight_error(
                BulkError(f"the broker failed: {type(error).__name__}: {error}; see its log")
            ) from error

    def _call(self, context: Any, work: Coroutine[Any, Any, T]) -> T:
        """Run on the broker's loop and wait, unless the client cancels the call or its connection ends."""
        if self.stopping:
            work.close()
            raise UnavailableError("the broker is stopping")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            for _ in range(int(CALL_SECONDS_MAX / CANCELLED_SECONDS)):
                if wait([future], CANCELLED_SECONDS).done:
                    return future.result()
                if context.is_cancelled():
                    raise UnavailableError("the client cancelled the call")
            # the work is not cancelled: it is whole or not begun, and asking again is harmless
            raise UnavailableError(f"the broker did not answer within {CALL_SECONDS_MAX:.0f} seconds")
        except StoreError as error:
            raise UnavailableError(str(error)) from error
        finally:
            del future  # its error references this frame: a cycle for each refusal


def _check_batch(batch: pa.RecordBatch) -> None:
    """Refuse buffers that do not fit together: reading them would read memory beyond them."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid as error:
        raise InvalidRequestError(f"a record batch is malformed: {error}") from error


_TICKETS: Final = msgspec.json.Decoder(protocol.Ticket)
_STAGES: Final = msgspec.json.Decoder(protocol.PutStage)


def _flight_error(error: BulkError) -> Exception:
    if isinstance(error, (AuthenticationError, TokenExpiredError)):
        kind = flight.FlightUnauthenticatedError
    elif isinstance(error, PermissionDeniedError):
        kind = flight.FlightUnauthorizedError
    elif isinstance(error, UnavailableError):
        kind = flight.FlightUnavailableError
    else:
        kind = flight.FlightServerError
    mapped: Exception = kind(str(error), encode_error(error))
    return mapped
