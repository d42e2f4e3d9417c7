"""The address settings of a virtual host: set by pattern, merged field by field for an address, with their origin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from annulet.core.base.errors import NotFound
from annulet.core.base.nearest import nearest_name
from annulet.core.base.reply_names import is_reply_name
from annulet.core.base.sealed_names import is_sealed_name
from annulet.core.base.settings import UNLIMITED, QueueSettings
from annulet.core.configuration.address_limits import NO_POLICY, PAGE, AddressLimits
from annulet.core.configuration.address_settings.fields import (
    ADDRESS_SETTINGS,
    MULTICAST,
    AddressSettings,
    parse_address_settings,
    setting_name,
)
from annulet.core.configuration.address_settings.patterns import DEFAULT_SYNTAX, AddressPattern, WildcardSyntax
from annulet.core.configuration.arguments.table import BY_FIELD
from annulet.core.message.message import PropertyValue

RESOLVED_MAX: Final = 10_000
"""Addresses whose merged settings are remembered, about 10 MB; when it is full all are forgotten."""

DEFAULT_ORIGIN: Final = "default"

QUEUE_DEFAULTS: Final = QueueSettings()


@dataclass(frozen=True, slots=True)
class ResolvedSettings:
    """The effective settings of one address. Times in milliseconds, sizes in bytes of bodies, -1 is off.

    The defaults are Artemis's, except that delivery attempts and addresses are unlimited unless set. ``queue`` has the
    values for queues, by field of ``QueueSettings``; ``origins`` the pattern of each value, by field, nothing for
    defaults. ``limits`` combines the settings of limits, as used by every planned send.
    """

    max_size_bytes: int = UNLIMITED
    max_size_messages: int = UNLIMITED
    address_full_policy: str = PAGE
    max_size_bytes_reject_threshold: int = UNLIMITED
    page_limit_bytes: int = UNLIMITED
    page_limit_messages: int = UNLIMITED
    page_full_policy: str = NO_POLICY
    auto_create_queues: bool = True
    auto_create_addresses: bool = True
    auto_delete_queues: bool = True
    auto_delete_addresses: bool = True
    auto_delete_created_queues: bool = False
    auto_delete_queues_delay: int = 0
    auto_delete_queues_message_count: int = 0
    auto_delete_queues_skip_usage_check: bool = False
    auto_delete_addresses_delay: int = 0
    auto_delete_addresses_skip_usage_check: bool = False
    auto_create_dead_letter_resources: bool = False
    dead_letter_queue_prefix: str = "DLQ."
    dead_letter_queue_suffix: str = ""
    auto_create_expiry_resources: bool = False
    expiry_queue_prefix: str = "EXP."
    expiry_queue_suffix: str = ""
    send_to_dla_on_no_route: bool = False
    retroactive_message_count: int = 0
    default_queue_routing_type: str = MULTICAST
    default_address_routing_type: str = MULTICAST
    id_cache_size: int = 20_000
    persist_id_cache: bool = True
    no_expiry: bool = False
    queue: Mapping[str, Any] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    limits: AddressLimits = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        limits = AddressLimits(
            max_bytes=self.max_size_bytes,
            max_messages=self.max_size_messages,
            policy=self.address_full_policy,
            reject_threshold=self.max_size_bytes_reject_threshold,
            page_max_bytes=self.page_limit_bytes,
            page_max_messages=self.page_limit_messages,
            page_policy=self.page_full_policy,
        )
        object.__setattr__(self, "limits", limits)

    @property
    def idle_page_limits(self) -> str:
        """Return why page limits or their policy have no effect; empty where they have one, and without any."""
        limited = self.page_limit_bytes >= 0 or self.page_limit_messages >= 0
        if not limited and self.page_full_policy == NO_POLICY:
            return ""
        if self.page_full_policy == NO_POLICY:
            return "page limits have no effect without 'page-full-policy'; set it to 'drop' or 'fail'"
        if not limited:
            return (
                "'page-full-policy' has no effect without 'page-limit-bytes' or 'page-limit-messages'; set one of them"
            )
        if self.address_full_policy != PAGE:
            return f"page limits have no effect with 'address-full-policy' {self.address_full_policy}: nothing is paged"
        if self.max_size_bytes < 0 and self.max_size_messages < 0:
            return "page limits have no effect without 'max-size-bytes' or 'max-size-messages': nothing is paged"
        return ""

    @property
    def dead_letter_address(self) -> str:
        """Where dead letters of the address's queues go, empty for nowhere."""
        address = self.queue.get("dead_letter_address", "")
        assert isinstance(address, str)
        return address

    @property
    def expiry_address(self) -> str:
        """Where expired messages of the address's queues go, empty for nowhere."""
        address = self.queue.get("expiry_address", "")
        assert isinstance(address, str)
        return address


