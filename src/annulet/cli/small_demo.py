"""``annulet demo --small``: a broker in this process, clients of STOMP and HTTP, three days of departures; no Spark.

It needs no package beyond those of ``pip install annulet``; plots are drawn when matplotlib is there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from annulet import testing
from annulet.cli.remote.options import API, OWN_API, Remote
from annulet.cli.remote.stomp_client import StompClient
from annulet.cli.remote.target import Wanted
from annulet.demo import sample
from annulet.demo.flights import priority_of
from annulet.demo.outcome import Outcome, Phases
from annulet.demo.reconciliation import REPLACED_KEY, REPLACED_RING, Check, account_of, books_of, list_check
from annulet.demo.topology import AIRCRAFT, BOARD_ROWS, EXCHANGE, LATE, ORIGINS, TAIL_NUMBER, board
from annulet.demo.workspace import PLOTS

if TYPE_CHECKING:
    from annulet.demo.reconciliation import QueueAccount
    from annulet.demo.sample import Flight
    from annulet.wire.stomp.frames import Frame

LOSSES_SHOWN: Final = 5
SILENCE_SECONDS: Final = 60.0
"""Longest wait for a frame; the broker of the same process answers within milliseconds."""


def run(limit: int | None) -> Outcome:
    """Run everything. On return or error nothing is left running, and nothing but the plots is left on disk."""
    phases = Phases()
    flights = sample.load(limit)
    with phases.measure("total"):
        with phases.measure("start the broker"):
            started = testing.broker(http=True, stomp=True, journal=False)
            broker = started.__enter__()
        try:
            remote = Remote(Wanted(url=broker.http_url), {}, as_json=False, yes=True)
            outcome = _through(remote, flights, phases)
            remote.close()
        finally:
            started.__exit__(None, None, None)
        outcome.pictures = _draw(outcome)
    return outcome


def _through(remote: Remote, flights: Sequence[Flight], phases: Phases) -> Outcome:
    """Send the departures through the broker, and compare its figures with the file."""
    with phases.measure("declare"):
        declare(remote)
    with phases.measure("publish"), StompClient(remote) as publisher:
        publisher.set_wait(SILENCE_SECONDS)
        for flight in flights:
            _publish(publisher, flight)
        publisher.finish()  # the receipt comes when the broker has done everything before it
    with phases.measure("consume in order"):
        late = take(remote, LATE, len(sample.late_rows(flights)))
    with phases.measure("browse and reconcile"):
        boards = {origin: browse(remote, board(origin)) for origin in ORIGINS}
        aircraft = browse(remote, AIRCRAFT)
        accounts = _accounts(remote)
        losses = remote.client.get(*OWN_API, "losses", query={"page_size": str(LOSSES_SHOWN)})
        checks = [
            *_books(flights, accounts),
            *_contents(flights, boards, aircraft, late),
            Check(
                "loss ledger: losses recorded",
                sum(sum(account.dropped.values()) for account in accounts),
                losses["total_count"] + losses["forgotten"],
            ),
        ]
    return Outcome(accounts, checks, boards, [], phases.seconds, losses=losses["items"])


def declare(remote: Remote) -> None:
    """Declare exchange, queues and bindings over HTTP."""
    remote.client.ask("PUT", (*API, "exchanges", remote.vhost, EXCHANGE), {"type": "topic"})
    for queue in sample.queue_declarations():
        remote.client.ask("PUT", (*API, "queues", remote.vhost, queue.name), {"arguments": queue.arguments})
        path = (*API, "bindings", remote.vhost, "e", EXCHANGE, "q", queue.name)
        remote.client.ask("POST", path, {"routing_key": queue.binding_key})


def _publish(publisher: StompClient, flight: Flight) -> None:
    headers = {"priority": str(priority_of(flight["dep_delay"])), "persistent": "true"}
    if flight["tailnum"] is not None:
        headers[TAIL_NUMBER] = flight["tailnum"]
    publisher.send(f"/exchange/{EXCHANGE}/{flight['origin']}", json.dumps(flight).encode(), headers)


def browse(remote: Remote, queue: str) -> list[Flight]:
    """Return the departures in a queue, in its order; nothing is taken."""
    found: list[Flight] = []
    with StompClient(remote) as client:
        client.set_wait(SILENCE_SECONDS)
        client.subscribe(f"/amq/queue/{queue}", ack="auto", headers={"browser": "true"})
        while "browser" not in (frame := client.next_frame()).headers:
            found.append(_flight(frame))
        client.finish()
    return found


def take(remote: Remote, queue: str, count: int) -> list[int]:
    """Consume and acknowledge so many departures, and return their rows in the order of delivery."""
    rows: list[int] = []
    with StompClient(remote) as client:
        client.set_wait(SILENCE_SECONDS)
        client.subscribe(f"/amq/queue/{queue}", ack="client-individual")
        while len(rows) < count:
            frame = client.next_frame()
            rows.append(_flight(frame)["row"])
            client.acknowledge(frame)
        client.finish()
    return rows


def _flight(frame: Frame) -> Flight:
    flight: Flight = json.loads(frame.body)
    return flight


def _accounts(remote: Remote) -> list[QueueAccount]:
    found = {queue["name"]: queue for queue in remote.client.pages(*OWN_API, "queues")}
    accounts = []
    for queue in sample.queue_declarations():
        losses = remote.client.get(*OWN_API, "losses", query={"queue": queue.name, "page_size": "1"})
        accounts.append(account_of(found[queue.name], queue.kind, losses["filtered_count"]))
    return accounts


def _books(flights: Sequence[Flight], accounts: Sequence[QueueAccount]) -> list[Check]:
    """Compare the counters of each queue with the file."""
    late, aircraft = len(sample.late_rows(flights)), len(sample.aircraft_rows(flights))
    wanted = {
        AIRCRAFT: (len(flights), aircraft, 0, {REPLACED_KEY: len(flights) - aircraft}),
        LATE: (late, 0, late, {}),
    }
    for origin in ORIGINS:
        count = sum(flight["origin"] == origin for flight in flights)
        kept = min(count, BOARD_ROWS)
        wanted[board(origin)] = (count, kept, 0, {REPLACED_RING: count - kept})
    return [check for account in accounts for check in books_of(account, *wanted[account.name])]


def _contents(
    flights: Sequence[Flight], boards: dict[str, list[Flight]], aircraft: list[Flight], late: list[int]
) -> list[Check]:
    """Compare the contents of the queues, message by message."""
    checks = []
    for origin, found in boards.items():
        rows = sample.board_rows(flights, origin)
        subject = f"{board(origin)}: exactly the last {len(rows)} departures, in order"
        checks.append(list_check(subject, rows, _rows(found)))
    of_aircraft = list_check(
        f"{AIRCRAFT}: the last departure of each aircraft", sample.aircraft_rows(flights), sorted(_rows(aircraft))
    )
    in_order = list_check(f"{LATE}: the longest delayed first, in order", sample.late_rows(flights), late)
    return [*checks, of_aircraft, in_order]


def _rows(flights: Sequence[Any]) -> list[int]:
    return [flight["row"] for flight in flights]


def _draw(outcome: Outcome) -> list[Path]:
    """Draw the boards and the fate of the messages into the current folder, if matplotlib is installed."""
    if find_spec("matplotlib") is None:
        return []
    from annulet.demo.plots import save_small  # noqa: PLC0415 - only with matplotlib

    PLOTS.mkdir(exist_ok=True)
    return save_small(PLOTS, outcome.boards, outcome.accounts)
