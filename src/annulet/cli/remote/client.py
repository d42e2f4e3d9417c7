"""A client of the broker's HTTP interface, on the standard library: a start of the command loads nothing else."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from annulet.cli.remote.failures import (
    EXIT_NOT_ALLOWED,
    EXIT_NOT_FOUND,
    EXIT_REFUSED_BY_BROKER,
    EXIT_UNREACHABLE,
    Failure,
    usage,
)
from annulet.cli.remote.target import Target

TIMEOUT_SECONDS: Final = 60.0
"""How long an answer may take: the deletion of a large virtual host is waited for 10 s by the broker."""

ANSWER_BYTES_MAX: Final = 256 * 1024 * 1024
"""Of one answer: an export of definitions of 100,000 queues has 40 MB. A wrong address may send without end."""

PAGE_SIZE: Final = 500
"""Items of one request for a listing: the most that the broker gives."""

LINE_BYTES_MAX: Final = 1024 * 1024
"""Of one line of server-sent events: an event has some dozen values of 256 characters at most."""

SESSION_ENDED: Final = "the session has ended"
"""The reason for which the broker ends events when the login has lost its rights."""

CODES: Final = {401: EXIT_NOT_ALLOWED, 403: EXIT_NOT_ALLOWED, 404: EXIT_NOT_FOUND}
"""Exit codes by status; the others are :data:`EXIT_REFUSED_BY_BROKER`."""

ERRORS: Final = 400


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: its status and the JSON of its body, ``None`` without a body."""

    status: int
    content: Any


