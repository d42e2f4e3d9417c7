"""``annulet doctor``: problems of a data directory, and their remedies."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from annulet.cli.local_path import LocalPath
from annulet.store.files.errors import StoreError
from annulet.store.inspection.inspection import ERROR, NOT_CHECKED, NOTE, WARNING, inspect, repair
from annulet.store.inspection.rebuilding import discard, rebuild

if TYPE_CHECKING:
    from annulet.store.inspection.inspection import Inspection

EXIT_UNSOUND: Final = 1
"""There is an error or a warning. click uses 2 for wrong options."""

EXIT_NOT_CHECKED: Final = 3
"""No other problem, but there was no room to check all of it."""

PROGRESS_SECONDS: Final = 1.0
"""Between two lines on a terminal while a large log is read."""

NOT_REBUILT: Final = (
    "bindings, exchanges, users, permissions, policies, address settings, leases of Spark queries and what operators "
    "set at run time are not in the message log: those that the catalogue lacks were not brought back; declare them "
    "again, name them in the configuration file, or restore a backup of the same time instead"
)
"""The possible gaps of a rebuilt directory, with the remedy."""

COLOURS: Final = {ERROR: "red", WARNING: "yellow", NOTE: "cyan"}


@click.command()
@click.argument("data", type=LocalPath(), default=Path("annulet-data"))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: sound, findings, figures.")
@click.option("--repair", "wanted", is_flag=True, help="Remove temporary and orphaned files. Never a message.")
@click.option(
    "--rebuild",
    "rebuilding",
    is_flag=True,
    help="Put queues back that the message log knows and the catalogue lacks; accept the catalogue as it is otherwise.",
)
@click.option(
    "--discard",
    "discarded",
    type=click.IntRange(min=1),
    multiple=True,
    metavar="ID",
    help="Drop for good the messages of a queue that the catalogue does not know.",
)
def doctor(data: Path, *, as_json: bool, wanted: bool, rebuilding: bool, discarded: tuple[int, ...]) -> None:
    """Check the data directory DATA of a stopped broker.  [default: ./annulet-data]

    Exit code 0: no action is needed; 1: there is an error or a warning; 3: no problem except that there was no room to
    check all of it.
    """
    changes: list[str] = []
    failure = ""
    with quiet_log():
        try:
            changes = change(data, rebuilding=rebuilding, discarded=discarded)
        except (StoreError, OSError) as error:
            failure = str(error)
        found = inspect(data, int(time.time() * 1000), None if as_json else Progress())
    removed: list[Path] = []
    if wanted:
        try:
            removed = repair(found)
        except (StoreError, OSError) as error:
            failure = str(error)
    if as_json:
        click.echo(json.dumps(document(found, removed, failure) | {"changes": changes}, indent=2))
    else:
        for line in (*changes, *lines(found, removed, failure)):
            click.echo(line)
    sys.exit(EXIT_UNSOUND if failure else exit_code(found))


def change(data: Path, *, rebuilding: bool, discarded: tuple[int, ...]) -> list[str]:
    """Carry out the requested changes before the directory is checked; return them. Raises ``StoreError``."""
    done = []
    if discarded:
        counts = discard(data, discarded)
        done += [f"discarded {count} messages of queue {queue_id}" for queue_id, count in counts.items()]
    if rebuilding:
        done += [
            f"rebuilt queue {queue.name} (id {queue.queue_id}) of virtual host {queue.virtual_host} with "
            f"{queue.messages} messages"
            for queue in rebuild(data)
        ]
        done += ["the catalogue is accepted beside this message log", NOT_REBUILT]
    return done


def exit_code(found: Inspection) -> int:
    """Return the findings for scripts."""
    codes = {finding.code for finding in found.findings if finding.severity != NOTE}
    if codes == {NOT_CHECKED}:
        return EXIT_NOT_CHECKED
    return EXIT_UNSOUND if codes else 0


@contextmanager
def quiet_log() -> Iterator[None]:
    """Suppress recovery's log: its messages are among the findings."""
    ours = logging.getLogger("annulet")
    level = ours.level
    ours.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        ours.setLevel(level)


class Progress:
    """Print the progress of reading the log on standard error, once a second, on a terminal."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self, read: int, total: int) -> None:
        """Note that a segment was read."""
        if sys.stderr.isatty() and time.monotonic() - self._last >= PROGRESS_SECONDS:
            self._last = time.monotonic()
            click.echo(f"reading segment {read} of {total}", err=True)


def document(found: Inspection, removed: list[Path], failure: str) -> dict[str, Any]:
    """Return what ``--json`` prints."""
    findings = []
    for finding in found.findings:
        item = asdict(finding)
        item["removable"] = [str(path) for path in finding.removable]
        findings.append(item)
    return {
        "directory": str(found.directory),
        "sound": found.sound and not failure,
        "findings": findings,
        "figures": found.figures,
        "removed": [str(path) for path in removed],
        "repair_failure": failure,
    }


def lines(found: Inspection, removed: list[Path], failure: str) -> list[str]:
    """Return the text for people: figures, findings with their remedies, the verdict."""
    text = []
    for section, figures in found.figures.items():
        if isinstance(figures, dict):
            plain = {name: value for name, value in figures.items() if not isinstance(value, dict)}
            text.append(
                f"{section:<12}" + ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in plain.items())
            )
    for finding in found.findings:
        word = click.style(f"{finding.severity:<8}", fg=COLOURS[finding.severity])
        text.append(f"{word} {finding.code}: {finding.text}")
        if finding.remedy:
            text.append(f"{'':<8}   -> {finding.remedy}")
    text += [f"removed  {path}" for path in removed]
    if failure:
        text.append(f"the repair failed: {failure}")
    errors = sum(finding.severity == ERROR for finding in found.findings)
    warnings = sum(finding.severity == WARNING for finding in found.findings)
    text.append("sound" if found.sound and not failure else f"{errors} errors, {warnings} warnings")
    return text
