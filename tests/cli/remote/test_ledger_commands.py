from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from annulet.cli.remote.failures import EXIT_NOT_ALLOWED, EXIT_REFUSED_BY_BROKER, EXIT_USAGE
from annulet.cli.remote.ledger_commands import read_ago
from tests.cli.remote.test_queue_commands import publish


def test_losses_say_what_a_ring_dropped(annulet: Any) -> None:
    annulet.done("queue", "create", "small", "-a", "x-ring-size=1")
    publish(annulet, "small", 3)
    found = annulet.json("losses", "--queue", "small", "--since", "1h")
    assert [(each["queue"], each["reason"]) for each in found] == [("small", "replaced-ring")] * 2
    assert annulet.json("losses", "--queue", "small", "--count")[0]["count"] == 2
    assert annulet.json("losses", "--queue", "small", "--limit", "1") == found[:1]
    assert "replaced-ring" in annulet.done("losses", "--queue", "small").output


def test_audit_says_who_changed_what(annulet: Any) -> None:
    annulet.done("policy", "set", "audited", "^x", "ring-size=10")
    (entry,) = annulet.json("audit", "--target", "audited", "--by", "guest")
    assert (entry["operation"], entry["user"]) == ("set-policy", "guest")
    assert "set-policy" in annulet.done("audit").output


@pytest.mark.parametrize(("text", "seconds"), [("", None), ("90s", 90), ("2h", 7200), ("7d", 604_800)])
def test_times_before_now(text: str, seconds: int | None) -> None:
    assert read_ago(None, None, text) == seconds


@pytest.mark.parametrize("text", ["h", "5", "5y", "-1h", "1.5h", "²h"])
def test_wrong_times_before_now(text: str) -> None:
    with pytest.raises(click.BadParameter, match="15m"):
        read_ago(None, None, text)


def test_a_wrong_time_is_a_usage_error(annulet: Any) -> None:
    assert "15m" in annulet.refused(EXIT_USAGE, "losses", "--since", "yesterday")


def test_events_tell_what_happened(annulet):
    annulet.done("queue", "create", "eventful")
    lines = annulet.done("events", "--kind", "queue", "--limit", "1000").output.splitlines()
    assert any("QUE-1001" in line and "queue=eventful" in line for line in lines)
    shown = [json.loads(line) for line in annulet.done("events", "--json", "--limit", "1000").output.splitlines()]
    assert {"queue": "eventful", "durable": True, "exclusive": False} in [item["values"] for item in shown]
    assert "did you mean" in annulet.refused(EXIT_REFUSED_BY_BROKER, "events", "--kind", "queu")


def test_events_follow_until_the_login_is_taken_away(annulet: Any, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("secret\n")
    annulet.done(
        "user", "create", "follower", "--tags", "monitoring", "--new-password-file", str(tmp_path / "password")
    )
    command = [sys.executable, "-m", "annulet", "events", "--follow", "--kind", "queue", "--json"]
    login = ["--url", annulet.broker.http_url, "--user", "follower"]
    environment = {"ANNULET_PASSWORD": "secret", "PATH": "/usr/bin:/bin"}
    annulet.done("queue", "create", "before")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*command, *login], env=environment, **pipes) as process:
        assert process.stdout is not None
        wait_for_event(process.stdout, "before")
        annulet.done("queue", "create", "after")
        wait_for_event(process.stdout, "after")
        annulet.done("user", "delete", "follower", "--yes")
        _, error = process.communicate()
    assert process.returncode == EXIT_NOT_ALLOWED
    assert b"ended the events: the session has ended" in error


def wait_for_event(lines: Any, queue: str) -> None:
    assert any(json.loads(line)["values"].get("queue") == queue for line in lines), queue
