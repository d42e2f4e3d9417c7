from __future__ import annotations

import argon2
import pytest
from click.testing import CliRunner

from annulet.broker.authentication import HASHER
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
