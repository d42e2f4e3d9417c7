"""The section ``[tls]`` of the configuration: certificates of the TLS listeners, and the requirements for clients."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

import msgspec

TlsVerify = Literal["none", "optional", "required"]
CertificateName = Literal["common-name", "distinguished-name", "san-dns", "san-email"]
TlsVersion = Literal["1.2", "1.3"]

TLS_LISTENERS: Final = ("amqps", "stomps", "https", "bulks")
"""The TLS listeners; each stands beside the plain one without the ``s``."""


class TlsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one TLS listener. Files are PEM."""

    certificate: Path  # with the chain of intermediate certificates behind it
    key: Path  # not encrypted
    client_ca: Path | None = None  # authorities for certificates of clients; needed unless verify is none
    verify: TlsVerify = "none"  # optional: clients without a certificate may connect; those with a wrong one may not
    minimum_version: TlsVersion = "1.2"
    ciphers: str = ""  # OpenSSL's cipher list for TLS 1.2; empty: the defaults of this Python
    certificate_name: CertificateName = "common-name"  # which part of a client certificate names the user


class TlsOverride(msgspec.Struct):
    """``[tls.amqps]`` and so on: the differences from ``[tls]`` for one listener."""

    certificate: str | None = None
    key: str | None = None
    client_ca: str | None = None
    verify: TlsVerify | None = None
    minimum_version: TlsVersion | None = None
    ciphers: str | None = None
    certificate_name: CertificateName | None = None


class TlsSection(TlsOverride):
    """``[tls]``: for all TLS listeners, with a table for each that differs."""

    amqps: TlsOverride = msgspec.field(default_factory=TlsOverride)
    stomps: TlsOverride = msgspec.field(default_factory=TlsOverride)
    https: TlsOverride = msgspec.field(default_factory=TlsOverride)
    bulks: TlsOverride = msgspec.field(default_factory=TlsOverride)


class TlsSettingsError(Exception):
    """A setting is missing. The text names the setting and the remedy."""


def settings_of(section: TlsSection, listener: str, folder: Path = Path()) -> TlsSettings:
    """Return what a listener uses; paths are relative to ``folder``. Raises :class:`TlsSettingsError`."""
    override: TlsOverride = getattr(section, listener)
    values: dict[str, Any] = {}
    for field in TlsOverride.__struct_fields__:
        own = getattr(override, field)
        value = getattr(section, field) if own is None else own
        if value is not None:
            is_path = field in {"certificate", "key", "client_ca"}
            values[field] = folder / Path(value).expanduser() if is_path else value
    for field in ("certificate", "key"):
        if field not in values:
            raise TlsSettingsError(f"the listener {listener} needs tls.{field}: a PEM file")
    if values.get("verify", "none") != "none" and "client_ca" not in values:
        raise TlsSettingsError(
            f"the listener {listener} verifies clients and needs tls.client_ca: a PEM file of their authorities"
        )
    return TlsSettings(**values)
