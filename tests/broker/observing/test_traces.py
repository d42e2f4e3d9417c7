from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from annulet.broker.observing import traces
from annulet.broker.observing.traces import LINE_BYTES, TRACES_MAX, Traces, without_body, without_secrets
from annulet.core.base.errors import InvalidArgument, NotFound, PreconditionFailed
from annulet.testing import VirtualClock


class Connection:
    """One whose frames are traced."""

    def __init__(self, name: str = "a -> b") -> None:
        self.name, self.user_name, self.lost = name, "ann", False
        self.trace: Callable[[str], None] | None = None

    def trace_frames(self, trace: Callable[[str], None] | None) -> None:
        self.trace = trace


async def test_frames_are_kept_with_number_and_time_until_the_trace_ends() -> None:
    clock, connection = VirtualClock(), Connection()
    kept = Traces(clock)
    trace = kept.start(connection, by="guest", seconds=60)
    assert connection.trace is not None
    connection.trace("<- #1 basic.qos()")
    connection.trace("-> #1 basic.qos-ok()")
    assert [(line.number, line.text) for line in trace.lines(1, 10)] == [(2, "-> #1 basic.qos-ok()")]
    assert [line.number for line in trace.lines(0, 1)] == [1]
    assert (trace.frames, trace.running, trace.until - trace.began_at) == (2, True, 60_000)
    trace.end()
    assert (connection.trace, trace.running, len(trace.lines(0, 10))) == (None, False, 2)
    kept.forget(connection.name)
    with pytest.raises(NotFound, match="no trace of connection 'a -> b'"):
        kept.get(connection.name)


async def test_it_ends_by_itself_and_is_forgotten_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "KEPT_SECONDS", 0)
    called: list[float] = []
    loop = asyncio.get_running_loop()
    call_later = loop.call_later

    def soon(seconds: float, call: Callable[..., object], *arguments: object) -> asyncio.TimerHandle:
        called.append(seconds)
        return call_later(0, call, *arguments)

    monkeypatch.setattr(loop, "call_later", soon)
    kept, connection = Traces(VirtualClock()), Connection()
    kept.start(connection, by="guest", seconds=30)
    for _ in range(4):  # both timers are due at once
        await asyncio.sleep(0)
    assert kept.all() == []
    assert (called, connection.trace) == ([30, 0], None)


async def test_bytes_are_bounded_and_the_newest_stay() -> None:
    connection = Connection()
    trace = Traces(VirtualClock()).start(connection, by="guest", bytes_max=3 * (LINE_BYTES + 1))
    for text in "abcde":
        trace.note(text)
    assert "".join(line.text for line in trace.lines(0, 10)) == "cde"
    assert (trace.frames, trace.dropped, trace.bytes) == (5, 2, 3 * (LINE_BYTES + 1))
    assert [line.number for line in trace.lines(3, 10)] == [4, 5]


async def test_numbers_of_traces_and_their_bounds_are_limited() -> None:
    kept = Traces(VirtualClock())
    for number in range(TRACES_MAX):
        kept.start(Connection(str(number)), by="guest")
    kept.start(Connection("0"), by="guest")  # in place of the other
    with pytest.raises(PreconditionFailed, match="10 traces"):
        kept.start(Connection("more"), by="guest")
    for field, value in (("seconds", 0), ("seconds", 3601), ("bytes_max", 0), ("bytes_max", (4 << 20) + 1)):
        with pytest.raises(InvalidArgument, match=f"field '{field.removesuffix('_max')}' is {value}; give 1 to"):
            kept.start(Connection("0"), by="guest", **{field: value})  # type: ignore[arg-type]
    kept.stop()
    assert kept.all() == []


async def test_a_lost_connection_is_let_go() -> None:
    kept, connection = Traces(VirtualClock()), Connection()
    trace = kept.start(connection, by="guest")
    connection.lost = True
    assert not trace.running
    trace.end()
    assert connection.trace is not None, "its engine is gone with it"
    kept.stop()


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("<- #1 body of 20 octets 73 65 63 72 65 74...", "<- #1 body of 20 octets"),
        ("<- #0 transfer(handle=0) + 40 octets 00 53 75 ...", "<- #0 transfer(handle=0) + 40 octets"),
        ("<- SEND destination='/queue/q' body=6 octets b'secret'", "<- SEND destination='/queue/q' body=6 octets"),
        ("<- #1 basic.publish(exchange='e')", "<- #1 basic.publish(exchange='e')"),
    ],
)
def test_bodies_are_hidden(line: str, shown: str) -> None:
    assert without_body(line) == shown


@pytest.mark.parametrize(
    "line",
    [
        "<- #1 content header(headers={'Authorization': 'Bearer VALUE', 'x': 1})",
        "<- #1 content header(headers={'db_password': b'VALUE', 'x': 1})",
        "<- SEND api-key='VALUE' x='1'",
        "<- SEND X-Access-Token=\"VALUE\" x='1'",
        "<- #0 connection.update-secret(new_secret=VALUE, reason='x')",
        "<- #0 transfer({'client_secret': 'VALUE",
    ],
)
def test_values_with_names_of_secrets_are_hidden(line: str) -> None:
    shown = without_secrets(line)
    assert "VALUE" not in shown
    assert "***" in shown
    assert ("x" in line.split("VALUE")[1]) == ("x" in shown.split("***")[1])


@pytest.mark.parametrize(
    "line",
    [
        "{'passwords': ['VALUE', 'VALUE'], 'x': 1}",
        "{'credentials': {'user': 'VALUE', 'key': [('VALUE',)]}, 'x': 1}",
        "{'token': 'a\\'b\"c VALUE', 'x': 1}",
        "{'token': made(2020, VALUE), 'x': 1}",
        "authorization: Bearer VALUE, x",
    ],
)
def test_all_of_a_value_is_hidden(line: str) -> None:
    shown = without_secrets(line)
    assert "VALUE" not in shown
    assert "x" in shown


async def test_a_very_long_line_is_cut_before_it_is_searched() -> None:
    trace = Traces(VirtualClock()).start(Connection(), by="guest")
    trace.note("secret" * 100_000)
    assert len(trace.lines(0, 1)[0].text) <= traces.LINE_CHARACTERS_MAX
