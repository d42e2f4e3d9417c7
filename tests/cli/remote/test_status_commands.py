from __future__ import annotations

from typing import Any

from annulet.cli.remote.failures import EXIT_USAGE
from tests.cli.remote.test_queue_commands import publish


def test_status_says_what_the_broker_is_and_holds(annulet: Any) -> None:
    annulet.done("queue", "create", "held")
    publish(annulet, "held", 2)
    assert annulet.json("status")["totals"]["messages"] == 2
    output = annulet.done("status").output
    assert f"at {annulet.broker.http_url}" in output
    assert "alarms" in output


def test_top_prints_one_picture_without_a_terminal(annulet: Any) -> None:
    annulet.done("queue", "create", "busy")
    publish(annulet, "busy", 4)
    picture = annulet.json("top", "--once", "--sort", "ready")
    assert (picture["queues"][0]["name"], picture["queues"][0]["messages_ready"]) == ("busy", 4)
    lines = annulet.done("top", "--sort", "ready").output.splitlines()
    assert lines[3].split() == ["vhost", "queue", "ready", "unacked", "bytes", "consumers", "in/s", "out/s", "acked/s"]
    assert lines[4].split()[:3] == ["/", "busy", "4"]


def test_the_level_of_the_log_is_shown_and_changed(annulet: Any) -> None:
    assert annulet.json("log", "level") == {"level": "info", "configured": "info", "until": 0}
    assert annulet.json("log", "level", "debug", "--seconds", "60")["level"] == "debug"
    assert "configured" in annulet.done("log", "level").output
    assert annulet.json("log", "level", "info")["until"] == 0
    assert "needs a level" in annulet.refused(EXIT_USAGE, "log", "level", "--seconds", "60")
