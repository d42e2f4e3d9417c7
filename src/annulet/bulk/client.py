"""The client side of bulk transfer, for Spark's processes: pyarrow only, nothing of the broker.

Connections are kept per process and address: Python workers of Spark are forked and reused from batch to batch. A
broker that restarts is waited for; every request may be repeated (leases are idempotent, stages carry a nonce, commits
a batch id).
"""

from __future__ import annotations

import base64
import os
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import pyarrow as pa
from pyarrow import flight

from annulet.bulk.protocol import protocol
from annulet.bulk.protocol.errors import (
    AuthenticationError,
    BulkError,
    StageInterruptedError,
    TokenExpiredError,
    UnavailableError,
    decode_error,
)
from annulet.bulk.protocol.url import BulkUrl

T = TypeVar("T")

AUTHORITIES_VARIABLE: Final = "SSL_CERT_FILE"
"""Names a PEM file with the authorities that may sign the broker's certificate; OpenSSL's own variable."""

RETRY_SECONDS: Final = 60.0
"""How long a broker that does not answer is waited for: longer than a restart that recovers some million messages."""

BACKOFF_FIRST_SECONDS: Final = 0.1
BACKOFF_MAX_SECONDS: Final = 2.0
"""Pauses between attempts double from the first to this one."""

CALL_SECONDS_MAX: Final = 330.0
"""Deadline of one request: a little more than the broker gives itself. A dead peer is found out by TCP long before."""

PUT_SECONDS_MAX: Final = 24 * 3600.0
"""Deadline of sending a stage, which lasts as long as Spark computes the partition.

It is the maximum age of a stage.
"""

REPEATABLE_PUT_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of a stage kept in the worker so that it can be sent again to a restarted broker. A larger stage that is
interrupted fails its task, which Spark repeats."""

MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of one message of rows, unless a single row has more: batches of Spark are counted in rows, and the broker
accepts only messages of a bounded size (``bulk_message_bytes_max``)."""


