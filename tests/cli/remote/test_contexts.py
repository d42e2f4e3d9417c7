from __future__ import annotations

from pathlib import Path

import pytest

from annulet.cli.remote.contexts import (
    Context,
    check_context_name,
    contexts_path,
    load_contexts,
    read_password_file,
)
from annulet.cli.remote.failures import EXIT_USAGE, Failure


def test_what_is_saved_is_loaded_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "new" / "contexts.toml"
    contexts = load_contexts(path)
    assert (contexts.items, contexts.current) == ({}, "")
    contexts.items['a "b"\\ .ü'] = Context("https://h:1", "u\x1b", 'p"\\\n\x7f', vhost="/")
    contexts.current = "x"
    contexts.save()
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_contexts(path) == contexts
    assert [each.name for each in path.parent.iterdir()] == ["contexts.toml"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = ", "cannot be read"),
        ("contexts = 5", "has to be a table"),
        ("[contexts.a]\nuser = 'u'", "needs 'url'"),
        ("[contexts.a]\nurl = 'u'\nuserr = 'u'", "may have"),
        ("[contexts.a]\nurl = 5", "only texts"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "contexts.toml"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(Failure, match=says) as caught:
        load_contexts(path)
    assert caught.value.exit_code == EXIT_USAGE


def test_a_file_that_others_can_read_is_refused_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "contexts.toml"
    path.write_text("")
    path.chmod(0o640)
    with pytest.raises(Failure, match="chmod 600"):
        load_contexts(path)


def test_an_unknown_context_is_refused_with_the_known_names(tmp_path: Path) -> None:
    contexts = load_contexts(tmp_path / "none")
    with pytest.raises(Failure, match="context add"):
        contexts.named("x")
    contexts.items["known"] = Context("http://h")
    with pytest.raises(Failure, match="known: known"):
        contexts.named("x")


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 101])
def test_wrong_names(name: str) -> None:
    with pytest.raises(Failure):
        check_context_name(name)


def test_the_path_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/x")
    assert contexts_path({}) == Path("/home/x/.config/annulet/contexts.toml")
    assert contexts_path({"XDG_CONFIG_HOME": "/c"}) == Path("/c/annulet/contexts.toml")


def test_a_password_file_has_the_password_in_its_first_line(tmp_path: Path) -> None:
    file = tmp_path / "p"
    file.write_text("one\ntwo\n")
    assert read_password_file(str(file)) == "one"
    file.write_text("\n")
    with pytest.raises(Failure, match="no first line"):
        read_password_file(str(file))
    with pytest.raises(Failure, match="cannot be read"):
        read_password_file(str(tmp_path / "nix"))
