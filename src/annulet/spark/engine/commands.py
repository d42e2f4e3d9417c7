"""Commands to queues, as rows of a stream say them: which there are, which fields each needs, and how they are read."""

from __future__ import annotations

from typing import Any, Final

import msgspec

TEXTS_MAX: Final = 255
"""Characters of the name of a queue, a session or a consumer, as AMQP 0-9-1 allows them (§4.2.5.3)."""

PRIORITY_MAX: Final = 255
"""AMQP 1.0 §3.2.1: a priority is an octet."""

TIME_MAX: Final = 253_402_300_799_999
"""Milliseconds since 1970: the end of the year 9999, up to which timestamps go (ISO 8601 without agreement)."""

NUMBER_MAX: Final = 2**53
"""Largest number of a message, or of its attempts, that ``restore`` and ``restored`` may give: all later numbers have
to be bigints too, however many there are."""

NESTING_MAX: Final = 64
"""Levels of lists and objects in properties and arguments, which are read and written by recursion."""

PREFETCH: Final = "prefetch"
LINK: Final = "link"

COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "configure": (),
    "publish": (),
    "consume": ("session", "consumer"),
    "credit": ("session", "consumer", "credit"),
    "cancel": ("session", "consumer"),
    "get": ("session",),
    "acknowledge": ("session", "tag"),
    "reject": ("session", "tag"),
    "requeue": ("session", "tag"),
    "release": ("session", "tag"),
    "rollback": ("session",),
    "close": ("session",),
    "pause": (),
    "resume": (),
    "purge": (),
    "expire": (),
    "delete": (),
    "advance": (),
    "restore": ("message",),
    "restored": ("message",),
}
"""Each command with the fields it cannot do without. All need ``queue`` and ``sequence``; ``advance`` without queue is
for all queues."""


class CommandRefused(Exception):
    """A command cannot be carried out; nothing changed. The text has field, value and remedy."""


class Command(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One command. Times are milliseconds since 1970; -1 is no limit where there may be one.

    ``sequence`` orders the commands of a queue and names them: each is carried out once, and only above the latest.
    """

    command: str
    sequence: int
    queue: str | None = None
    at: int = 0
    """When it happens; earlier than the queue's time counts as the queue's time."""
    session: str = ""
    consumer: str = ""
    tag: int = 0
    """Of the delivery a settlement names; with ``multiple`` all up to it, and 0 all."""
    multiple: bool = False
    credit: int = -1
    credit_bytes: int = -1
    credit_mode: str = PREFETCH
    """``prefetch``: the number of messages in delivery at once; ``link``: the number of deliveries until new credit."""
    automatic: bool = False
    """Deliveries are acknowledged when they are made."""
    arguments: dict[str, Any] | None = None
    """Of a queue or a consumer, by the broker's names (``x-ring-size``, ``selector``); of ``expire`` a selection."""
    message_id: str = ""
    properties: dict[str, Any] | None = None
    priority: int = -1
    """-1: not given."""
    group: str = ""
    expires_at: int = 0
    deliver_at: int = 0
    duplicate_id: str = ""
    publisher: str = ""
    connection: str = ""
    """The publishing connection: a consumer with ``no-local`` of a session with this name does not get it."""
    message: int = 0
    """``restore``: the sequence its message had in the queue; ``restored``: the next one."""
    due_at: int = 0
    """``restore``: until when it waits, by its sender's or the queue's wish."""
    delivery_count: int = 0
    redelivered: bool = False
    accepted_at: int = 0


def parse_command(document: str) -> Command:
    """Read a command from JSON. ``arguments`` and ``properties`` may be objects, or texts that contain one.

    Raises :class:`CommandRefused` for an invalid command.
    """
    try:
        command = _decoder.decode(document)
    except (msgspec.DecodeError, RecursionError):
        command = _converted(_object("document", document))  # texts of objects and nulls, or the error
    _check(command)
    return command


_decoder: Final = msgspec.json.Decoder(Command)


def _converted(given: dict[str, Any]) -> Command:
    given = {name: value for name, value in given.items() if value is not None}
    for name in ("arguments", "properties"):
        if isinstance(given.get(name), str):
            given[name] = _object(name, given[name])
    try:
        return msgspec.convert(given, Command)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$.")
        field = place.rstrip("`").split("[")[0].split(".")[0] or _missing(given)
        raise CommandRefused(
            f"field {field!r} is {given.get(field)!r}: {problem}; correct it and send the command with a new sequence"
        ) from error


def _missing(given: dict[str, Any]) -> str:
    return next((name for name in ("command", "sequence") if name not in given), "command")


def _object(name: str, text: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(text)
    except RecursionError as error:
        raise _too_deep(name) from error
    except msgspec.DecodeError as error:
        raise CommandRefused(f"field {name!r} is {text!r}, which is no JSON: {error}; give a JSON object") from error
    if not isinstance(found, dict):
        raise CommandRefused(f"field {name!r} is {text!r}; give a JSON object")
    return found


def _too_deep(name: str) -> CommandRefused:
    return CommandRefused(f"field {name!r} is nested too deep; at most {NESTING_MAX} levels are allowed; flatten it")


def _check_nesting(name: str, given: dict[str, Any] | None) -> None:
    if not given:
        return
    level: list[Any] = [given]
    for _ in range(NESTING_MAX):
        level = [
            item
            for value in level
            for item in (value.values() if isinstance(value, dict) else value)
            if isinstance(item, (dict, list))
        ]
        if not level:
            return
    raise _too_deep(name)


def _check(command: Command) -> None:
    required = COMMANDS.get(command.command)
    if required is None:
        raise CommandRefused(f"field 'command' is {command.command!r}; allowed are {', '.join(COMMANDS)}")
    if not command.queue and command.command != "advance":
        raise CommandRefused(f"field 'queue' is {command.queue!r}: {command.command} needs one; give its name")
    for name in required:
        value = getattr(command, name)
        given = value >= 0 if name == "tag" else value not in ("", -1, 0) or name == "credit"
        if not given:
            raise CommandRefused(f"field {name!r} is {value!r}: {command.command} needs it; give one")
    _check_values(command)


def _check_values(command: Command) -> None:
    for name in ("queue", "session", "consumer"):
        text = getattr(command, name) or ""
        if len(text) > TEXTS_MAX:
            raise CommandRefused(f"field {name!r} has {len(text)} characters; at most {TEXTS_MAX} are allowed")
    if command.credit_mode not in (PREFETCH, LINK):
        raise CommandRefused(f"field 'credit_mode' is {command.credit_mode!r}; allowed are {PREFETCH}, {LINK}")
    if not -1 <= command.priority <= PRIORITY_MAX:
        raise CommandRefused(f"field 'priority' is {command.priority}; allowed are 0 to {PRIORITY_MAX}, or none")
    for name in ("credit", "credit_bytes"):
        if getattr(command, name) < -1:
            raise CommandRefused(
                f"field {name!r} is {getattr(command, name)}; allowed are 0 and more, or -1 for no limit"
            )
    for name in ("at", "expires_at", "deliver_at", "due_at", "accepted_at"):
        if not 0 <= getattr(command, name) <= TIME_MAX:
            raise CommandRefused(
                f"field {name!r} is {getattr(command, name)}; give milliseconds since 1970, at most {TIME_MAX}"
            )
    for name in ("message", "delivery_count"):
        if not 0 <= getattr(command, name) <= NUMBER_MAX:
            raise CommandRefused(f"field {name!r} is {getattr(command, name)}; allowed are 0 to {NUMBER_MAX}")
    for name in ("properties", "arguments"):
        _check_nesting(name, getattr(command, name))
