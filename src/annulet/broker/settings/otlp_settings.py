"""The section ``[otlp]`` of the configuration: the collector that gets metrics and spans."""

from __future__ import annotations

import urllib.parse
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from pathlib import Path

METRICS_SECONDS: Final = 60
"""Between two pushes of metrics: the interval of OpenTelemetry's own readers."""
METRICS_SECONDS_LEAST: Final = 5
METRICS_SECONDS_MAX: Final = 3600


class OtlpSection(msgspec.Struct, frozen=True):
    """``[otlp]``; off without ``endpoint``."""

    endpoint: str | None = None  # without path: /v1/metrics and /v1/traces are added
    headers: dict[str, str] = {}
    ca_file: str | None = None  # PEM; the system's authorities unless it is given
    metrics_seconds: int = METRICS_SECONDS  # 0: no metrics
    spans: bool = True


class OtlpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The section with every value valid."""

    endpoint: str
    headers: dict[str, str] = {}
    ca_file: Path | None = None
    metrics_seconds: float = METRICS_SECONDS
    spans: bool = True


class OtlpSettingsError(Exception):
    """A setting is missing or wrong. The text names the setting, its value and the remedy."""


def otlp_settings(section: OtlpSection, folder: Path) -> OtlpSettings | None:
    """Return the settings, ``None`` without any; paths are in ``folder``. Raises :class:`OtlpSettingsError`."""
    if section.endpoint is None:
        if section != OtlpSection():
            raise OtlpSettingsError("otlp.endpoint is missing: the address of the collector, usually port 4318")
        return None
    try:
        parts = urllib.parse.urlsplit(section.endpoint)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        usable = False
    if "@" in section.endpoint:  # logs and errors would show it
        raise OtlpSettingsError(
            "otlp.endpoint has a user and a password; give them as otlp.headers, Authorization = 'Basic ...'"
        )
    if not usable:
        raise OtlpSettingsError(f"otlp.endpoint: {section.endpoint!r} is no address such as http://localhost:4318")
    seconds = section.metrics_seconds
    if seconds and not METRICS_SECONDS_LEAST <= seconds <= METRICS_SECONDS_MAX:
        raise OtlpSettingsError(
            f"otlp.metrics_seconds={seconds} is not within {METRICS_SECONDS_LEAST} to {METRICS_SECONDS_MAX}; 0 is never"
        )
    return OtlpSettings(
        endpoint=section.endpoint.rstrip("/"),
        headers=section.headers,
        ca_file=None if section.ca_file is None else folder / section.ca_file,
        metrics_seconds=seconds,
        spans=section.spans,
    )