ADDRESS_FIELDS: Final = tuple(setting.field for setting in ADDRESS_SETTINGS)


class AddressSettingsRepository:
    """All address settings of a virtual host. Each field of an address has the value of the most specific pattern that
    sets it; see :class:`AddressPattern` for the order."""

    def __init__(self, syntax: WildcardSyntax = DEFAULT_SYNTAX) -> None:
        self.syntax = syntax
        self.listeners: list[Callable[[AddressPattern], None]] = []
        """Called with the pattern after each change; ``pattern.matches(address)`` selects the affected addresses."""
        self._entries: dict[str, tuple[AddressPattern, AddressSettings]] = {}
        self._ordered: list[tuple[AddressPattern, AddressSettings]] = []
        self._resolved: dict[str, ResolvedSettings] = {}

    def set(self, pattern: str, settings: AddressSettings | Mapping[str, PropertyValue]) -> None:
        """Set ``settings`` for the pattern, in place of the former ones.

        Raises :class:`InvalidArgument` for a wrong pattern or setting; nothing is changed then.
        """
        compiled = AddressPattern(pattern, self.syntax)
        checked = settings if isinstance(settings, AddressSettings) else parse_address_settings(settings)
        self._entries[pattern] = (compiled, checked)
        self._changed(compiled)

    def remove(self, pattern: str) -> None:
        """Remove the settings of the pattern. Raises :class:`NotFound`, with the nearest pattern."""
        entry = self._entries.pop(pattern, None)
        if entry is None:
            near = nearest_name(pattern, self._entries)
            hint = f"did you mean '{near}'?" if near else f"there are {len(self._entries)}"
            raise NotFound(f"no address settings for the pattern '{pattern}'; {hint}")
        self._changed(entry[0])

    def get(self, pattern: str) -> AddressSettings | None:
        """Return the settings of exactly this pattern."""
        entry = self._entries.get(pattern)
        return None if entry is None else entry[1]

    def patterns(self) -> list[str]:
        """Return all patterns, the most specific first."""
        return [pattern.text for pattern, _ in self._ordered]

    def matching(self, address: str) -> list[str]:
        """Return the patterns that match an address, the most specific first."""
        return [pattern.text for pattern, _ in self._ordered if pattern.matches(address)]

    def resolve(self, address: str) -> ResolvedSettings:
        """Return the effective settings of an address. One look-up if it was called since the last change."""
        resolved = self._resolved.get(address)
        if resolved is None:
            entries = [] if is_reply_name(address) or is_sealed_name(address) else self._ordered
            resolved = _merged([entry for entry in entries if entry[0].matches(address)])
            if len(self._resolved) >= RESOLVED_MAX:
                self._resolved.clear()
            self._resolved[address] = resolved
        return resolved

    def resolve_pattern(self, pattern: str) -> ResolvedSettings:
        """Return the effective settings of an address that matches this pattern, one of :meth:`patterns`, and no
        narrower one.

        As for an address, except that for ``a.#`` the narrower ``a.*`` does not apply. O(patterns).
        """
        first = self.patterns().index(pattern)
        wider = [entry for entry in self._ordered[first + 1 :] if entry[0].matches(pattern)]
        return _merged([self._ordered[first], *wider])

    def explain(self, address: str) -> dict[str, tuple[Any, str]]:
        """Return each setting of an address by its canonical name: the value, and its pattern or "default".

        Settings of queues are included if a pattern sets them.
        """
        resolved = self.resolve(address)
        explained = {
            setting_name(name): (getattr(resolved, name), resolved.origins.get(name, DEFAULT_ORIGIN))
            for name in ADDRESS_FIELDS
        }
        for name, value in resolved.queue.items():
            if name in BY_FIELD:
                explained[setting_name(name)] = (value, resolved.origins[name])
        return explained

    def _changed(self, pattern: AddressPattern) -> None:
        self._ordered = sorted(self._entries.values(), key=lambda entry: entry[0].specificity)
        self._resolved.clear()
        for listener in self.listeners:
            listener(pattern)


def _merged(entries: list[tuple[AddressPattern, AddressSettings]]) -> ResolvedSettings:
    """Merge settings, the most specific first."""
    values: dict[str, Any] = {}
    queue: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for pattern, settings in entries:
        for name, value in settings.values.items():
            if name not in origins:
                origins[name] = pattern.text
                (queue if hasattr(QUEUE_DEFAULTS, name) else values)[name] = value
    return ResolvedSettings(queue=queue, origins=origins, **values)
