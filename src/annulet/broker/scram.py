"""SCRAM, the server's side (RFC 5802, RFC 7677): verifiers, messages, proofs. No I/O, no users.

Channel binding is not offered: ``n`` and ``y`` are accepted, ``p=`` is refused. Who steals a verifier cannot log in
with it, but can guess against it faster than against an Argon2 hash: :data:`ITERATIONS` is well above the minimum.
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
NONCE_BYTES: Final = 18
MESSAGE_BYTES_MAX: Final = 4096
"""Of one message of a client: name, nonce and proof take a tenth."""


class ScramError(Exception):
    """A message or verifier is not what RFC 5802 prescribes. The text names the field."""


class ScramVerifier(msgspec.Struct, frozen=True):
    """What the server knows of a password (RFC 5802 §3). Its text is that of RFC 5803, which PostgreSQL uses too."""

    mechanism: str
    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    def __str__(self) -> str:
        return f"{self.mechanism}${self.iterations}:{_b64(self.salt)}${_b64(self.stored_key)}:{_b64(self.server_key)}"


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
    salt, stored, server = (_octets(match[group], "verifier") for group in (3, 4, 5))
    size = hashlib.new(DIGESTS[mechanism]).digest_size
    if len(stored) != size or len(server) != size:
        raise ScramError(f"keys have {len(stored)} and {len(server)} octets; {mechanism} has {size}")
    return ScramVerifier(mechanism, iterations, salt, stored, server)


class ScramServer:
    """One exchange. :meth:`first` and :meth:`challenge`, then :meth:`final`; each at most once."""

    def __init__(self, mechanism: str) -> None:
        self.mechanism = mechanism
        self.user = ""
        self._gs2_header = ""
        self._client_first = ""
        self._server_first = ""
        self._nonce = ""
        self._verifier: ScramVerifier | None = None

    def first(self, message: bytes) -> str:
        """Read client-first-message (RFC 5802 §7) and return the user's name. Raises :class:`ScramError`."""
        text = _decoded(message, "client-first-message")
        match = re.fullmatch(r"((n|y|p=[^,]*),(?:a=([^,]*))?,)(n=([^,]*),r=([!-+\--~]+)(?:,.*)?)", text)
        if match is None:
            hint = " (mandatory extensions are not supported)" if ",m=" in text else ""
            raise ScramError(f"client-first-message is not n,,n=USER,r=NONCE (RFC 5802 §7){hint}")
        if match[2].startswith("p="):
            raise ScramError("channel binding is not offered; begin with n,, or y,,")
        self.user = _name(match[5], "user name n")
        if match[3] is not None and _name(match[3], "authorisation identity a") != self.user:
            raise ScramError("the authorisation identity a is another one than the user name n; leave it out")
        self._gs2_header = match[1]
        self._client_first = match[4]
        self._nonce = match[6] + _b64(secrets.token_bytes(NONCE_BYTES))
        return self.user

    def challenge(self, verifier: ScramVerifier) -> bytes:
        """Return server-first-message for the user's verifier, or for a decoy."""
        self._verifier = verifier
        self._server_first = f"r={self._nonce},s={_b64(verifier.salt)},i={verifier.iterations}"
        return self._server_first.encode()

    def final(self, message: bytes) -> bytes | None:
        """Check client-final-message; return server-final-message, or ``None`` when the password is wrong.

        Raises :class:`ScramError` when it is malformed or belongs to another exchange.
        """
        verifier = self._verifier
        assert verifier is not None
        text = _decoded(message, "client-final-message")
        match = re.fullmatch(r"(c=([^,]*),r=([^,]*)(?:,[^,]*)*),p=([^,]*)", text)
        if match is None:
            raise ScramError("client-final-message is not c=HEADER,r=NONCE,p=PROOF (RFC 5802 §7)")
        if _octets(match[2], "channel binding c") != self._gs2_header.encode():
            raise ScramError("channel binding c is not the header that began the exchange (RFC 5802 §5.1)")
        if not hmac.compare_digest(match[3].encode(), self._nonce.encode()):
            raise ScramError("nonce r is not the one of the challenge (RFC 5802 §5.1)")
        digest = DIGESTS[self.mechanism]
        authentication = f"{self._client_first},{self._server_first},{match[1]}".encode()
        proof = _octets(match[4], "proof p")
        if len(proof) != len(verifier.stored_key):
            raise ScramError(f"proof p has {len(proof)} octets; {self.mechanism} has {len(verifier.stored_key)}")
        signature = hmac.digest(verifier.stored_key, authentication, digest)
        client_key = bytes(left ^ right for left, right in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.new(digest, client_key).digest(), verifier.stored_key):
            return None
        return b"v=" + base64.b64encode(hmac.digest(verifier.server_key, authentication, digest))


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


def _decoded(message: bytes, what: str) -> str:
    if len(message) > MESSAGE_BYTES_MAX:
        raise ScramError(f"{what} has {len(message)} octets; allowed are {MESSAGE_BYTES_MAX}")
    try:
        return message.decode()
    except UnicodeDecodeError as error:
        raise ScramError(f"{what} is not UTF-8") from error


def _name(text: str, what: str) -> str:
    """Undo the escapes of a name: ``=2C`` and ``=3D`` (RFC 5802 §5.1)."""
    if not text or re.search(r"=(?!2C|3D)", text):
        raise ScramError(f"{what} is empty, or has = without 2C or 3D behind it")
    return text.replace("=2C", ",").replace("=3D", "=")


def _b64(octets: bytes) -> str:
    return base64.b64encode(octets).decode()


def _octets(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ScramError(f"{what} is not base64") from error
