"""What the driver knows of a link, and Proton's link options from what a command names."""

from __future__ import annotations

from collections import deque
from typing import Any

import proton
from proton.reactor import Filter, LinkOption
from values import from_json

NO_LOCAL_CODE = 0x0000468C00000003
SELECTOR_CODE = 0x0000468C00000004
EXPIRY_POLICIES = {
    "link-detach": proton.Terminus.EXPIRE_WITH_LINK,
    "session-end": proton.Terminus.EXPIRE_WITH_SESSION,
    "connection-close": proton.Terminus.EXPIRE_WITH_CONNECTION,
    "never": proton.Terminus.EXPIRE_NEVER,
}
DISTRIBUTION_MODES = {
    "": proton.Terminus.DIST_MODE_UNSPECIFIED,
    "copy": proton.Terminus.DIST_MODE_COPY,
    "move": proton.Terminus.DIST_MODE_MOVE,
}


class LinkRecord:
    """A link, what has come on it and how it ended."""

    def __init__(self, link: proton.Link) -> None:
        self.link = link
        self.waiting: deque[tuple[proton.Delivery, proton.Message]] = deque()
        self.deliveries: dict[str, proton.Delivery] = {}
        self.taken = 0
        self.aborted = 0
        self.closed: Any = None


class LinkSettings(LinkOption):
    """Sets what the standard lets a link ask for; ``terminus`` is "source" or "target"."""

    def __init__(self, terminus: str, settings: dict[str, Any]) -> None:
        self.terminus = terminus
        self.settings = settings

    def apply(self, link: proton.Link) -> None:
        settings = self.settings
        terminus = getattr(link, self.terminus)
        for name in ("snd_settle_mode", "rcv_settle_mode", "max_message_size"):
            if name in settings:
                setattr(link, name, settings[name])
        if "properties" in settings:
            link.properties = {proton.symbol(name): from_json(one) for name, one in settings["properties"].items()}
        for name in ("durability", "timeout"):
            if name in settings:
                setattr(terminus, name, settings[name])
        if "expiry_policy" in settings:
            terminus.expiry_policy = EXPIRY_POLICIES[settings["expiry_policy"]]
        if "distribution_mode" in settings:
            terminus.distribution_mode = DISTRIBUTION_MODES[settings["distribution_mode"]]
        if settings.get("without_source"):
            terminus.type = proton.Terminus.UNSPECIFIED
        if settings.get("dynamic"):
            terminus.dynamic = True
            terminus.address = None
        if "node_properties" in settings:
            entries = {proton.symbol(name): from_json(one) for name, one in settings["node_properties"].items()}
            terminus.properties.put_dict(entries)
        if "capabilities" in settings:
            names = [proton.symbol(name) for name in settings["capabilities"]]
            terminus.capabilities.put_object(proton.Array(proton.UNDESCRIBED, proton.Data.SYMBOL, *names))

    def test(self, link: proton.Link) -> bool:
        return True


def sender_options(settings: dict[str, Any]) -> list[LinkOption]:
    """Return the options of a link that sends."""
    return [LinkSettings("target", settings)]


def receiver_options(settings: dict[str, Any]) -> list[LinkOption]:
    """Return the options of a link that receives; ``selector`` and ``no_local`` become filters."""
    options: list[LinkOption] = [LinkSettings("source", settings)]
    filters = {}
    if "selector" in settings:
        name = proton.symbol("apache.org:selector-filter:string")
        filters[name] = proton.Described(proton.ulong(SELECTOR_CODE), settings["selector"])
    if settings.get("no_local"):
        name = proton.symbol("apache.org:no-local-filter:list")
        filters[name] = proton.Described(proton.ulong(NO_LOCAL_CODE), [])
    for name, (descriptor, value) in settings.get("filters", {}).items():
        filters[proton.symbol(name)] = proton.Described(proton.symbol(descriptor), from_json(value))
    if filters:
        options.append(Filter(filters))
    return options


def detail_outcome(
    outcome: proton.Disposition, *, failed: bool = False, undeliverable: bool = False,
    annotations: dict[str, Any] | None = None, condition: list[Any] | None = None,
) -> None:  # fmt: skip
    """Set what belongs to the outcomes modified (§3.4.5) and rejected (§3.4.3)."""
    outcome.failed = failed
    outcome.undeliverable = undeliverable
    if annotations is not None:
        outcome.annotations = {proton.symbol(key): from_json(one) for key, one in annotations.items()}
    if condition is not None:
        name, description, info = condition
        entries = {proton.symbol(key): from_json(one) for key, one in info.items()}
        outcome.condition = proton.Condition(name, description, entries or None)


def name_of(value: int, names: dict[str, int]) -> str:
    """Return the standard's name of one of Proton's numbers."""
    return next(name for name, number in names.items() if number == value)


def names_in(data: proton.Data) -> list[str]:
    """Return a field's symbols, or the keys of its map; empty when it is not given."""
    data.rewind()
    if not data.next():
        return []
    found = data.get_object()
    if isinstance(found, dict):
        return sorted(str(key) for key in found)
    return [str(one) for one in found.elements] if isinstance(found, proton.Array) else [str(found)]


def terminus_facts(link: proton.Link) -> dict[str, Any]:
    """Return what the peer's attach says."""
    terminus = link.remote_target if link.is_sender else link.remote_source
    return {
        "address": terminus.address,
        "dynamic": bool(terminus.dynamic),
        "durability": int(terminus.durability),
        "distribution_mode": name_of(terminus.distribution_mode, DISTRIBUTION_MODES),
        "expiry_policy": name_of(terminus.expiry_policy, EXPIRY_POLICIES),
        "timeout": int(terminus.timeout),
        "capabilities": names_in(terminus.capabilities),
        "filter": names_in(terminus.filter),
        "snd_settle_mode": int(link.remote_snd_settle_mode),
        "rcv_settle_mode": int(link.remote_rcv_settle_mode),
        "max_message_size": int(link.remote_max_message_size),
        "properties": sorted(map(str, link.remote_properties or {})),
    }
