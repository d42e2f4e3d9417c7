"""Values of settings as people write them: addresses of listeners, amounts of memory; and the errors about them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from annulet.core.base.errors import InvalidArgument
from annulet.core.configuration.address_settings.patterns import AddressPattern

LOOPBACK: Final = "127.0.0.1"


class StartError(Exception):
    """The broker cannot start. The text is one line with the defect and its remedy."""


class ConfigurationError(StartError):
    """A setting is unknown, malformed or out of range. The text names the setting, its value and the remedy."""


class Endpoint(msgspec.Struct, frozen=True):
    """Where a listener listens. Port 0 lets the system choose a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_endpoint(text: str, default_port: int) -> Endpoint:
    """Parse ``HOST:PORT``, ``HOST``, ``PORT``, ``:PORT`` (both loopback) or ``[IPv6]:PORT``.

    A number alone is a port: as a host it would be an address, 5672 that of 0.0.22.40. Raises
    :class:`ConfigurationError`.
    """
    if re.fullmatch(r"\s*[0-9]+\s*", text):
        text = f":{text.strip()}"
    match = re.fullmatch(r"(?:\[(?P<six>[^\]]+)\]|(?P<host>[^:\[\]]*))(?::(?P<port>.*))?", text.strip())
    if match is None or not text.strip():
        raise ConfigurationError(f"{text!r} is not HOST:PORT; write an IPv6 address as [::1]:{default_port}")
    host = match["six"] or match["host"] or LOOPBACK
    if re.search(r"\s", host):
        raise ConfigurationError(f"{text!r} is not HOST:PORT: white space in the host")
    port_text = match["port"]
    if port_text is None:
        port_text = str(default_port)
    if not re.fullmatch(r"[0-9]{1,5}", port_text) or int(port_text) > 65_535:
        raise ConfigurationError(f"{text!r}: port {port_text!r} is not a number from 0 to 65535")
    if _is_short_address(host):
        raise ConfigurationError(f"{text!r}: host {host!r} is no address in four parts; write 127.0.0.1:{default_port}")
    return Endpoint(host, int(port_text))


def _is_short_address(host: str) -> bool:
    """Return whether the system takes a host for an address though it has not its four numbers: 5672, 0x10, 127.1."""
    if host.replace(".", "").isdecimal():  # digits of other scripts too, which names are normalised from
        return re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,3}){3}", host, re.ASCII) is None
    return re.fullmatch(r"(?i)(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+))*", host) is not None


def parse_memory(value: int | str) -> int:
    """Parse bytes: ``2000000000``, ``"512 MiB"``, ``"2GB"``, ``"40%"`` of the machine. Raises ConfigurationError."""
    if isinstance(value, int):
        return value
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(%|[KMGT]i?B|B)?\s*", value)
    if match is None:
        raise ConfigurationError(f"{value!r} is not an amount of memory; write bytes, 512MiB, 2GB or 40%")
    number, unit = float(match[1]), match[2] or "B"
    if unit == "%":
        if number > 100:
            raise ConfigurationError(f"{value!r} is more than the machine has")
        return int(machine_memory_bytes() * number / 100)
    base = 1024 if "i" in unit else 1000
    return int(number * base ** " KMGT".index(unit[0])) if unit != "B" else int(number)


def physical_memory_bytes() -> int:
    """Return the memory of the machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def machine_memory_bytes(limit_file: Path = Path("/sys/fs/cgroup/memory.max")) -> int:
    """Return the memory this process may use: the machine's, or its container's when that is less."""
    total = physical_memory_bytes()
    try:
        text = limit_file.read_text().strip()
    except OSError:  # no control groups here, so no container limit
        return total
    return min(total, int(text)) if text.isdigit() else total


def parse_patterns(source: str, texts: list[str]) -> tuple[str, ...]:
    """Return patterns of names, as address settings have them. Raises :class:`ConfigurationError`."""
    for text in texts:
        try:
            AddressPattern(text)
        except InvalidArgument as error:
            raise ConfigurationError(f"{source}: {error}") from error
    return tuple(texts)


def merge(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``low`` with the members of ``high`` put over it, table by table."""
    merged = dict(low)
    for name, value in high.items():
        below = merged.get(name)
        merged[name] = merge(below, value) if isinstance(value, Mapping) and isinstance(below, Mapping) else value
    return merged
