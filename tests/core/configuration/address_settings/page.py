"""The tables of docs/address-settings.md, from the code. ``python -m tests.core.configuration.address_settings.page``
writes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from annulet.core.configuration.address_settings.fields import (
    ADDRESS_SETTINGS,
    LIVE,
    ONLY_DEFAULT,
    WITHOUT_EFFECT,
    setting_name,
)
from annulet.core.configuration.address_settings.repository import ResolvedSettings
from annulet.core.configuration.arguments.table import SETTINGS
from tests.core.configuration.arguments.page import allowed, code

PAGE = Path(__file__).resolve().parents[4] / "docs" / "address-settings.md"


def address_rows() -> Iterator[str]:
    yield "| setting | unit or type | values | default | meaning |"
    yield "| --- | --- | --- | --- | --- |"
    for setting in ADDRESS_SETTINGS:
        default = getattr(ResolvedSettings(), setting.field)
        shown = "none" if default == "" else code(str(default).lower() if isinstance(default, bool) else default)
        yield f"| {code(setting.name)} | {setting.kind.value} | {allowed(setting)} | {shown} | {setting.meaning} |"


def queue_rows() -> Iterator[str]:
    yield "| setting | argument | takes effect |"
    yield "| --- | --- | --- |"
    for setting in SETTINGS:
        effect = "at once, on queues that exist" if setting.field in LIVE else "when a queue is created"
        yield f"| {code(setting_name(setting.field))} | {code(setting.argument)} | {effect} |"


def accepted_rows() -> Iterator[str]:
    yield "| setting | accepted | why |"
    yield "| --- | --- | --- |"
    for name in sorted(WITHOUT_EFFECT):
        yield f"| {code(name)} | any value, without effect | tunes how Artemis works inside |"
    for name, (value, reason) in ONLY_DEFAULT.items():
        yield f"| {code(name)} | only {code(value)} | {reason} |"


def refreshed(text: str) -> str:
    """Return the page with its tables written again."""
    for name, rows in (("address", address_rows()), ("queues", queue_rows()), ("accepted", accepted_rows())):
        begin, end = f"<!-- table: {name} -->\n", "<!-- end -->"
        head, rest = text.split(begin)
        text = f"{head}{begin}{chr(10).join(rows)}\n{end}" + rest.split(end, 1)[1]
    return text


if __name__ == "__main__":
    PAGE.write_text(refreshed(PAGE.read_text()))
