from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import os
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
import structlog

from annulet.broker.security import tls
from annulet.broker.security.tls import TlsError, TlsListener, certificate_name, make_context, peer_facts
from annulet.broker.settings.configuration import BrokerConfiguration
from tests.certificates import Certificates


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def refusal(certificates: Certificates, **settings: Any) -> str:
    with pytest.raises(TlsError) as caught:
        make_context("amqps", certificates.settings(**settings))
    return str(caught.value)


def test_files_that_cannot_be_used_are_named_with_the_remedy(certificates: Certificates, tmp_path: Path) -> None:
    absent, text = tmp_path / "absent.pem", tmp_path / "text.pem"
    text.write_text("text")
    _, other_key = certificates.issue("other", "localhost")
    for field in ("certificate", "key", "client_ca"):
        message = refusal(certificates, **{field: absent})
        assert message.startswith(f"tls of listener amqps: {field} {absent} cannot be read: No such file")
        assert f"set tls.{field} to a PEM file" in message
    assert f"certificate {text} is not a PEM file" in refusal(certificates, certificate=text)
    assert f"key {text} is not a PEM file" in refusal(certificates, key=text)
    assert f"client_ca {text} holds no PEM certificate" in refusal(certificates, client_ca=text)
    message = refusal(certificates, key=other_key)
    assert f"key {other_key} does not belong to certificate {certificates.certificate}; set the pair" in message
    assert "ciphers 'NONE-SUCH' selects none" in refusal(certificates, ciphers="NONE-SUCH")


@pytest.mark.debian
def test_an_encrypted_key_is_refused_without_asking(certificates: Certificates, tmp_path: Path) -> None:
    encrypted = tmp_path / "encrypted.key"
    command = ["openssl", "pkey", "-in", str(certificates.key), "-aes256", "-passout", "pass:x", "-out", str(encrypted)]
    subprocess.run(command, check=True)
    assert f"key {encrypted} is encrypted; store it without: openssl pkey" in refusal(certificates, key=encrypted)


def test_settings_reach_the_context(certificates: Certificates) -> None:
    context = make_context("amqps", certificates.settings())
    assert (context.minimum_version, context.verify_mode) == (ssl.TLSVersion.TLSv1_2, ssl.CERT_NONE)
    context = make_context("amqps", certificates.settings(minimum_version="1.3", verify="optional"))
    assert (context.minimum_version, context.verify_mode) == (ssl.TLSVersion.TLSv1_3, ssl.CERT_OPTIONAL)
    context = make_context("amqps", certificates.settings(verify="required", ciphers="ECDHE-RSA-AES256-GCM-SHA384"))
    assert context.verify_mode == ssl.CERT_REQUIRED
    older = [cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] != "TLSv1.3"]
    assert older == ["ECDHE-RSA-AES256-GCM-SHA384"]


@pytest.mark.parametrize(
    ("ends", "event"),
    [
        (dt.timedelta(days=-1), "the certificate has expired"),
        (dt.timedelta(days=tls.EXPIRY_WARNING_DAYS - 1), "the certificate expires soon"),
        (dt.timedelta(days=tls.EXPIRY_WARNING_DAYS + 1), None),
    ],
)
def test_certificates_near_their_end_are_warned_of(
    certificates: Certificates, ends: dt.timedelta, event: str | None
) -> None:
    when = dt.datetime.now(dt.UTC) + ends
    certificate, key = certificates.issue("ending", "localhost", ends=when)
    with structlog.testing.capture_logs() as logs:
        TlsListener("amqps", certificates.settings(certificate=certificate, key=key))
    assert [line["event"] for line in logs] == ([] if event is None else [event])


