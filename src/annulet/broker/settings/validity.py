"""From when to when a certificate is valid: the one fact that Python's ``ssl`` does not tell of our own certificate.

Reads as much DER (X.690) as a certificate needs up to its field ``validity`` (RFC 5280 §4.1).
"""

from __future__ import annotations

import re
import ssl
from datetime import UTC, datetime
from typing import Final

INTEGER: Final = 0x02
SEQUENCE: Final = 0x30
VERSION: Final = 0xA0
UTC_TIME: Final = 0x17
GENERALIZED_TIME: Final = 0x18


class CertificateError(Exception):
    """Not a certificate that can be read."""


def validity_of(text: str) -> tuple[datetime, datetime]:
    """Return begin and end of the first certificate in a PEM file. Raises :class:`CertificateError`."""
    block = re.search(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", text, re.DOTALL)
    if block is None:
        raise CertificateError("no PEM certificate")
    try:
        data = ssl.PEM_cert_to_DER_cert(block[0])
        certificate, _ = _content(data, 0, SEQUENCE)
        position, _ = _content(data, certificate, SEQUENCE)
        if data[position] == VERSION:
            position = _skip(data, position)
        position = _skip(data, position, INTEGER)  # serialNumber
        position = _skip(data, position, SEQUENCE)  # signature
        position = _skip(data, position, SEQUENCE)  # issuer
        validity, _ = _content(data, position, SEQUENCE)
        return _time(data, validity), _time(data, _skip(data, validity))
    except (IndexError, ValueError) as error:
        raise CertificateError(f"not a certificate as RFC 5280 prescribes: {error}") from error


def _content(data: bytes, position: int, tag: int | None = None) -> tuple[int, int]:
    """Return begin and end of the content of the value at ``position``."""
    if tag is not None and data[position] != tag:
        raise ValueError(f"tag {data[position]:#x} at {position}, {tag:#x} is prescribed")
    size = data[position + 1]
    begin = position + 2
    if size & 0x80:
        octets = size & 0x7F
        size = int.from_bytes(data[begin : begin + octets], "big")
        begin += octets
    if begin + size > len(data):
        raise ValueError(f"value at {position} is cut short")
    return begin, begin + size


def _skip(data: bytes, position: int, tag: int | None = None) -> int:
    return _content(data, position, tag)[1]


def _time(data: bytes, position: int) -> datetime:
    """Read UTCTime or GeneralizedTime, which are in UTC to the second (RFC 5280 §4.1.2.5)."""
    begin, end = _content(data, position)
    text = data[begin:end].decode("ascii")
    if data[position] == UTC_TIME:
        text = ("20" if int(text[:2]) < 50 else "19") + text
    elif data[position] != GENERALIZED_TIME:
        raise ValueError(f"tag {data[position]:#x} at {position} is no time")
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
