from __future__ import annotations

from pathlib import Path

import pytest

from annulet.broker.settings.tls_settings import TLS_LISTENERS, TlsOverride, TlsSection, TlsSettingsError, settings_of


def test_a_listener_takes_the_section_and_what_it_overrides() -> None:
    section = TlsSection(
        certificate="c.pem",
        key="~/k.pem",
        minimum_version="1.3",
        stomps=TlsOverride(certificate="s.pem", client_ca="ca.pem", verify="optional", certificate_name="san-dns"),
    )
    amqps, stomps = settings_of(section, "amqps"), settings_of(section, "stomps")
    assert (amqps.certificate, amqps.key) == (Path("c.pem"), Path.home() / "k.pem")
    assert (amqps.verify, amqps.certificate_name, amqps.client_ca) == ("none", "common-name", None)
    assert (stomps.certificate, stomps.key, stomps.client_ca) == (Path("s.pem"), Path.home() / "k.pem", Path("ca.pem"))
    assert (stomps.verify, stomps.certificate_name, stomps.minimum_version) == ("optional", "san-dns", "1.3")


@pytest.mark.parametrize("listener", TLS_LISTENERS)
def test_what_is_missing_is_named(listener: str) -> None:
    with pytest.raises(TlsSettingsError, match=rf"the listener {listener} needs tls.certificate: a PEM file"):
        settings_of(TlsSection(), listener)
    with pytest.raises(TlsSettingsError, match=rf"the listener {listener} needs tls.key: a PEM file"):
        settings_of(TlsSection(certificate="c"), listener)
    with pytest.raises(TlsSettingsError, match=r"verifies clients and needs tls.client_ca"):
        settings_of(TlsSection(certificate="c", key="k", verify="required"), listener)