def test_changed_files_are_read_again_and_broken_ones_left(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = certificates.issue("renewed", "localhost")
    listener = TlsListener("amqps", certificates.settings(certificate=certificate, key=key))
    first = listener.context
    monkeypatch.setattr(tls, "RENEWAL_SECONDS", 0.0)
    listener.renew()
    assert listener.context is first, "nothing has changed"
    certificates.issue("renewed", "localhost")
    os.utime(certificate, ns=(1, 1))
    listener.renew()
    assert listener.context is not first
    assert listener.renewals == 1
    second = listener.context
    certificate.write_text("half written")
    with structlog.testing.capture_logs() as logs:
        listener.renew()
    assert listener.context is second
    assert [line["event"] for line in logs] == ["certificates changed and cannot be used; the old ones stay"]
    certificates.issue("renewed", "localhost")
    listener.renew()
    assert listener.renewals == 2


def test_files_that_go_away_while_they_are_read_leave_the_old_ones(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "RENEWAL_SECONDS", 0.0)
    monkeypatch.setattr(tls, "_check_readable", lambda *_: None)  # it was there a moment before
    certificate, key = certificates.issue("fleeting", "localhost")
    listener = TlsListener("bulks", certificates.settings(certificate=certificate, key=key))
    first = listener.context
    certificate.unlink()
    with structlog.testing.capture_logs() as logs:
        listener.renew()
    assert listener.context is first
    assert "a file went away while it was read" in logs[0]["error"]
    certificates.issue("fleeting", "localhost")
    listener.renew()
    assert listener.renewals == 1


def test_files_are_not_looked_at_on_every_tick(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    listener = TlsListener("amqps", certificates.settings())
    monkeypatch.setattr(listener, "_stamps", lambda: pytest.fail("looked too early"))
    listener.renew()
    assert listener.renewals == 0


def test_only_bulk_transfer_speaks_http2(certificates: Certificates) -> None:
    """Clients of Arrow Flight end a hand-shake that does not agree on ``h2``; others offer no such choice."""
    for name, agreed in (("bulks", "h2"), ("amqps", None)):
        context = TlsListener(name, certificates.settings()).context
        client = certificates.client_context()
        client.set_alpn_protocols(["h2"])
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        ends = [
            context.wrap_bio(to_server, to_client, server_side=True),
            client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        ]
        for _ in range(4):
            for end in ends:
                with contextlib.suppress(ssl.SSLWantReadError):
                    end.do_handshake()
        assert ends[1].selected_alpn_protocol() == agreed


# ---------------------------------------------------------------------- names

SUBJECT = ((("countryName", "DE"),), (("organizationName", "Acme, Inc."),), (("commonName", "alice"),))
CERTIFICATE = {
    "subject": SUBJECT,
    "subjectAltName": (("DNS", "a.example"), ("DNS", "b.example"), ("email", "a@example"), ("IP Address", "::1")),
}


@pytest.mark.parametrize(
    ("which", "name"),
    [
        ("common-name", "alice"),
        ("distinguished-name", "CN=alice,O=Acme\\, Inc.,C=DE"),
        ("san-dns", "a.example"),
        ("san-email", "a@example"),
    ],
)
def test_names_of_certificates(which: Any, name: str) -> None:
    assert certificate_name(CERTIFICATE, which) == name
    assert certificate_name({}, which) == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [("#a", "CN=\\#a"), (" a ", "CN=\\ a\\ "), ('a"b\\c<d>e;f+g', 'CN=a\\"b\\\\c\\<d\\>e\\;f\\+g'), (" ", "CN=\\ ")],
)
def test_distinguished_names_are_escaped(value: str, text: str) -> None:
    assert certificate_name({"subject": ((("commonName", value),),)}, "distinguished-name") == text


def test_parts_of_one_relative_name_and_unknown_attributes() -> None:
    subject = ((("commonName", "a"), ("serialNumber", "7")),)
    assert certificate_name({"subject": subject}, "distinguished-name") == "CN=a+serialNumber=7"


class FakeTransport(asyncio.BaseTransport):
    def __init__(self, **facts: Any) -> None:
        super().__init__(facts)


class FakeConnection:
    def getpeercert(self) -> dict[str, Any]:
        return CERTIFICATE


@pytest.mark.parametrize(("verify", "name"), [("none", ""), ("optional", "alice"), ("required", "alice")])
def test_facts_of_a_peer(certificates: Certificates, verify: str, name: str) -> None:
    configuration = BrokerConfiguration(tls={"amqps": certificates.settings(verify=verify)})
    facts = peer_facts(FakeTransport(peername=("10.0.0.1", 7)), configuration)
    assert (facts.address, facts.port, facts.is_loopback, facts.tls) == ("10.0.0.1", 7, False, False)
    transport = FakeTransport(peername=("::1", 7, 0, 0), ssl_object=FakeConnection())
    facts = peer_facts(transport, configuration)
    assert (str(facts), facts.is_loopback, facts.tls, facts.certificate_name) == ("[::1]:7", True, True, name)
    assert peer_facts(transport, configuration, "stomps").certificate_name == "", "another listener's settings"
    assert peer_facts(FakeTransport(), configuration).address == ""
