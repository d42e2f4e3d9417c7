"""The tables of docs/queue-arguments.md, from the code. ``python -m tests.core.configuration.arguments.page`` writes
them again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

from annulet.core.base.settings import QueueSettings
from annulet.core.configuration.arguments.combinations import REFUSED
from annulet.core.configuration.arguments.peers import (
    ALIASES,
    DEAD_LETTER_SWITCH,
    LAST_VALUE_SWITCHES,
    PEER_CHOICES,
    PLACEMENT,
)
from annulet.core.configuration.arguments.table import AXES, COUNTED, PREFIX, Kind, Setting, argument_of
from annulet.core.configuration.arguments.values import COUNT_MAX

PAGE = Path(__file__).resolve().parents[4] / "docs" / "queue-arguments.md"
DEFAULTS = {field.name: field.default for field in dataclasses.fields(QueueSettings)}


def code(text: object) -> str:
    return f"`{text}`"


def other_names(setting: Setting) -> str:
    names = [code(PREFIX + name) for name in setting.also]
    names += [
        code(alias.name) for alias in ALIASES.values() if setting.field in alias.fields and alias.name != setting.name
    ]
    if setting.field == "last_value_key":
        names += [code(name) for name in LAST_VALUE_SWITCHES if not name.startswith(PREFIX)]
    if setting.field == "dead_letter_address":
        names.append(code(DEAD_LETTER_SWITCH))
    return ", ".join(names) or "–"


def allowed(setting: Setting) -> str:
    if setting.kind is Kind.CHOICE:
        words = ", ".join(code(choice) for choice in setting.choices)
        return words + "".join(f"; {code(name)} = {code(value)}" for name, value in setting.values)
    if setting.kind is Kind.WEIGHTS:
        return f"{setting.least:,.0f} to {setting.most:,.0f}, one a level"
    if setting.kind is Kind.PROPERTIES:
        return f"at most {setting.most:,.0f} names of at most 255 bytes"
    if setting.kind in COUNTED:
        most = "2⁶³-1" if setting.most == COUNT_MAX else f"{setting.most:,.0f}"
        return f"{setting.least:,.0f} to {most}" + ("; -1 is off" if setting.off else "")
    if setting.kind is Kind.FACTOR:
        return f"{setting.least:g} to {setting.most:g}"
    if setting.kind in {Kind.PROPERTY, Kind.NAME}:
        return "at most 255 bytes"
    return "–"


def default(setting: Setting) -> str:
    value = DEFAULTS[setting.field]
    if setting.field == "ring_trim_now":
        return code("lazy")
    if setting.field == "group_mode":
        return code("off")
    if value in {"", None, ()}:
        return "none"
    return code(str(value).lower() if isinstance(value, bool) else value)


def rows(settings: tuple[Setting, ...]) -> Iterator[str]:
    yield "| argument | also | unit or type | values | default | changeable | meaning |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for setting in settings:
        cells = [
            code(setting.argument), other_names(setting), setting.kind.value, allowed(setting), default(setting),
            setting.changed or "no", setting.meaning,
        ]  # fmt: skip
        yield f"| {' | '.join(cells)} |"


def peer_rows() -> Iterator[str]:
    yield "| name | from | setting | rule |"
    yield "| --- | --- | --- | --- |"
    for alias in ALIASES.values():
        fields = ", ".join(code(argument_of(field)) for field in alias.fields if field != "last_value_fallback") or "–"
        yield f"| {code(alias.name)} | {alias.peer} | {fields} | {alias.meaning or 'the same value'} |"
    for name, key in LAST_VALUE_SWITCHES.items():
        peer = "Broker-J" if "qpid" in name else "Artemis"
        yield f"| {code(name)} | {peer} | `x-last-value-key` | true: {code(key)} |"
    yield f"| {code(DEAD_LETTER_SWITCH)} | Broker-J | `x-dead-letter-address` | true: the queue's name with `_DLQ` |"
    for name in (*PEER_CHOICES, *sorted(PLACEMENT)):
        yield f"| {code(name)} | RabbitMQ | – | accepted without effect |"


def refusal_rows() -> Iterator[str]:
    yield "| combination | settings | why, and what to do |"
    yield "| --- | --- | --- |"
    for combination in REFUSED:
        fields = ", ".join(code(argument_of(field)) for field in combination.fields if field != "last_value_fallback")
        yield f"| {code(combination.identifier)} | {fields} | {combination.reason} |"


def tables() -> dict[str, str]:
    """Return each generated table by the marker that stands before it in the page."""
    generated = {axis.lower(): "\n".join(rows(settings)) for axis, settings in AXES.items()}
    generated["peers"] = "\n".join(peer_rows())
    generated["refused"] = "\n".join(refusal_rows())
    return generated


def refreshed(text: str) -> str:
    """Return the page with its tables written again."""
    for name, table in tables().items():
        begin, end = f"<!-- table: {name} -->\n", "<!-- end -->"
        head, rest = text.split(begin)
        text = f"{head}{begin}{table}\n{end}" + rest.split(end, 1)[1]
    return text


if __name__ == "__main__":
    PAGE.write_text(refreshed(PAGE.read_text()))