class BrokerClient:
    """Requests to one broker, in one connection that is opened when it is needed.

    Each request raises :class:`~annulet.cli.remote.failures.Failure` with the broker's reason.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self._connection: http.client.HTTPConnection | None = None
        login = base64.b64encode(f"{target.user}:{target.password}".encode()).decode("ascii")
        self._headers = {"Authorization": f"Basic {login}", "Accept": "application/json"}

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def get(self, *path: str, query: Mapping[str, str] | None = None) -> Any:
        """Return the JSON of a path of segments."""
        return self.ask("GET", path, query=query).content

    def ask(
        self,
        method: str,
        path: tuple[str, ...],
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request and return the answer.

        ``path``: segments, which are encoded here; ``body``: octets of XML, or values for JSON.
        """
        address = _address(path, query)
        octets = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = dict(self._headers) | dict(headers or {})
        if octets is not None:
            sent["Content-Type"] = "application/xml" if octets is body else "application/json"
        try:
            status, content = self._exchange(method, address, octets, sent)
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error
        if status >= ERRORS:
            raise self._refusal(status, content)
        return Answer(status, self._decoded(content) if content else None)

    def pages(self, *path: str, query: Mapping[str, str] | None = None, most: int | None = None) -> Iterator[Any]:
        """Yield the items of a listing, page after page; at most ``most`` of them."""
        page = 1
        left = most
        while left is None or left > 0:
            size = PAGE_SIZE  # stays the same from page to page, or items would be left out
            given = dict(query or {}) | {"page": str(page), "page_size": str(size)}
            envelope = self.get(*path, query=given)
            items = envelope["items"] if left is None else envelope["items"][:left]
            yield from items
            if left is not None:
                left -= len(items)
            if page >= envelope["page_count"] or not items:
                return
            page += 1

    def events(self, *path: str, query: Mapping[str, str] | None = None) -> Iterator[Any]:
        """Yield the JSON of the server-sent events of a path, until the broker ends them: that is a failure."""
        self.close()
        try:
            self._connection = self._connect()
            headers = {**self._headers, "Accept": "text/event-stream"}
            self._connection.request("GET", _address(path, query), None, headers)
            response = self._connection.getresponse()
            if response.status >= ERRORS:
                raise self._refusal(response.status, response.read(ANSWER_BYTES_MAX))
            kind = ""
            while line := response.readline(LINE_BYTES_MAX):
                name, _, value = line.rstrip(b"\r\n").partition(b": ")
                if name == b"event":
                    kind = value.decode("utf-8", "replace")
                elif name == b"data" and kind == "end":
                    raise self._ended(self._decoded(value))
                elif name == b"data":
                    yield self._decoded(value)
                elif not line.strip():
                    kind = ""
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error
        finally:
            self.close()
        raise Failure(EXIT_UNREACHABLE, f"the connection to {self.target.url} was lost")

    def _ended(self, content: Any) -> Failure:
        """Return the failure of events that the broker ends: with a login, or with itself."""
        reason = content.get("reason", "") if isinstance(content, dict) else ""
        code = EXIT_NOT_ALLOWED if reason == SESSION_ENDED else EXIT_UNREACHABLE
        return Failure(code, f"{self.target.url} ended the events: {reason}")

    def _unreachable(self, error: BaseException) -> Failure:
        self.close()
        return Failure(
            EXIT_UNREACHABLE,
            f"no answer from {self.target.url}: {_reason_of(error)}; is the broker running there? "
            "--url or --context choose another one",
        )

    def _exchange(self, method: str, address: str, body: bytes | None, headers: Mapping[str, str]) -> tuple[int, bytes]:
        reused = self._connection is not None
        try:
            return self._once(method, address, body, headers)
        except (ConnectionError, http.client.RemoteDisconnected):
            self.close()
            if not reused or method != "GET":
                raise
        return self._once(method, address, body, headers)  # the broker closed the idle connection

    def _once(self, method: str, address: str, body: bytes | None, headers: Mapping[str, str]) -> tuple[int, bytes]:
        if self._connection is None:
            self._connection = self._connect()
        self._connection.request(method, address, body, dict(headers))
        response = self._connection.getresponse()
        octets = response.read(ANSWER_BYTES_MAX + 1)
        if len(octets) > ANSWER_BYTES_MAX:
            raise Failure(EXIT_UNREACHABLE, f"{self.target.url} sent more than {ANSWER_BYTES_MAX} bytes")
        return response.status, octets

    def _connect(self) -> http.client.HTTPConnection:
        target = self.target
        if target.scheme == "http":
            return http.client.HTTPConnection(target.host, target.port, timeout=TIMEOUT_SECONDS)
        try:
            trusted = ssl.create_default_context(cafile=target.ca_file or None)
        except (OSError, ssl.SSLError) as error:
            raise usage(f"ca file {target.ca_file!r} cannot be read: {error}") from error
        return http.client.HTTPSConnection(target.host, target.port, timeout=TIMEOUT_SECONDS, context=trusted)

    def _decoded(self, content: bytes) -> Any:
        try:
            return json.loads(content)
        except ValueError as error:
            raise Failure(
                EXIT_UNREACHABLE, f"{self.target.url} answers without JSON; is it a broker's HTTP interface?"
            ) from error

    def _refusal(self, status: int, content: bytes) -> Failure:
        try:
            members = json.loads(content)
            reason = str(members["reason"])
        except (ValueError, KeyError, TypeError):
            reason = f"status {status} without a reason; is {self.target.url} a broker's HTTP interface?"
        if status == http.client.UNAUTHORIZED:
            reason += f" (user {self.target.user!r} at {self.target.url})"
        return Failure(CODES.get(status, EXIT_REFUSED_BY_BROKER), reason)


def _address(path: tuple[str, ...], query: Mapping[str, str] | None) -> str:
    """Return the address of a path of segments."""
    if "" in path:
        raise usage("a name is empty; give one (the default exchange is amq.default)")
    address = "/" + "/".join(quote(segment, safe="") for segment in path)
    return f"{address}?{urlencode(query, quote_via=quote)}" if query else address


def _reason_of(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return f"nothing within {TIMEOUT_SECONDS:.0f} s"
    return str(error) or type(error).__name__
