from __future__ import annotations

from pathlib import Path

import argon2
import pytest
from click.testing import CliRunner

from annulet.broker.security.password_hashes import HASHER
from annulet.broker.settings.configuration import load
from annulet.broker.settings.scram_verifiers import parse_verifier
from annulet.cli.main import main


def test_it_prints_what_the_configuration_takes() -> None:
    result = CliRunner().invoke(main, ["password-hash", "--password", "secret"])
    assert result.exit_code == 0
    printed = result.output.strip()
    assert HASHER.verify(printed, "secret")
    with pytest.raises(argon2.exceptions.VerifyMismatchError):
        HASHER.verify(printed, "other")


def test_it_asks_twice_when_no_password_is_given() -> None:
    result = CliRunner().invoke(main, ["password-hash"], input="secret\nsecret\n")
    assert result.exit_code == 0
    assert HASHER.verify(result.output.strip().splitlines()[-1], "secret")
    assert "secret" not in result.output


def test_it_prints_lines_for_the_file_with_verifiers(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["password-hash", "--scram", "--password", "secret"])
    file = tmp_path / "annulet.toml"
    file.write_text(f"[users.alice]\n{result.output}")
    user = load(file).users["alice"]
    assert HASHER.verify(user.password_hash, "secret")
    assert [parse_verifier(text).mechanism for text in user.scram] == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
