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
    {inside}
    assert structlog.is_configured()
assert structlog.is_configured() is {configured}
"""


def printed(before: str, configured: bool, inside: str = "") -> str:
    source = Path(annulet.__file__).parents[1]
    script = SCRIPT.format(before=before, configured=configured, inside=inside)
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], env={"PYTHONPATH": str(source)}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    return result.stdout + result.stderr


def test_a_program_without_a_configuration_sees_no_log_and_gets_its_defaults_back() -> None:
    assert printed("", configured=False) == ""


def test_a_program_with_a_configuration_keeps_it() -> None:
    assert "ready" in printed("structlog.configure()", configured=True)


def test_values_with_names_that_the_standard_library_reserves_are_renamed() -> None:
    """A line with a ``name`` ended the start of a broker."""
    line = "structlog.get_logger('annulet.some').error('a line', name='q', args=1, reason='r')"
    with_format = "logging.basicConfig(format='%(message)s %(name_)s %(args_)s %(reason)s')"
    assert "a line q 1 r" in printed(with_format, configured=False, inside=line)


def test_the_loggers_of_the_standard_library_get_the_lines() -> None:
    assert "INFO:annulet.broker.broker:ready" in printed("logging.basicConfig(level=logging.INFO)", configured=False)
