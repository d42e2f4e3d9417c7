from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from annulet.cli.remote.failures import (
    EXIT_ABORTED,
    EXIT_NOT_ALLOWED,
    EXIT_NOT_FOUND,
    EXIT_REFUSED_BY_BROKER,
    EXIT_USAGE,
)


@pytest.fixture
def secret(tmp_path: Path) -> str:
    file = tmp_path / "secret"
    file.write_text("correct horse\n")
    return str(file)


def test_a_user_gets_a_password_tags_and_permissions_and_loses_them(annulet: Any, secret: str) -> None:
    annulet.done("vhost", "create", "shop", "--description", "the shop")
    assert annulet.json("user", "create", "app", "--new-password-file", secret)["created"]
    assert "give the tags, or --none" in annulet.refused(EXIT_USAGE, "user", "tags", "app")
    assert "one of the two" in annulet.refused(EXIT_USAGE, "user", "tags", "app", "monitoring", "--none")
    assert annulet.json("user", "tags", "app", "--none")["tags"] == []
    assert annulet.json("user", "tags", "app", "management")["tags"] == ["management"]
    annulet.done("permission", "set", "app", "-V", "shop", "--write", "^o", "--read", ".*")
    assert annulet.json("permissions", "--of", "app") == [
        {"user": "app", "vhost": "shop", "configure": "", "write": "^o", "read": ".*"}
    ]
    mine = ("--user", "app", "--password-file", secret)
    assert [each["name"] for each in annulet.json("vhosts", *mine)] == ["shop"]
    assert annulet.refused(EXIT_NOT_ALLOWED, "users", *mine)
    annulet.done("permission", "clear", "app", "-V", "shop", "-y")
    assert annulet.json("permissions", "--of", "app") == []
    annulet.done("user", "delete", "app", "-y")
    assert "wrong" in annulet.refused(EXIT_NOT_ALLOWED, "vhosts", *mine)
    assert annulet.json("vhost", "delete", "shop", "-y") == {"name": "shop", "deleted": True}


def test_a_password_is_changed(annulet: Any, secret: str) -> None:
    annulet.done("user", "create", "changer", "--tags", "management", "--no-password")
    login = ("--user", "changer", "--password-file", secret)
    annulet.refused(EXIT_NOT_ALLOWED, "vhosts", *login)
    annulet.done("user", "password", "changer", "--new-password-file", secret)
    annulet.done("vhosts", *login)


@pytest.mark.usefixtures("terminal")
def test_a_new_password_is_asked_for_twice_and_a_wrong_name_deletes_nothing(annulet: Any) -> None:
    annulet.done("user", "create", "typist", given="open sesame\nopen sesame\n")
    assert annulet.run("user", "delete", "typist", given="typo\n").code == EXIT_ABORTED
    assert [each["name"] for each in annulet.json("users") if each["name"] == "typist"] == ["typist"]
    annulet.done("user", "delete", "typist", given="typist\n")


def test_refusals_have_their_exit_codes(annulet: Any) -> None:
    assert "exists" in annulet.refused(EXIT_USAGE, "user", "create", "guest", "--no-password")
    assert "--new-password-file" in annulet.refused(EXIT_USAGE, "user", "create", "other")
    assert "no user 'nix'" in annulet.refused(EXIT_NOT_FOUND, "user", "tags", "nix", "administrator")
    assert "administrator" in annulet.refused(EXIT_REFUSED_BY_BROKER, "user", "delete", "guest", "-y")
    assert "repeat with --yes" in annulet.refused(EXIT_USAGE, "vhost", "delete", "/")


def test_a_token_is_shown_once_and_ends_when_it_is_deleted(annulet: Any, tmp_path: Path) -> None:
    text = annulet.done("token", "create", "ci", "--tags", "administrator", "--seconds", "600").output.strip()
    file = tmp_path / "token"
    file.write_text(text)
    login = ("--user", "guest", "--password-file", str(file))
    annulet.done("queues", *login)
    assert text not in annulet.done("tokens", "--json").output
    assert [each["name"] for each in annulet.json("tokens", "--of", "guest")] == ["ci"]
    annulet.done("token", "delete", "ci", "-y")
    annulet.refused(EXIT_NOT_ALLOWED, "queues", *login)
