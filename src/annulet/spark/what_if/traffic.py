"""Recorded messages for the core: no bodies, only the properties that queues use."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

from annulet.core.message.message import (
    DEFAULT_PRIORITY,
    ContentView,
    Message,
    Origin,
    PropertyValue,
    StandardProperties,
)


@dataclass(frozen=True, slots=True)
class Arrival:
    """One recorded message. Times in milliseconds since 1970; ``expires_at`` 0 for never; ``size`` in bytes."""

    at: int
    size: int = 0
    priority: int = DEFAULT_PRIORITY
    expires_at: int = 0
    group_id: str = ""
    properties: dict[str, str] = field(default_factory=dict)


class RecordedView(ContentView):
    """The properties of one recorded message."""

    def __init__(self, arrival: Arrival) -> None:
        super().__init__("recorded")
        self._application: dict[str, PropertyValue] = dict(arrival.properties)
        self._group_id = arrival.group_id

    def properties(self, message: Message) -> StandardProperties:
        """Return its application properties and its group."""
        del message
        return StandardProperties(group_id=self._group_id, application=self._application)

    def application_property(self, message: Message, name: str) -> PropertyValue:
        """Return one of them."""
        del message
        return self._application.get(name)

    def given_priority(self, message: Message) -> int:
        """Return the priority: the archive does not tell whether the sender gave it."""
        return message.priority

    def deliver_at(self, message: Message) -> int:
        """Return 0: its delay was over when it was archived."""
        del message
        return 0

    def schedule_id(self, message: Message) -> str:
        """Return none."""
        del message
        return ""

    def duplicate_id(self, message: Message) -> str:
        """Return none: recorded messages were accepted."""
        del message
        return ""


def message_of(arrival: Arrival) -> Message:
    """Return the message of an arrival, its body as long as it was and empty of meaning."""
    return Message(
        b"",
        _body(arrival.size),
        Origin("", "", "recorded", RecordedView(arrival)),
        priority=arrival.priority,
        accepted_at=arrival.at,
        expires_at=arrival.expires_at,
    )


@cache
def _body(size: int) -> bytes:
    return bytes(size)
