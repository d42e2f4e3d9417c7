from __future__ import annotations

import http.client
import json
from typing import Any

import pytest

from annulet.cli.remote.failures import EXIT_ABORTED, EXIT_NOT_FOUND, EXIT_REFUSED_BY_BROKER, EXIT_USAGE


def publish(annulet: Any, queue: str, count: int) -> None:
    for number in range(count):
        connection = http.client.HTTPConnection("127.0.0.1", annulet.broker.http_port)
        body = {"routing_key": queue, "payload": str(number), "payload_encoding": "string", "properties": {}}
        headers = {"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q=", "Content-Type": "application/json"}
        connection.request("POST", "/api/exchanges/%2F/amq.default/publish", json.dumps(body), headers)
        assert json.loads(connection.getresponse().read()) == {"routed": True}
        connection.close()


def test_a_queue_is_created_listed_shown_changed_and_deleted(annulet: Any) -> None:
    assert annulet.json("queue", "create", "ring", "-a", "x-ring-size=3") == {"name": "ring", "created": True}
    assert annulet.json("queue", "create", "ring", "-a", "x-ring-size=3") == {"name": "ring", "created": False}
    publish(annulet, "ring", 5)
    shown = annulet.json("queue", "show", "ring")
    assert (shown["messages"], shown["losses"], shown["arguments"]) == (3, {"replaced-ring": 2}, {"x-ring-size": 3})
    assert annulet.json("queue", "change", "ring", "ring-size=5")["arguments"] == {"x-ring-size": 5}
    listed = annulet.json("queues", "--name", "rin", "--columns", "name,ready")
    assert listed == [{"name": "ring", "messages_ready": 3}]
    gone = annulet.json("queue", "delete", "ring", "-y")
    assert (gone["name"], gone["messages"], "unkept" in gone) == ("ring", 3, False)
    assert annulet.done("undo", "ring", gone["undo"], "-y").output.startswith("3 messages brought back")
    assert annulet.json("queues", "--name", "rin", "--columns", "name,ready") == [{"name": "ring", "messages_ready": 3}]
    shown = annulet.done("queue", "delete", "ring", "-y").error
    assert "annulet undo ring " in shown
    assert annulet.json("queues", "--name", "ring") == []


@pytest.mark.parametrize(
    ("name", "arguments", "change", "lost"),
    [
        ("cut.length", [], ["max-length=2"], "drop 3 messages beyond max-length=2 of queue 'cut.length'"),
        ("cut.ring", ["-a", "x-ring-size=9"], ["ring-size=4", "ring-trim=now"], "drop 1 message beyond ring-size=4"),
        ("cut.bytes", [], ["max-bytes=1"], "drop messages of "),
    ],
)
def test_a_change_that_drops_messages_at_once_asks(
    annulet: Any, name: str, arguments: list[str], change: list[str], lost: str
) -> None:
    annulet.done("queue", "create", name, *arguments)
    publish(annulet, name, 5)
    assert lost in annulet.refused(EXIT_USAGE, "queue", "change", name, *change)
    assert annulet.json("queue", "show", name)["messages"] == 5
    annulet.done("queue", "change", name, *change, "-y")
    assert annulet.json("queue", "show", name)["messages"] < 5


@pytest.mark.parametrize("change", ["max-length=5", "ring-size=1"])
def test_a_change_that_drops_nothing_at_once_asks_nothing(annulet: Any, change: str) -> None:
    annulet.done("queue", "create", "whole", "-a", "x-overflow=reject")
    publish(annulet, "whole", 5)
    annulet.done("queue", "change", "whole", change)
    assert annulet.json("queue", "show", "whole")["messages"] == 5
    annulet.done("queue", "delete", "whole", "-y")


def test_lists_are_tables_that_people_read(annulet: Any) -> None:
    annulet.done("queue", "create", "many")
    publish(annulet, "many", 2)
    title, line = annulet.done("queues", "--name", "many").output.splitlines()
    assert title.split() == ["vhost", "name", "state", "ready", "unacknowledged", "consumers", "in/s", "out/s"]
    assert line.split()[:6] == ["/", "many", "running", "2", "0", "0"]


def test_a_list_is_sorted_and_cut(annulet: Any) -> None:
    for count, name in enumerate(("sort.a", "sort.b", "sort.c")):
        annulet.done("queue", "create", name)
        publish(annulet, name, count)
    chosen = annulet.json("queues", "--name", "sort.", "--sort", "ready", "--reverse", "--limit", "2")
    assert [each["name"] for each in chosen] == ["sort.c", "sort.b"]


