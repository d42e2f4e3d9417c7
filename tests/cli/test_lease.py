"""``annulet lease`` over a real connection to a broker."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from click.testing import CliRunner, Result

from annulet.bulk.protocol import protocol
from annulet.cli.lease import TITLES, duration, row_of
from annulet.cli.main import main
from tests.bulk.helpers import Bench, away, bench, bulk_client


@pytest.fixture(autouse=True)
def logs() -> Iterator[None]:
    """Keep what the broker logs, in this process, out of what the command prints."""
    with structlog.testing.capture_logs():
        yield


def invoke(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["lease", *arguments], env={"ANNULET_URL": url})


def take(here: Bench, queue: str, lease: str, count: int) -> None:
    """Take messages by a new lease, as a query does."""
    client = bulk_client(here)
    generation = client.act(protocol.OpenLease(queue=queue, lease=lease, owner="o", fresh=True))["generation"]
    client.act(protocol.ExtendLease(lease=lease, generation=generation, start=0, messages_max=count))
    client.close()


async def test_leases_are_listed_largest_first_and_released(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        for queue in ("orders", "returns"):
            here.declare(queue)
            await here.publish(queue, [b"0123456789"] * 5)

        def work() -> None:
            take(here, "orders", "small", 2)
            take(here, "returns", "large", 4)

            listed = invoke(here.url, "list")
            assert listed.exit_code == 0, listed.output
            titles, *lines = [line.split() for line in listed.stdout.splitlines()]
            assert titles == ["lease", "queue", "held", "bytes", "pending", "lag", "gap", "age", "idle", "generated"]
            assert [line[:5] for line in lines] == [
                ["large", "returns", "4", "40", "1"],
                ["small", "orders", "2", "20", "3"],
            ]
            assert [line[7] for line in lines] == ["0", "0"], "the gap, behind a lag and its unit"
            assert {line[-1] for line in lines} == {"no"}
            (only,) = json.loads(invoke(here.url, "list", "--json", "--queue", "orders").stdout)
            assert (only["name"], only["held"], only["generated"]) == ("small", 2, False)

            released = invoke(here.url, "release", "large", "small")
            assert released.exit_code == 0, released.output
            assert released.stdout == "released large: 4 messages returned\nreleased small: 2 messages returned\n"
            assert len(invoke(here.url, "list").stdout.splitlines()) == 1

        await away(work)
        assert [here.host.queues[queue].order.count for queue in ("orders", "returns")] == [5, 5]


async def test_what_cannot_be_done_is_one_line(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        here.declare("orders")

        def work() -> None:
            take(here, "orders", "there", 1)
            result = invoke(here.url, "release", "there", "nope", "later")
            assert result.exit_code == 1
            assert result.stdout == "released there: 0 messages returned\n"
            assert result.stderr.startswith("annulet lease: lease range gone: lease 'nope' does not exist")
            assert len(result.stderr.splitlines()) == 1

            result = invoke(here.url.replace("guest:guest", "guest:wrong"), "list")
            assert result.exit_code == 1
            assert result.stderr.startswith("annulet lease: login refused for user 'guest'")

        await away(work)


def test_a_broker_that_is_not_there_and_a_url_that_is_none_are_told() -> None:
    with socket.socket() as holder:  # bound and never listened to
        holder.bind(("127.0.0.1", 0))
        url = f"annulet://127.0.0.1:{holder.getsockname()[1]}"
        result = invoke(url, "list", "--retry-seconds", "0")
    assert result.exit_code == 1
    assert "no answer from the broker at" in result.stderr

    result = invoke("http://127.0.0.1", "list")
    assert result.exit_code == 1
    assert result.stderr.startswith("annulet lease: ")


def test_a_lag_is_a_time_or_not_known() -> None:
    status = {"name": "l", "queue": "q", "held": 1, "held_bytes": 2, "pending": 3, "gap": 0, "generated": False}
    status |= {"age_milliseconds": 1000, "idle_milliseconds": 0}
    place = TITLES.index("lag")
    assert row_of({**status, "lag_milliseconds": 7_200_000})[place] == "2 h"
    assert row_of({**status, "lag_milliseconds": None})[place] == "-", "the disk does not tell now"
    assert row_of(status)[place] == "-", "a broker of an earlier version"


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 s"), (59_999, "59 s"), (60_000, "1 min"), (3_599_999, "59 min"), (3_600_000, "1 h"),
        (86_399_999, "23 h"), (86_400_000, "1 d"), (864_000_000, "10 d"),
    ],
)  # fmt: skip
def test_a_time_has_its_largest_unit(milliseconds: int, text: str) -> None:
    assert duration(milliseconds) == text
