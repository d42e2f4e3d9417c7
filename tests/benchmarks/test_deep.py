"""The parts of the acceptance harness that decide: relations, verdicts, stalls, and the client's way with frames."""

from __future__ import annotations

import io
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from pamqp import commands, frame
from rich.console import Console

from benchmarks.deep import __main__ as program
from benchmarks.deep import report
from benchmarks.deep import run as run_module
from benchmarks.deep.client import BODY_BYTES, Client, ClientError, content_header, numbered
from benchmarks.deep.looking import MATCHES, sparse
from benchmarks.deep.outcome import Outcome, Relation, exactly, shown
from benchmarks.deep.run import Run, compared, memory_relation, stall_relations
from benchmarks.deep.sampling import HELD_PREFIX, STALL_PREFIX, Sample, Stalls


@pytest.mark.parametrize(
    ("relation", "holds"),
    [
        (Relation("x", 5), True),
        (Relation("x", 5, most=5), True),
        (Relation("x", 5.1, most=5), False),
        (Relation("x", 0.9, least=0.9), True),
        (Relation("x", 0.89, least=0.9), False),
        (exactly("x", 3, 3), True),
        (exactly("x", 4, 3), False),
        (exactly("x", 2, 3), False),
    ],
)
def test_a_relation_holds_up_to_its_bound(relation: Relation, holds: bool) -> None:
    assert relation.holds is holds


def test_verdicts() -> None:
    assert Outcome("A1", "t", [exactly("x", 1, 1)]).verdict == "pass"
    assert Outcome("A1", "t", [exactly("x", 1, 1), exactly("y", 0, 1)]).verdict == "MISS"
    assert Outcome("A1", "t", failure="refused").verdict == "MISS"
    assert Outcome("A1", "t", not_applicable="no such cache").verdict == "not applicable"
    assert Outcome("A1", "t", [Relation("rate", 1234567.8, "/s", least=2)]).text() == "rate 1,234,568 /s (at least 2)"
    assert [shown(value) for value in (3.0, 0.123456, 25.55)] == ["3", "0.123", "25.6"]


def test_stalls_between_two_looks() -> None:
    prefix = 'event_loop_stall_seconds_bucket{le="'
    before = Stalls.of({f'{prefix}0.001"}}': 10.0, f'{prefix}0.02"}}': 10.0, f'{prefix}+Inf"}}': 10.0, "other": 1.0})
    after = Stalls.of({f'{prefix}0.001"}}': 1009.0, f'{prefix}0.02"}}': 1009.0, f'{prefix}+Inf"}}': 1010.0,
                       "event_loop_stall_longest_seconds": 12.5})  # fmt: skip
    stalls = after.since(before)
    assert stalls.within(0.999) == 1
    assert stalls.within(1) == 12_500, "longer than the last bound: what the broker says was the longest"
    assert (stalls.over(0.02), before.over(0.02), Stalls().over(0.02)) == (1, 0, 0)
    held = Stalls.of({f'{HELD_PREFIX}0.001"}}': 7.0, f'{prefix}0.001"}}': 1.0}, HELD_PREFIX)
    assert held.counts == {0.001: 7}
    summed = Stalls()
    summed.add(stalls)
    summed.add(stalls)
    assert summed.counts == {0.001: 1998, 0.02: 1998, float("inf"): 2000}


def test_the_resident_set_is_held_against_budget_and_allowance() -> None:
    sampler = SimpleNamespace(highest_since=lambda since: (100 + 256 + 120) * (1 << 20))
    relation = memory_relation(sampler, 100 << 20, 256 << 20)  # type: ignore[arg-type]
    assert (relation.value, relation.most, relation.holds) == (376, 376, True)


@pytest.mark.parametrize(
    ("late", "missed", "single"), [(0, False, False), (1, True, True), (2, True, False), (100, True, False)]
)
def test_of_few_looks_a_single_late_one_is_told_as_such(late: int, missed: bool, single: bool) -> None:
    looks = {"0.02": 500.0 - late, "0.05": 500.0, "+Inf": 500.0}
    site = SimpleNamespace(metrics=lambda: {f'{STALL_PREFIX}{bound}"}}': looks[bound] for bound in looks})
    held, longest = stall_relations(site, Stalls({0.02: 0.0, 0.05: 0.0}))  # type: ignore[arg-type]
    assert (not held.holds, held.single, held.rare) == (missed, single, True)
    assert (longest.most, longest.single) == (None, False)


def test_rates_are_compared_round_by_round_and_the_medians_count() -> None:
    order: list[str] = []
    rates = {"here": iter([30.0, 90.0, 5.0]), "there": iter([10.0, 40.0, 100.0])}

    def load(name: str) -> float:
        order.append(name)
        return next(rates[name])

    assert compared(lambda: load("here"), lambda: load("there"), 3) == 0.75
    assert order == ["there", "here", "here", "there", "there", "here"], "in turns first"


def test_sparse_matches_are_a_hundred_at_any_depth() -> None:
    for count in (20_000, 123_457):
        header_of, chosen = sparse(count)
        found = [number for number in range(count) if b"match" in header_of(number)]
        assert found == chosen
        assert len(chosen) == MATCHES