def test_more_queues_than_a_page_are_all_listed(annulet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("annulet.cli.remote.client.PAGE_SIZE", 2)
    for number in range(5):
        annulet.done("queue", "create", f"paged.{number}")
    names = [each["name"] for each in annulet.json("queues", "--name", "paged.")]
    assert names == [f"paged.{number}" for number in range(5)]


def test_an_unknown_queue_setting_and_column_have_their_own_exit_codes(annulet: Any) -> None:
    annulet.done("queue", "create", "known")
    assert "no queue 'unknown'" in annulet.refused(EXIT_NOT_FOUND, "queue", "show", "unknown")
    assert "did you mean 'x-ring-size'" in annulet.refused(
        EXIT_REFUSED_BY_BROKER, "queue", "change", "known", "ring-sice=1"
    )
    assert "NAME=VALUE" in annulet.refused(EXIT_USAGE, "queue", "change", "known", "ring-size")
    assert "column 'foo'" in annulet.refused(EXIT_USAGE, "queues", "--columns", "name,foo")
    assert "a name is empty" in annulet.refused(EXIT_USAGE, "queue", "create", "")


@pytest.mark.parametrize("command", ["purge", "delete"])
def test_nothing_is_destroyed_without_a_terminal_and_without_yes(annulet: Any, command: str) -> None:
    annulet.done("queue", "create", "safe")
    publish(annulet, "safe", 1)
    assert "repeat with --yes" in annulet.refused(EXIT_USAGE, "queue", command, "safe")
    assert annulet.json("queue", "show", "safe")["messages"] >= 1


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("command", ["purge", "delete"])
def test_a_destructive_command_shows_count_and_sample_and_asks_for_the_name(annulet: Any, command: str) -> None:
    annulet.done("queue", "create", f"ask.{command}")
    publish(annulet, f"ask.{command}", 2)
    ran = annulet.run("queue", command, f"ask.{command}", given="y\n")
    assert ran.code == EXIT_ABORTED
    assert "2 " in ran.error
    assert "message 1: 1 B" in ran.error
    assert annulet.json("queue", "show", f"ask.{command}")["messages"] == 2
    annulet.done("queue", command, f"ask.{command}", given=f"ask.{command}\n")
    assert annulet.run("queue", "show", f"ask.{command}", "--json").code == (
        EXIT_NOT_FOUND if command == "delete" else 0
    )


def test_a_purge_is_previewed_done_and_undone(annulet: Any) -> None:
    annulet.done("queue", "create", "slip")
    publish(annulet, "slip", 3)
    assert annulet.json("queue", "purge", "slip", "--dry-run") == {"count": 3, "skipped": {}, "done": False}
    ran = annulet.done("queue", "purge", "slip", "--dry-run")
    assert (ran.output, ran.error) == ("3 messages would be dropped\n", "it can be undone for 1 h 0 min\n")
    ran = annulet.done("queue", "purge", "slip", "-y", "-V", "/")
    (listed,) = annulet.json("undo", "slip")
    assert (listed["operation"], listed["count"]) == ("purge", 3)
    number = annulet.broker.get("/api/v1/queues/%2F/slip/operations")["items"][0]["id"]
    assert ran.output == f"3 messages dropped (operation {number})\n"
    assert f": annulet undo slip {listed['undo']} -V /\n" in ran.error
    assert annulet.json("undo", "slip", listed["undo"], "-y")["count"] == 3
    assert annulet.json("queue", "show", "slip")["messages"] == 3


@pytest.mark.usefixtures("terminal")
def test_a_purge_that_cannot_be_undone_says_so_before_it_asks(annulet: Any) -> None:
    annulet.done("queue", "create", "big")
    publish(annulet, "big", 8)
    annulet.done("settings", "set", "undo_bytes", "1")
    try:
        ran = annulet.run("queue", "purge", "big", given="no\n")
        assert ran.code == EXIT_ABORTED
        assert "… and 3 more" in ran.error
        assert "It cannot be undone: undo_bytes=1 does not allow more." in ran.error
        gone = annulet.json("queue", "purge", "big", "-y")
        assert (gone["count"], gone["unkept"], "undo" in gone) == (8, 8, False)
    finally:
        annulet.done("settings", "reset", "undo_bytes")


def test_why_not_says_that_there_are_no_consumers(annulet: Any) -> None:
    annulet.done("queue", "create", "idle")
    assert annulet.done("queue", "why-not", "idle").output == "the queue has no consumers\n"
    assert annulet.json("queue", "why-not", "idle") == []


def test_control_characters_of_a_name_do_not_reach_the_terminal(annulet: Any) -> None:
    annulet.done("queue", "create", "evil\x1b[31m[bold]")
    output = annulet.done("queues", "--name", "evil").output
    assert "\x1b" not in output
    assert r"evil\x1b[31m[bold]" in output
