"""Settings for many addresses at once, by pattern, and the resolution of a queue's settings from all sources.

The precedence is one for all: declared argument, then policy, then address setting, then default.
"""

from __future__ import annotations

from annulet.core.configuration.address_settings.fields import (
    AddressSettings,
    describe_address_settings,
    parse_address_settings,
)
from annulet.core.configuration.address_settings.patterns import AddressPattern, WildcardSyntax
from annulet.core.configuration.address_settings.policies import Policy, PolicyRepository
from annulet.core.configuration.address_settings.repository import AddressSettingsRepository, ResolvedSettings
from annulet.core.configuration.address_settings.resolution import ResolvedQueue, change_queue, refresh, resolve_queue

__all__ = [
    "AddressPattern",
    "AddressSettings",
    "AddressSettingsRepository",
    "Policy",
    "PolicyRepository",
    "ResolvedQueue",
    "ResolvedSettings",
    "WildcardSyntax",
    "change_queue",
    "describe_address_settings",
    "parse_address_settings",
    "refresh",
    "resolve_queue",
]
