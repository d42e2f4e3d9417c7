"""SCRAM, the server's side of an exchange (RFC 5802, RFC 7677): messages and proofs. No I/O, no users.

Channel binding is not offered: ``n`` and ``y`` are accepted, ``p=`` is refused.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from typing import Final

from annulet.broker.settings.scram_verifiers import DIGESTS, ScramError, ScramVerifier, base64_text, octets_of

NONCE_BYTES: Final = 18
MESSAGE_BYTES_MAX: Final = 4096
"""Of one message of a client: name, nonce and proof take a tenth."""


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
        self._nonce = match[6] + base64_text(secrets.token_bytes(NONCE_BYTES))
        return self.user

    def challenge(self, verifier: ScramVerifier) -> bytes:
        """Return server-first-message for the user's verifier, or for a decoy."""
        self._verifier = verifier
        self._server_first = f"r={self._nonce},s={base64_text(verifier.salt)},i={verifier.iterations}"
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
        if octets_of(match[2], "channel binding c") != self._gs2_header.encode():
            raise ScramError("channel binding c is not the header that began the exchange (RFC 5802 §5.1)")
        if not hmac.compare_digest(match[3].encode(), self._nonce.encode()):
            raise ScramError("nonce r is not the one of the challenge (RFC 5802 §5.1)")
        digest = DIGESTS[self.mechanism]
        authentication = f"{self._client_first},{self._server_first},{match[1]}".encode()
        proof = octets_of(match[4], "proof p")
        if len(proof) != len(verifier.stored_key):
            raise ScramError(f"proof p has {len(proof)} octets; {self.mechanism} has {len(verifier.stored_key)}")
        signature = hmac.digest(verifier.stored_key, authentication, digest)
        client_key = bytes(left ^ right for left, right in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.new(digest, client_key).digest(), verifier.stored_key):
            return None
        return b"v=" + base64.b64encode(hmac.digest(verifier.server_key, authentication, digest))


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
