from __future__ import annotations

from pathlib import Path

import pytest

from annulet.cli.remote.contexts import Context, contexts_path, load_contexts
from annulet.cli.remote.failures import EXIT_USAGE, Failure
from annulet.cli.remote.target import Target, Wanted, find_target, read_url


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    values = {"XDG_CONFIG_HOME": str(tmp_path)}
    contexts = load_contexts(contexts_path(values))
    contexts.items["work"] = Context("https://work.example", "ada", "secret", vhost="shop")
    contexts.items["file"] = Context("http://f:1", "ada", password_file=str(tmp_path / "password"))
    contexts.save()
    (tmp_path / "password").write_text("of the file\n")
    return values


def test_without_anything_it_is_the_broker_of_this_machine(tmp_path: Path) -> None:
    found = find_target(Wanted(), {"XDG_CONFIG_HOME": str(tmp_path)})
    assert found == Target("http", "localhost", 8161, "guest", "guest")
    assert found.url == "http://localhost:8161"


def test_a_context_has_address_and_login(environment: dict[str, str]) -> None:
    found = find_target(Wanted(context="work"), environment)
    assert found == Target("https", "work.example", 8162, "ada", "secret", "", "shop")
    assert find_target(Wanted(), {**environment, "ANNULET_CONTEXT": "work"}) == found
    assert find_target(Wanted(context="work", vhost="/"), environment).vhost == "/"
    assert find_target(Wanted(context="file"), environment).password == "of the file"
    contexts = load_contexts(contexts_path(environment))
    contexts.current = "work"
    contexts.save()
    assert find_target(Wanted(), environment) == found


def test_a_login_goes_only_to_the_address_it_was_given_for(environment: dict[str, str]) -> None:
    contexts = load_contexts(contexts_path(environment))
    contexts.current = "work"
    contexts.save()
    with pytest.raises(Failure, match="give --user"):
        find_target(Wanted(url="http://other.example"), environment)
    assert find_target(Wanted(url="8161"), environment).password == "guest"
    with pytest.raises(Failure, match="no password for user 'bob'"):
        find_target(Wanted(context="work", user="bob"), environment)


def test_the_environment_has_address_and_login(environment: dict[str, str]) -> None:
    given = {**environment, "ANNULET_URL": "http://h:5", "ANNULET_USER": "u", "ANNULET_PASSWORD": "p"}
    assert find_target(Wanted(), given) == Target("http", "h", 5, "u", "p")
    assert find_target(Wanted(context="work"), given).password == "secret"


def test_the_address_of_bulk_transfer_is_no_address_of_this(environment: dict[str, str]) -> None:
    with pytest.raises(Failure, match="annulet lease"):
        find_target(Wanted(), {**environment, "ANNULET_URL": "annulet://u:p@h:8815/"})
    with pytest.raises(Failure, match="give one of them"):
        find_target(Wanted(url="h", context="work"), environment)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("8161", ("http", "localhost", 8161)),
        ("h", ("http", "h", 8161)),
        ("h:1", ("http", "h", 1)),
        ("https://h", ("https", "h", 8162)),
        ("http://[::1]:5/", ("http", "::1", 5)),
    ],
)
def test_addresses(text: str, parts: tuple[str, str, int]) -> None:
    assert read_url(text) == parts


@pytest.mark.parametrize(
    "text",
    ["", "ftp://h", "http://", "http://u:p@h", "h:99999", "h:x", "0", "http://h/api", "http://h?x=1", "http://a\x1bb"],
)
def test_wrong_addresses(text: str) -> None:
    with pytest.raises(Failure) as caught:
        read_url(text)
    assert caught.value.exit_code == EXIT_USAGE
    assert "give" in str(caught.value) or "leave out" in str(caught.value)


def test_an_address_of_six_is_written_in_brackets() -> None:
    assert Target("http", "::1", 5, "", "").url == "http://[::1]:5"
