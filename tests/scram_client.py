"""A client of SCRAM for tests."""

from __future__ import annotations

import base64
import hashlib
import hmac


class ScramClient:
    """The client's side of RFC 5802, written apart from the server's."""

    def __init__(self, mechanism: str, name: str, password: str, nonce: str = "fyko+d2lbbFgONRv9qkxdawL") -> None:
        self.digest = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
        self.password = password
        self.bare = f"n={name},r={nonce}"
        self.first = f"n,,{self.bare}".encode()
        self.server_signature = b""

    def final(self, challenge: bytes) -> bytes:
        fields = dict(part.split("=", 1) for part in challenge.decode().split(","))
        salted = hashlib.pbkdf2_hmac(
            self.digest, self.password.encode(), base64.b64decode(fields["s"]), int(fields["i"])
        )
        without_proof = f"c=biws,r={fields['r']}"
        message = f"{self.bare},{challenge.decode()},{without_proof}".encode()
        client_key = hmac.digest(salted, b"Client Key", self.digest)
        signature = hmac.digest(hashlib.new(self.digest, client_key).digest(), message, self.digest)
        proof = bytes(left ^ right for left, right in zip(client_key, signature, strict=True))
        server_key = hmac.digest(salted, b"Server Key", self.digest)
        self.server_signature = b"v=" + base64.b64encode(hmac.digest(server_key, message, self.digest))
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()