@contextmanager
def connected() -> Iterator[tuple[Client, socket.socket]]:
    """A client behind its login, and the broker's end of its socket."""
    ours, theirs = socket.socketpair()
    client = Client.__new__(Client)
    client._socket, client._input = ours, bytearray()
    with ours, theirs:
        yield client, theirs


def deliver(number: int, *, redelivered: bool = False, size: int = BODY_BYTES) -> bytes:
    method = commands.Basic.Deliver("c", number + 1, redelivered, "", "q")
    return frame.marshal(method, 1) + content_header(size) + numbered(number, size)


def test_deliveries_come_whole_whatever_the_reads_cut() -> None:
    data = deliver(7) + deliver(8, redelivered=True, size=300_000) + frame.marshal(commands.Basic.Cancel("c"), 1)
    with connected() as (client, broker):
        sender = threading.Thread(
            target=lambda: [broker.sendall(data[start : start + 50_001]) for start in range(0, len(data), 50_001)]
        )
        sender.start()
        found = []
        for part in client.deliveries(10.0):
            found += part
            if not found[-1].body:
                break
        sender.join()
    assert [(item.tag, item.redelivered, len(item.body)) for item in found] == [
        (8, False, BODY_BYTES),
        (9, True, 300_000),
        (0, False, 0),
    ]
    assert [item.number for item in found[:2]] == [7, 8]


def test_a_refusal_is_an_error_with_the_brokers_words() -> None:
    with connected() as (client, broker):
        broker.sendall(frame.marshal(commands.Channel.Close(406, "too deep", 60, 20), 1))
        with pytest.raises(ClientError, match="too deep"):
            next(client.deliveries(1.0))


def test_a_client_leaves_in_order_whatever_is_on_its_way() -> None:
    with connected() as (client, broker):
        broker.sendall(deliver(7) + deliver(8) + frame.marshal(commands.Connection.CloseOk(), 0))
        client.acknowledge(6, multiple=True)
        client.leave()
        data = broker.recv(1000)
        assert broker.recv(1) == b"", "and only then its end"
    length, _, first = frame.unmarshal(data)
    _, channel, second = frame.unmarshal(data[length:])
    assert (first.name, second.name, channel) == ("Basic.Ack", "Connection.Close", 0)


def test_how_many_are_ready() -> None:
    with connected() as (client, broker):
        broker.sendall(frame.marshal(commands.Queue.DeclareOk("q", 12, 3), 1))
        assert client.ready("q") == 12
        _, _, asked = frame.unmarshal(broker.recv(1000))
    assert (asked.queue, asked.passive) == ("q", True)


def test_the_report_names_every_outcome(tmp_path: Path) -> None:
    run = Run(1000, 1 << 20, True, tmp_path, None, Console(file=io.StringIO()), began=time.monotonic())
    with run.check("A9", "restart") as outcome:
        outcome.relations.append(Relation("after", 4.0, "s", most=3))
    with run.check("A8", "browse"):
        raise ClientError("PRECONDITION_FAILED - 1476 | of its messages are on disk only")
    run.samples = [Sample(0.1 * number, "depth", 1 << 26, depth=number, whole=True) for number in range(3)]
    assert list(report.by_suite(run.samples)) == ["depth"]
    run.samples.clear()  # pictures take a second
    report.write(run, tmp_path / "report")
    text = (tmp_path / "report" / "report.md").read_text()
    assert "| A9 | restart | MISS | after 4 s (at most 3) |" in text
    assert "1476 \\| of its" in text
    document = json.loads((tmp_path / "report" / "report.json").read_text())
    assert [item["verdict"] for item in document["outcomes"]] == ["MISS", "MISS"]


def test_the_last_line_says_what_was_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is what the report of ``make soak`` says of this part."""

    def missing(run: Run) -> None:
        with run.check("A9", "restart") as outcome:
            outcome.relations.append(Relation("after", 4.0, "s", most=3))

    monkeypatch.setattr(program, "SUITES", {"restarts": missing})
    monkeypatch.setattr(run_module, "build_generator", lambda name, folder: folder / "load")
    monkeypatch.setattr(program.signal, "signal", lambda number, handler: None)
    result = CliRunner().invoke(program.main, ["--pure", "--report", str(tmp_path / "report")])
    assert result.exit_code == 0
    assert result.output.splitlines()[-1].endswith("1 missed: A9")


def test_confirms_among_deliveries_are_counted() -> None:
    acks = [frame.marshal(commands.Basic.Ack(1), 1), frame.marshal(commands.Basic.Ack(7, multiple=True), 1)]
    with connected() as (client, broker):
        client.confirmed = 0
        broker.sendall(acks[0] + deliver(7) + acks[1] + deliver(8))
        found: list[int] = []
        while len(found) < 2:
            found += [item.number for item in next(client.deliveries(10.0))]
        assert (found, client.confirmed) == ([7, 8], 7)
        broker.sendall(frame.marshal(commands.Basic.Nack(8), 1))
        with pytest.raises(ClientError, match="refused"):
            next(client.deliveries(10.0))
