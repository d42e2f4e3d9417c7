from __future__ import annotations

import json
import time
from typing import Any

import pytest

from annulet.cli.remote.failures import EXIT_ABORTED, EXIT_USAGE
from annulet.cli.remote.operation_commands import way_back

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
    gone = dead.json("redrive", "dead", "--selector", "kind = 'a'", "-y")
    assert (gone["count"], gone["skipped"], gone["done"]) == (2, {}, True)
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
    assert dead.run("redrive", "dead", given="dead\n").output.startswith("4 messages sent back (operation ")


@pytest.fixture
def shop(annulet: Any) -> Any:
    """A queue with two messages, and two scheduled in an hour."""
    annulet.run("queue", "delete", "shop", "-y")
    annulet.done("queue", "create", "shop")
    for body in ("one", "two"):
        annulet.done("publish", "shop", body)
        annulet.done("publish", "shop", f"later {body}", "-H", "x-delay=3600000", "-H", f"kind={body}")
    return annulet


@pytest.mark.parametrize(
    ("undo", "text"),
    [
        (None, "it cannot be undone: the broker keeps nothing (undo_seconds)"),
        ({"seconds": 90, "kept": 2, "unkept": 0, "reason": ""}, "it can be undone for 1 min 30 s"),
        ({"seconds": 90, "kept": 0, "unkept": 2, "reason": "why"}, "it cannot be undone: why"),
        (
            {"seconds": 90, "kept": 2, "unkept": 1, "reason": "why"},
            "it can be undone for 1 min 30 s, but for 1 messages: why",
        ),
    ],
)
def test_what_a_preview_says_of_the_way_back(undo: dict[str, Any] | None, text: str) -> None:
    assert way_back({"undo": undo}) == text


def test_a_redrive_is_undone(annulet: Any) -> None:
    for name in ("died", "graves"):
        annulet.run("queue", "delete", name, "-y")
    annulet.done("queue", "create", "graves")
    annulet.done("queue", "create", "died", "-a", "x-dead-letter-exchange=", "-a", "x-dead-letter-routing-key=graves")
    annulet.done("publish", "died", "x", "-p", "expiration=1")
    until = time.monotonic() + 60
    while annulet.json("queue", "show", "graves")["messages"] < 1:
        assert time.monotonic() < until, "the message did not expire"
    gone = annulet.json("redrive", "graves", "-y")
    (listed,) = annulet.json("undo", "graves")
    assert (listed["undo"], listed["operation"], listed["count"]) == (gone["undo"], "retry", 1)
    assert gone["id"] >= 1
    assert annulet.json("undo", "graves", gone["undo"], "--dry-run") == {"count": 1, "skipped": {}, "done": False}
    assert annulet.json("undo", "graves", gone["undo"], "-y")["done"]


def test_schedules_are_listed_cancelled_brought_back_and_delivered(shop: Any) -> None:
    listed = shop.json("schedule", "list", "shop")
    assert [item["state"] for item in listed] == ["scheduled", "scheduled"]
    first = listed[0]["id"]
    assert shop.json("schedule", "cancel", "shop", "--all", "--dry-run")["count"] == 2
    gone = shop.json("schedule", "cancel", "shop", str(first), "-y")
    assert (gone["count"], len(shop.json("schedule", "list", "shop"))) == (1, 1)
    assert shop.json("undo", "shop", gone["undo"], "-y")["count"] == 1
    assert len(shop.json("schedule", "list", "shop")) == 2
    assert shop.json("schedule", "deliver", "shop", "--selector", "kind = 'two'", "-y")["count"] == 1
    assert len(shop.json("schedule", "list", "shop")) == 1
    assert "exactly one of them" in shop.refused(EXIT_USAGE, "schedule", "cancel", "shop")
    assert "exactly one of them" in shop.refused(EXIT_USAGE, "schedule", "deliver", "shop", "1", "--all")
