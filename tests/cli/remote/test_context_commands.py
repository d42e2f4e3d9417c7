from __future__ import annotations

from typing import Any

import pytest

from annulet.cli.remote.failures import EXIT_USAGE


def test_contexts_are_added_used_listed_and_removed(annulet: Any, tmp_path: Any) -> None:
    secret = tmp_path / "secret"
    secret.write_text("guest\n")
    login = ("--user", "guest", "--password-file", str(secret))
    annulet.done("context", "add", "here", "--url", annulet.broker.http_url, *login)
    annulet.done("context", "add", "there", "--url", "https://there.example", "--user", "x", "--no-password")
    assert [(each["name"], each["current"], each["password"]) for each in annulet.json("context", "list")] == [
        ("here", True, "file"),
        ("there", False, "none"),
    ]
    ran = annulet.run("status", ANNULET_URL=None, ANNULET_USER=None, ANNULET_PASSWORD=None)
    assert ran.code == 0
    assert annulet.broker.http_url in ran.output
    assert annulet.run("status", "--context", "here", ANNULET_URL="http://nix:1").code == 0
    annulet.done("context", "use", "there")
    assert "repeat with --yes" in annulet.refused(EXIT_USAGE, "context", "remove", "there")
    annulet.done("context", "remove", "there", "-y")
    assert [(each["name"], each["current"]) for each in annulet.json("context", "list")] == [("here", False)]
    assert "no context 'there'" in annulet.refused(EXIT_USAGE, "context", "use", "there")


@pytest.mark.usefixtures("terminal")
def test_a_password_is_asked_for_and_never_listed(annulet: Any) -> None:
    annulet.done("context", "add", "asked", "--url", annulet.broker.http_url, "--user", "guest", given="guest\n")
    assert annulet.run("status", "--context", "asked").code == 0
    listed = annulet.json("context", "list")
    assert listed[0].keys() == {"name", "current", "url", "user", "vhost", "password"}
    assert listed[0]["password"] == "kept"


def test_wrong_contexts_are_refused(annulet: Any) -> None:
    add = ("context", "add", "x", "--user", "u")
    assert "scheme" in annulet.refused(EXIT_USAGE, *add, "--url", "ftp://h")
    assert "no terminal" in annulet.refused(EXIT_USAGE, *add, "--url", "h")
    assert "one of them" in annulet.refused(EXIT_USAGE, *add, "--url", "h", "--no-password", "--password-file", "f")
