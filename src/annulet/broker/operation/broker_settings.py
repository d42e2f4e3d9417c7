"""The settings of the whole broker: each with its value, where that comes from, and changes at run time.

A change lasts over restarts until it is taken back, unless the file or the command line gives the setting: these count
at every start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from annulet.broker.settings.configuration import UNDO_SECONDS_MAX, BrokerConfiguration
from annulet.core.base.errors import InvalidArgument, NotFound
from annulet.core.base.nearest import nearest_name
from annulet.store.database.catalogue import OPERATOR_BROKER

if TYPE_CHECKING:
    from annulet.broker.operation.undo_window import UndoWindow
    from annulet.store.database.catalogue import Catalogue

RUN_TIME: Final = "run time"
DEFAULT: Final = "default"

NAMES: Final = {
    "data_directory": "data",
    "memory_limit_bytes": "memory_limit",
    "body_budget_bytes": "body_budget",
    "spill_limit_bytes": "spill_limit",
    "log_format": "log.format",
    "log_level": "log.level",
    "amqp": "listeners.amqp",
    "stomp": "listeners.stomp",
    "http": "listeners.http",
    "bulk": "listeners.bulk",
    "amqps": "listeners.amqps",
    "stomps": "listeners.stomps",
    "https": "listeners.https",
    "bulks": "listeners.bulks",
}
"""Fields of the configuration whose setting has another name in the file."""

NOT_LISTED: Final = frozenset(
    {"users", "first_user", "definitions", "tls", "oidc", "otlp", "limits", "bulk_required", "origins"}
)
"""Fields that are no single value: they have resources of their own."""

UNITS: Final = {
    "memory_limit": "bytes",
    "body_budget": "bytes",
    "spill_limit": "bytes",
    "event_queue_bytes": "bytes",
    "undo_bytes": "bytes",
    "undo_seconds": "seconds",
    "heartbeat": "seconds",
    "handshake_timeout": "seconds",
    "consumer_timeout": "milliseconds",
    "frame_max": "bytes",
    "channel_max": "channels",
}


@dataclass(frozen=True, slots=True)
class Changeable:
    """A setting that may change at run time, an integer within a range, both ends included."""

    least: int
    most: int
    read: Callable[[UndoWindow], int]
    apply: Callable[[UndoWindow, int], None]


def _set_seconds(window: UndoWindow, value: int) -> None:
    window.seconds = value


def _set_bytes(window: UndoWindow, value: int) -> None:
    window.bytes_max = value


CHANGEABLE: Final[dict[str, Changeable]] = {
    "undo_seconds": Changeable(0, UNDO_SECONDS_MAX, lambda window: window.seconds, _set_seconds),
    "undo_bytes": Changeable(0, 1 << 40, lambda window: window.bytes_max, _set_bytes),
}
"""What may change while the broker runs."""


class BrokerSettings:
    """The settings of one broker. Raises ``CatalogueError`` as the catalogue does."""

    def __init__(self, configuration: BrokerConfiguration, catalogue: Catalogue, undo: UndoWindow) -> None:
        self._configuration = configuration
        self._catalogue = catalogue
        self._undo = undo
        self._changed: set[str] = set()
        for name, value in catalogue.operator_settings(OPERATOR_BROKER, "").items():
            given = value.get("value")
            if name in CHANGEABLE and name not in configuration.origins and isinstance(given, int):
                CHANGEABLE[name].apply(undo, given)
                self._changed.add(name)

    def all(self) -> list[dict[str, Any]]:
        """Return every setting: name, value, unit, default, where the value comes from, whether it may change."""
        found = [
            self._described(NAMES.get(field.name, field.name), getattr(self._configuration, field.name), field)
            for field in msgspec.structs.fields(BrokerConfiguration)
            if field.name not in NOT_LISTED
        ]
        limits = self._configuration.limits
        found += [
            self._described(f"limits.{field.name}", getattr(limits, field.name), field)
            for field in msgspec.structs.fields(limits)
        ]
        return sorted(found, key=lambda item: str(item["name"]))

    def one(self, name: str) -> dict[str, Any]:
        """Return one setting. Raises :class:`NotFound` with the nearest name."""
        every = {str(item["name"]): item for item in self.all()}
        if name not in every:
            near = nearest_name(name, list(every))
            raise NotFound(f"no setting '{name}'" + (f"; did you mean '{near}'?" if near else ""))
        return every[name]

    def change(self, name: str, value: int) -> dict[str, Any]:
        """Change a setting now and for later starts, and return it.

        Raises :class:`NotFound`, and :class:`InvalidArgument` for one that takes a restart, or a value out of range.
        """
        changeable = self._changeable(name)
        if not changeable.least <= value <= changeable.most:
            raise InvalidArgument(
                f"{name}={value}: give an integer from {changeable.least} to {changeable.most}"
                f" ({UNITS.get(name, 'a number')})"
            )
        self._catalogue.set_operator_setting(OPERATOR_BROKER, "", name, {"value": value})
        changeable.apply(self._undo, value)
        self._changed.add(name)
        return self.one(name)

    def take_back(self, name: str) -> dict[str, Any]:
        """Let the configuration's value hold again, and return the setting. Raises as :meth:`change`."""
        changeable = self._changeable(name)
        self._catalogue.delete_operator_setting(OPERATOR_BROKER, "", name)
        changeable.apply(self._undo, getattr(self._configuration, name))
        self._changed.discard(name)
        return self.one(name)

    def _changeable(self, name: str) -> Changeable:
        if name not in CHANGEABLE:
            self.one(name)
            raise InvalidArgument(f"setting '{name}' takes a restart: change it in the file or on the command line")
        return CHANGEABLE[name]

    def _described(self, name: str, value: Any, field: msgspec.structs.FieldInfo) -> dict[str, Any]:
        changeable = CHANGEABLE.get(name)
        origin = self._configuration.origins.get(name, DEFAULT)
        if changeable is not None:
            value = changeable.read(self._undo)
            origin = RUN_TIME if name in self._changed else origin
        default = None if field.default is msgspec.NODEFAULT else _plain(field.default)
        return {
            "name": name,
            "value": _plain(value),
            "unit": UNITS.get(name, ""),
            "default": default,
            "origin": origin,
            "changeable": changeable is not None,
        }


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return str(value)
