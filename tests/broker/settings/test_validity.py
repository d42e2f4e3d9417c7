from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from cryptography import x509

from annulet.broker.settings.validity import CertificateError, validity_of
from tests.certificates import Certificates


@pytest.mark.parametrize("year", [2031, 2049, 2050, 2222])  # UTCTime ends with 2049 (RFC 5280 §4.1.2.5)
def test_validity_agrees_with_another_reader(tmp_path: Path, year: int) -> None:
    certificates = Certificates(tmp_path)
    file, _ = certificates.issue("other", "localhost", ends=dt.datetime(year, 12, 31, 23, 59, 58, tzinfo=dt.UTC))
    expected = x509.load_pem_x509_certificate(file.read_bytes())
    assert validity_of(file.read_text()) == (expected.not_valid_before_utc, expected.not_valid_after_utc)


def test_what_is_no_certificate(tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match="no PEM certificate"):
        validity_of("text")
    text = Certificates(tmp_path).certificate.read_text()
    lines = text.splitlines()
    for broken in (
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
        "-----BEGIN CERTIFICATE-----\n*\n-----END CERTIFICATE-----",
        "\n".join([*lines[:3], "-----END CERTIFICATE-----"]),
    ):
        with pytest.raises(CertificateError, match="not a certificate as RFC 5280 prescribes"):
            validity_of(broken)
