from __future__ import annotations

import json
import time
from typing import Any

import pytest

from annulet.cli.remote.failures import EXIT_ABORTED, EXIT_USAGE

WORK = ("queue", "create", "work", "-a", "x-dead-letter-exchange=", "-a", "x-dead-letter-routing-key=dead")


@pytest.fixture
def dead(annulet: Any) -> Any:
    """Four dead letters of ``work`` in ``dead``, two of kind a."""
    for name in ("work", "dead"):
        annulet.run("queue", "delete", name, "-y")
    annulet.done("queue", "create", "dead")
    annulet.done(*WORK)
    for number in range(4):
        annulet.done("publish", "work", str(number), "-H", f"kind={'ab'[number % 2]}", "-p", "expiration=1")
    until = time.monotonic() + 60
    while annulet.json("queue", "show", "dead")["messages"] < 4:
        assert time.monotonic() < until, "the messages did not expire"
    return annulet


def test_dead_letters_go_back_by_filter_and_in_portions(dead: Any) -> None:
    dry = dead.json("redrive", "dead", "--dry-run")
    assert dry == {"count": 4, "skipped": {}, "done": False}
    assert "repeat with --yes" in dead.refused(EXIT_USAGE, "redrive", "dead")
    assert dead.json("redrive", "dead", "--selector", "kind = 'a'", "-y") == {"count": 2, "skipped": {}, "done": True}
    assert dead.json("redrive", "dead", "--rate", "1", "--limit", "2", "-y")["count"] == 2
    assert dead.json("queue", "show", "work")["messages_added"] == 8


def test_stripped_headers_do_not_come_back(dead: Any) -> None:
    dead.done("redrive", "dead", "--strip", "x-death", "--strip", "kind", "-y")
    taken = [json.loads(line) for line in dead.done("consume", "work", "--json", "--wait", "1").output.splitlines()]
    assert len(taken) == 4
    assert not [name for each in taken for name in each["headers"] if name in {"x-death", "kind"}]


def test_what_has_no_queue_to_go_back_to_stays(dead: Any) -> None:
    dead.done("queue", "delete", "work", "-y")
    answer = dead.json("redrive", "dead", "-y")
    assert answer == {"count": 0, "skipped": {"its original queue does not exist": 4}, "done": True}
    assert "4 stay: its original queue" in dead.done("redrive", "dead", "--dry-run").output


@pytest.mark.usefixtures("terminal")
def test_it_asks_for_the_name(dead: Any) -> None:
    assert dead.run("redrive", "dead", given="no\n").code == EXIT_ABORTED
    assert dead.run("redrive", "dead", given="dead\n").output == "4 messages sent back\n"
