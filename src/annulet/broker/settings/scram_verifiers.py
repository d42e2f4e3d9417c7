"""SCRAM verifiers (RFC 5802 §3, RFC 5803): the broker's records of a password.

A stolen verifier is no login, but passwords can be guessed against it faster than against an Argon2 hash:
:data:`ITERATIONS` is well above the minimum.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
import stringprep
import unicodedata
from typing import Final

import msgspec

DIGESTS: Final[dict[str, str]] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""Mechanism to hash function; the weakest first."""

ITERATIONS: Final = 16_384
"""PBKDF2 rounds of new verifiers: about 8 ms for the client and once for us. RFC 7677 §4 asks for 4096 at least."""

ITERATIONS_LEAST: Final = 4096
"""RFC 5802 §5.1."""

ITERATIONS_MOST: Final = 10_000_000
"""Above this a client would not finish before the hand-shake time-out."""

SALT_BYTES: Final = 16


class ScramError(Exception):
    """A message or verifier is not what RFC 5802 prescribes. The text names the field."""


class ScramVerifier(msgspec.Struct, frozen=True):
    """The server's record of a password (RFC 5802 §3). Its text is that of RFC 5803, which PostgreSQL uses too."""

    mechanism: str
    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    def __str__(self) -> str:
        salt, stored, server = map(base64_text, (self.salt, self.stored_key, self.server_key))
        return f"{self.mechanism}${self.iterations}:{salt}${stored}:{server}"


def derive_verifier(mechanism: str, password: str, *, iterations: int = ITERATIONS) -> ScramVerifier:
    """Return the verifier of a password with a new salt. Takes milliseconds and releases the interpreter lock."""
    digest = DIGESTS[mechanism]
    salt = secrets.token_bytes(SALT_BYTES)
    salted = hashlib.pbkdf2_hmac(digest, prepare(password).encode(errors="surrogatepass"), salt, iterations)
    stored = hashlib.new(digest, hmac.digest(salted, b"Client Key", digest)).digest()
    return ScramVerifier(mechanism, iterations, salt, stored, hmac.digest(salted, b"Server Key", digest))


def decoy_verifier(mechanism: str, user: str, key: bytes) -> ScramVerifier:
    """Return what an unknown user is answered with: the same salt each time, and keys that no password has."""
    digest = DIGESTS[mechanism]
    name = user.encode(errors="surrogatepass")
    salt = hmac.digest(key, b"salt\0" + mechanism.encode() + b"\0" + name, "sha256")[:SALT_BYTES]
    size = hashlib.new(digest).digest_size
    return ScramVerifier(mechanism, ITERATIONS, salt, secrets.token_bytes(size), secrets.token_bytes(size))


def parse_verifier(text: str) -> ScramVerifier:
    """Return a verifier of its text. Raises :class:`ScramError`."""
    match = re.fullmatch(r"(SCRAM-SHA-(?:256|512))\$([0-9]{1,9}):([^$:]+)\$([^$:]+):([^$:]+)", text)
    if match is None:
        raise ScramError("not MECHANISM$ITERATIONS:SALT$STORED_KEY:SERVER_KEY; make one with `annulet password-hash`")
    mechanism, iterations = match[1], int(match[2])
    if not ITERATIONS_LEAST <= iterations <= ITERATIONS_MOST:
        raise ScramError(f"{iterations} iterations; allowed are {ITERATIONS_LEAST} to {ITERATIONS_MOST}")
    salt, stored, server = (octets_of(match[group], "verifier") for group in (3, 4, 5))
    size = hashlib.new(DIGESTS[mechanism]).digest_size
    if len(stored) != size or len(server) != size:
        raise ScramError(f"keys have {len(stored)} and {len(server)} octets; {mechanism} has {size}")
    return ScramVerifier(mechanism, iterations, salt, stored, server)


def prepare(text: str) -> str:
    """Return a password after SASLprep (RFC 4013); one with prohibited characters as it is, as most clients do."""
    mapped = "".join(
        " " if stringprep.in_table_c12(character) else character
        for character in text
        if not stringprep.in_table_b1(character)
    )
    normal = unicodedata.normalize("NFKC", mapped)
    return text if any(_is_prohibited(character) for character in normal) else normal


def _is_prohibited(character: str) -> bool:
    return any(
        table(character)
        for table in (
            stringprep.in_table_c12,
            stringprep.in_table_c21_c22,
            stringprep.in_table_c3,
            stringprep.in_table_c4,
            stringprep.in_table_c5,
            stringprep.in_table_c6,
            stringprep.in_table_c7,
            stringprep.in_table_c8,
            stringprep.in_table_c9,
        )
    )


def base64_text(octets: bytes) -> str:
    """Return octets as SCRAM writes them."""
    return base64.b64encode(octets).decode()


def octets_of(text: str, what: str) -> bytes:
    """Return octets of their base64 text. Raises :class:`ScramError`, which names the field ``what``."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ScramError(f"{what} is not base64") from error
