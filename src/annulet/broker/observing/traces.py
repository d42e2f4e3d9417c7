"""Protocol traces of single connections, switched at run time: bounded in bytes and time, without bodies and secrets.

Engines call a trace with each frame as a line. They show secrets of logins as their length only; a trace hides the
octets of bodies too, unless they were asked for, and values of headers that are named like secrets in any case.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from annulet.core.base.errors import InvalidArgument, NotFound, PreconditionFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.broker.settings.clock import Clock

TRACES_MAX: Final = 10
"""Traces at a time: an operator looks at one or two connections, and all together have 40 MiB at most."""

TRACE_SECONDS: Final = 60
"""How long a trace goes on unless the operator says otherwise: a few heartbeats, and the fault that is looked for."""

TRACE_SECONDS_MAX: Final = 3600
"""How long one may go on: a forgotten trace makes each frame of its connection cost 20 µs more."""

TRACE_BYTES: Final = 1024 * 1024
"""Bytes of lines that a trace keeps unless the operator says otherwise, the newest: some 8,000 frames."""

TRACE_BYTES_MAX: Final = 4 * TRACE_BYTES

LINE_BYTES: Final = 64
"""Bytes that a line counts beside its text."""

KEPT_SECONDS: Final = 300
"""How long a trace that has ended can be read."""

LINE_CHARACTERS_MAX: Final = 4000
"""Characters of a line; a frame may describe itself with a hundred thousand, which take 50 ms to search."""

_WORD: Final = re.compile(r"(?i)passw|passcode|secret|token|authoriz|credential|api[-_]?key")
_REST_OF_NAME: Final = re.compile(r"[^'\"=:,\s]*")
_SEPARATOR: Final = re.compile(r"['\"]?[=:] ?")
_QUOTED: Final = re.compile(r"""(?s)b?(?:'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?)""")
_PART_OF_VALUE: Final = re.compile(
    r"""(?s)(?P<text>'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?|[^'"\[\](){},\n]+)|(?P<open>[\[({])|(?P<end>[\])},\n])"""
)
_BODIES: Final = (
    re.compile(r"(^.. #\d+ body of \d+ octets) .*$", re.DOTALL),  # AMQP 0-x
    re.compile(r"( \+ \d+ octets) .*$", re.DOTALL),  # AMQP 1.0
    re.compile(r"( body=\d+ octets) .*$", re.DOTALL),  # STOMP
)


class TraceableConnection(Protocol):
    """The connections whose frames can be traced."""

    @property
    def name(self) -> str:
        """Peer address -> our address."""

    @property
    def user_name(self) -> str:
        """The user that logged in."""

    @property
    def lost(self) -> bool:
        """The socket is gone."""

    def trace_frames(self, trace: Callable[[str], None] | None) -> None:
        """Call ``trace`` with each frame as a line from now on; ``None``: as the configuration says."""


def without_secrets(line: str) -> str:
    """Return the line of a frame without the values of headers and properties that are named like secrets.

    It takes a time in proportion to the line, whose text a client chooses.
    """
    parts: list[str] = []
    done = at = 0
    while found := _WORD.search(line, at):
        at = _behind(_REST_OF_NAME, line, found.end())
        begin = _behind(_SEPARATOR, line, at)
        end = _end_of_value(line, begin) if begin > at else begin
        if end > begin:
            parts += (line[done:begin], "***")
            done = end
        at = end
    return "".join((*parts, line[done:]))


def _behind(pattern: re.Pattern[str], line: str, at: int) -> int:
    found = pattern.match(line, at)
    return at if found is None else found.end()


def _end_of_value(line: str, at: int) -> int:
    """Return the end of a value: a quoted text, a whole list or table, or the text before a comma."""
    quoted = _QUOTED.match(line, at)
    if quoted is not None:
        return quoted.end()
    depth = 0
    while found := _PART_OF_VALUE.match(line, at):
        if found["open"]:
            depth += 1
        elif found["end"] and not depth:
            break
        elif found["end"] and found["end"] in "])}":
            depth -= 1
        at = found.end()
    return at


def without_body(line: str) -> str:
    """Return the line of a frame without the octets of a body."""
    for pattern in _BODIES:
        line = pattern.sub(r"\1", line)
    return line


class TraceLine(NamedTuple):
    """A frame: its number in the trace, when, and what it says."""

    number: int
    at: int  # milliseconds since 1970
    text: str


class Trace:
    """The frames of one connection since an operator asked for them, the newest. Belongs to the event loop."""

    def __init__(
        self, connection: TraceableConnection, clock: Clock, *, by: str, seconds: int, bytes_max: int, bodies: bool
    ) -> None:
        self.name, self.user, self.by = connection.name, connection.user_name, by
        self.bodies = bodies
        self.bytes_max = bytes_max
        self.began_at = clock()
        self.until = self.began_at + seconds * 1000
        self.ended = False
        self.frames = 0
        self.dropped = 0  # frames whose line fell out of the bound
        self.bytes = 0
        self._connection: TraceableConnection | None = connection
        self._clock = clock
        self._lines: deque[TraceLine] = deque()
        self.timer: asyncio.TimerHandle | None = None

    def note(self, line: str) -> None:
        """Keep the line of a frame."""
        line = line[:LINE_CHARACTERS_MAX]
        text = without_secrets(line if self.bodies else without_body(line))
        self.frames += 1
        self._lines.append(TraceLine(self.frames, self._clock(), text))
        self.bytes += len(text) + LINE_BYTES
        while self.bytes > self.bytes_max:
            self.bytes -= len(self._lines.popleft().text) + LINE_BYTES
            self.dropped += 1

    def lines(self, after: int, most: int) -> list[TraceLine]:
        """Return the kept lines with numbers above ``after``, ``most`` at most."""
        first = max(0, after - self.dropped)
        return list(islice(self._lines, first, first + most))

    @property
    def running(self) -> bool:
        """Frames are still traced."""
        return self._connection is not None and not self._connection.lost

    def end(self) -> None:
        """Trace no more frames; the lines stay."""
        connection, self._connection = self._connection, None
        if connection is not None and not connection.lost:
            connection.trace_frames(None)


class Traces:
    """The traces of one broker by connection. Belongs to the event loop."""

    def __init__(self, clock: Clock) -> None:
        self.started = 0
        self._clock = clock
        self._traces: dict[str, Trace] = {}

    def start(
        self,
        connection: TraceableConnection,
        *,
        by: str,
        seconds: int = TRACE_SECONDS,
        bytes_max: int = TRACE_BYTES,
        bodies: bool = False,
    ) -> Trace:
        """Trace a connection from now on; an earlier trace of it is replaced. ``by``: who asked.

        Raises :class:`InvalidArgument` for bounds out of range, :class:`PreconditionFailed` beside
        :data:`TRACES_MAX` others.
        """
        for field, value, most in (("seconds", seconds, TRACE_SECONDS_MAX), ("bytes", bytes_max, TRACE_BYTES_MAX)):
            if not 1 <= value <= most:
                raise InvalidArgument(f"field '{field}' is {value}; give 1 to {most}")
        if len(self._traces) >= TRACES_MAX and connection.name not in self._traces:
            raise PreconditionFailed(f"there are {TRACES_MAX} traces, which is the limit; delete one of them")
        self.forget(connection.name)
        trace = Trace(connection, self._clock, by=by, seconds=seconds, bytes_max=bytes_max, bodies=bodies)
        connection.trace_frames(trace.note)
        self._traces[trace.name] = trace
        self.started += 1
        loop = asyncio.get_running_loop()
        trace.timer = loop.call_later(seconds, self._ended, trace)
        return trace

    def _ended(self, trace: Trace) -> None:
        trace.end()
        trace.timer = asyncio.get_running_loop().call_later(KEPT_SECONDS, self.forget, trace.name)

    def get(self, name: str) -> Trace:
        """Return the trace of a connection. Raises :class:`NotFound`."""
        trace = self._traces.get(name)
        if trace is None:
            raise NotFound(f"no trace of connection '{name}'; PUT one first, of a name in GET /api/connections")
        return trace

    def all(self) -> list[Trace]:
        """Return all traces, the oldest first."""
        return list(self._traces.values())

    def forget(self, name: str) -> None:
        """End a trace and drop its lines; one that is not there is fine."""
        trace = self._traces.pop(name, None)
        if trace is not None:
            trace.end()
            if trace.timer is not None:
                trace.timer.cancel()

    def stop(self) -> None:
        """End all: the broker stops."""
        for name in list(self._traces):
            self.forget(name)
