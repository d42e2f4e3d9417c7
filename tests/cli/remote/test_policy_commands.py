from __future__ import annotations

from typing import Any

from annulet.cli.remote.failures import EXIT_NOT_FOUND, EXIT_REFUSED_BY_BROKER, EXIT_USAGE


def test_a_policy_is_set_listed_and_cleared(annulet: Any) -> None:
    annulet.done("policy", "set", "rings", "^sensor[.]", "ring-size=10", "--priority", "3")
    annulet.done("queue", "create", "sensor.a")
    (listed,) = annulet.json("policies", "-V", "/")
    assert (listed["name"], listed["pattern"], listed["definition"]) == ("rings", "^sensor[.]", {"ring-size": 10})
    assert annulet.json("queue", "show", "sensor.a")["settings"]["ring_size"] == 10
    assert "repeat with --yes" in annulet.refused(EXIT_USAGE, "policy", "clear", "rings")
    annulet.done("policy", "clear", "rings", "-y")
    assert annulet.json("policies") == []
    assert annulet.json("queue", "show", "sensor.a")["settings"]["ring_size"] != 10


def test_wrong_policies_are_refused(annulet: Any) -> None:
    annulet.refused(EXIT_REFUSED_BY_BROKER, "policy", "set", "p", "(", "ring-size=1")
    annulet.refused(EXIT_NOT_FOUND, "policy", "clear", "nix", "-y")


def test_a_setting_is_shown_changed_and_reset(annulet: Any) -> None:
    (shown,) = annulet.json("settings", "show", "undo_seconds")
    assert (shown["value"], shown["unit"], shown["origin"], shown["changeable"]) == (3600, "seconds", "default", True)
    changed = annulet.json("settings", "set", "undo_seconds", "60")
    assert (changed["value"], changed["origin"]) == (60, "run time")
    assert annulet.json("settings", "reset", "undo_seconds")["value"] == 3600
    names = [item["name"] for item in annulet.json("settings", "show")]
    assert {"data", "limits.max_connections", "undo_bytes"} <= set(names)
    assert "takes a restart" in annulet.refused(EXIT_REFUSED_BY_BROKER, "settings", "set", "heartbeat", "5")
    assert "did you mean 'undo_bytes'?" in annulet.refused(EXIT_NOT_FOUND, "settings", "show", "undo_byte")