class BulkClient:
    """One connection to one broker as one user. Safe to use from several threads of its process."""

    def __init__(
        self,
        url: BulkUrl,
        *,
        retry_seconds: float = RETRY_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = url
        self.retry_seconds = retry_seconds
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._token = ""
        self._client: Any = None

    # ------------------------------------------------------------------ requests

    def act(self, request: protocol.Request) -> dict[str, Any]:
        """Carry out an action and return its answer.

        Raises the :class:`BulkError` of the broker, and :class:`UnavailableError` when it cannot be reached in time.
        """
        return self._repeat(lambda: self._act(request))

    def get(self, ticket: protocol.Ticket) -> Iterator[pa.RecordBatch]:
        """Stream the batches of a ticket. An interrupted stream continues after the received rows.

        That is after their number, or after the place that the broker sent with the last batch. A
        :class:`~annulet.bulk.protocol.protocol.SequenceTicket` has to ask for the column ``position`` for that.
        """
        deadline = None
        attempt = 0
        while True:
            try:
                reader = self._open_stream(ticket)
                for batch, place in self._chunks(reader):
                    ticket = _behind(ticket, batch, place)
                    deadline, attempt = None, 0
                    yield batch
            except (UnavailableError, TokenExpiredError) as error:
                deadline = self._clock() + self.retry_seconds if deadline is None else deadline
                self._pause(error, attempt, deadline)
                attempt += 1
            else:
                return

    def put(self, request: protocol.PutStage, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> dict[str, int]:
        """Send a stage. When this returns it is on the broker's disk. Returns rows and bytes.

        Raises what :meth:`act` raises, and :class:`StageInterruptedError` for a large stage that was interrupted.
        """
        self._repeat(self._log_in_if_needed)
        kept: list[pa.RecordBatch] = []
        source = (part for batch in batches for part in split(batch))
        size = 0
        repeatable = True
        deadline = None  # from the first failure since the source last returned rows, since computing them takes time
        attempt = 0
        while True:

            def everything() -> Iterator[pa.RecordBatch]:
                nonlocal size, repeatable, deadline, attempt
                yield from list(kept)
                for batch in source:
                    deadline, attempt = None, 0
                    size += batch.nbytes
                    repeatable = repeatable and size <= REPEATABLE_PUT_BYTES_MAX
                    if repeatable:
                        kept.append(batch)
                    else:
                        kept.clear()
                    yield batch

            try:
                return self._put(request, schema, everything())
            except (UnavailableError, TokenExpiredError) as error:
                if not repeatable:
                    raise StageInterruptedError(
                        f"{error}. The stage is larger than {REPEATABLE_PUT_BYTES_MAX // 2**20} MiB, so its "
                        "source has to be computed again: repeat the write, or give it more partitions"
                    ) from error
                deadline = self._clock() + self.retry_seconds if deadline is None else deadline
                self._pause(error, attempt, deadline)
                attempt += 1
                self._repeat(self._log_in_if_needed)

    def close(self) -> None:
        """Close the connection. It is opened again when it is needed."""
        with self._lock:
            client, self._client = self._client, None
            self._token = ""
        if client is not None:
            client.close()

    # ------------------------------------------------------------------ one attempt

    def _act(self, request: protocol.Request) -> dict[str, Any]:
        self._log_in_if_needed()
        return self._result(request, self._options())

    def _result(self, request: protocol.Request, options: Any) -> dict[str, Any]:
        action = flight.Action(protocol.tag_of(request), msgspec.json.encode(request))
        results = self._call(lambda: list(self._client_now().do_action(action, options)))
        answer: dict[str, Any] = msgspec.json.decode(results[0].body.to_pybytes())
        return answer

    def _put(self, request: protocol.PutStage, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> dict[str, int]:
        descriptor = flight.FlightDescriptor.for_command(msgspec.json.encode(request))
        options = self._options(PUT_SECONDS_MAX)
        writer, answers = self._call(lambda: self._client_now().do_put(descriptor, schema, options))
        try:
            for batch in batches:
                self._call(lambda batch=batch: writer.write_batch(batch))  # type: ignore[misc]
            self._call(lambda: writer.write_metadata(pa.py_buffer(protocol.END_OF_STAGE)))
            self._call(writer.done_writing)
            answer = self._call(answers.read)
            if answer is None:
                self._call(writer.close)  # raises the broker's error
                raise UnavailableError(f"{self.url}: the broker did not confirm the stage")
        except BulkError:
            self._abandon(writer)
            raise
        self._call(writer.close)
        counts: dict[str, int] = msgspec.json.decode(answer.to_pybytes())
        return counts

    @staticmethod
    def _abandon(writer: Any) -> None:
        try:
            writer.close()
        except pa.ArrowException:  # it repeats an error that was raised already
            return

    def _chunks(self, reader: Any) -> Iterator[tuple[pa.RecordBatch, int | None]]:
        while True:
            try:
                chunk = reader.read_chunk()
            except StopIteration:
                return
            except (pa.ArrowException, OSError) as error:
                raise self._translate(error) from error
            if chunk.data is not None:
                place = chunk.app_metadata
                yield chunk.data, None if place is None else int(place.to_pybytes())

    def _open_stream(self, ticket: protocol.Ticket) -> Any:
        self._log_in_if_needed()
        encoded = flight.Ticket(msgspec.json.encode(ticket))
        return self._call(lambda: self._client_now().do_get(encoded, self._options()))

    def _log_in_if_needed(self) -> None:
        if self._token:
            return
        credentials = base64.b64encode(f"{self.url.user}:{self.url.password}".encode())
        options = flight.FlightCallOptions(
            timeout=CALL_SECONDS_MAX, headers=[(b"authorization", b"Basic " + credentials)]
        )
        self._token = self._result(protocol.Login(virtual_host=self.url.virtual_host), options)["token"]

    def _options(self, seconds: float = CALL_SECONDS_MAX) -> Any:
        return flight.FlightCallOptions(
            timeout=seconds, headers=[(b"authorization", b"Bearer " + self._token.encode())]
        )

    def _client_now(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = flight.connect(self.url.location, **tls_options(self.url))
            return self._client

    # ------------------------------------------------------------------ errors and repetition

    def _call(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except (pa.ArrowException, OSError) as error:
            raise self._translate(error) from error

    def _translate(self, error: Exception) -> BulkError:
        """Return the broker's own error, or the error for a broken connection."""
        told = decode_error(getattr(error, "extra_info", None))
        if isinstance(told, TokenExpiredError):
            self._token = ""
        if told is not None:
            return told
        if isinstance(error, flight.FlightUnauthenticatedError):
            return AuthenticationError(f"{self.url}: {error}")
        if isinstance(error, (flight.FlightError, OSError)):
            return UnavailableError(f"{self.url}: {_first_line(error)}")
        return BulkError(f"{self.url}: {_first_line(error)}")

    def _repeat(self, work: Callable[[], T]) -> T:
        deadline = self._clock() + self.retry_seconds
        attempt = 0
        while True:
            try:
                return work()
            except (UnavailableError, TokenExpiredError) as error:
                self._pause(error, attempt, deadline)
                attempt += 1

    def _pause(self, error: BulkError, attempt: int, deadline: float) -> None:
        """Wait before the next attempt, or give up."""
        if isinstance(error, TokenExpiredError) and attempt == 0:
            return  # the next attempt logs in
        pause = min(BACKOFF_MAX_SECONDS, BACKOFF_FIRST_SECONDS * 2**attempt)
        if self._clock() + pause > deadline:
            raise UnavailableError(
                f"no answer from the broker at {self.url} within {self.retry_seconds:g} seconds: {error}. "
                "Is it running with a bulk listener there (annulet serve --bulk HOST:PORT)?"
            ) from error
        self.close()
        self._sleep(pause)


def split(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a batch in parts of at most :data:`MESSAGE_BYTES_MAX`, or of one row."""
    if batch.nbytes <= MESSAGE_BYTES_MAX or batch.num_rows <= 1:
        yield batch
        return
    half = batch.num_rows // 2
    yield from split(batch.slice(0, half))
    yield from split(batch.slice(half))


def _behind(ticket: protocol.Ticket, batch: pa.RecordBatch, place: int | None) -> protocol.Ticket:
    """Return the ticket for the data after a received batch."""
    if isinstance(ticket, protocol.SequenceTicket):
        received = batch.column("position")[-1].as_py() if batch.num_rows else ticket.received
        return msgspec.structs.replace(ticket, received=received)
    if place is None:
        return msgspec.structs.replace(ticket, skip=ticket.skip + batch.num_rows)
    return msgspec.structs.replace(ticket, after=place, skip=0)


def tls_options(url: BulkUrl) -> dict[str, Any]:
    """Return the TLS options of a Flight client: the authorities of :data:`AUTHORITIES_VARIABLE`, or the system's."""
    if not url.tls:
        return {}
    place: str | None = os.environ.get(AUTHORITIES_VARIABLE) or ssl.get_default_verify_paths().cafile
    if not place:
        return {}  # gRPC's own
    try:
        return {"tls_root_certs": Path(place).read_bytes()}
    except OSError as error:
        raise BulkError(
            f"{url}: the certificates of authorities in {place} cannot be read: {error.strerror}; "
            f"set {AUTHORITIES_VARIABLE} to a PEM file"
        ) from error


_clients: dict[tuple[int, BulkUrl, float], BulkClient] = {}
_clients_lock = threading.Lock()

CLIENTS_MAX: Final = 64
"""Connections a process keeps; a worker of Spark talks to one broker or two."""


def connect(url: BulkUrl, *, retry_seconds: float = RETRY_SECONDS) -> BulkClient:
    """Return this process's client for an address; created on first request. Connects when first used."""
    key = (os.getpid(), url, retry_seconds)
    with _clients_lock:
        client = _clients.get(key)
        if client is None:
            if len(_clients) >= CLIENTS_MAX:
                _clients.clear()
            client = _clients[key] = BulkClient(url, retry_seconds=retry_seconds)
        return client


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
