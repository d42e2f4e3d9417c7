from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import annulet

SCRIPT = """
import logging, structlog
import annulet.testing

{before}
with annulet.testing.broker() as broker:
    with annulet.testing.broker() as second:
        pass
    assert structlog.is_configured()
assert structlog.is_configured() is {configured}
"""


def printed(before: str, configured: bool) -> str:
    source = Path(annulet.__file__).parents[1]
    script = SCRIPT.format(before=before, configured=configured)
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], env={"PYTHONPATH": str(source)}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    return result.stdout + result.stderr


def test_a_program_without_a_configuration_sees_no_log_and_gets_its_defaults_back() -> None:
    assert printed("", configured=False) == ""


def test_a_program_with_a_configuration_keeps_it() -> None:
    assert "ready" in printed("structlog.configure()", configured=True)


def test_the_loggers_of_the_standard_library_get_the_lines() -> None:
    assert "INFO:annulet.broker.broker:ready" in printed("logging.basicConfig(level=logging.INFO)", configured=False)
