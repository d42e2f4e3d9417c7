"""An OpenID Connect issuer on loopback with keys of its own: discovery document, key set, signed access tokens."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from annulet.broker.settings.configuration import TAGS
from annulet.broker.settings.oidc_settings import OidcSection, OidcSettings, oidc_settings

AUDIENCE = "annulet"
DISCOVERY = "/.well-known/openid-configuration"


class Issuer:
    """Use as a context manager. ``answers``: octets by path, in place of the right ones; ``asked``: paths, in order."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers: dict[str, bytes | int] = {}
        self.keys: dict[str, Any] = {}  # private, by key id
        self.shown: dict[str, dict[str, Any]] = {}  # of the key set
        self.add_key("first")
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked.append(self.path)
                answer = issuer.answers.get(self.path, issuer.answer(self.path))
                self.send_response(answer if isinstance(answer, int) else 200)
                if isinstance(answer, int):
                    self.send_header("Location", "http://127.0.0.1:1/")
                    answer = b""
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/realms/main"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Issuer:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Answer no more; a second time is fine."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()

    def answer(self, path: str) -> bytes:
        if path.endswith(DISCOVERY):
            return json.dumps({"issuer": self.url, "jwks_uri": f"http://127.0.0.1:{self.port}/keys"}).encode()
        return json.dumps({"keys": list(self.shown.values())}).encode()

    def add_key(self, name: str, kind: str = "ES256", **fields: Any) -> None:
        """Make a key and show it in the key set. ``fields`` are put over its public ones."""
        if kind.startswith("ES"):
            key: Any = ec.generate_private_key(ec.SECP256R1())
        elif kind == "EdDSA":
            key = ed25519.Ed25519PrivateKey.generate()
        else:
            key = rsa.generate_private_key(65537, fields.pop("bits", 2048))
        self.keys[name] = key
        algorithm: Any = jwt.get_algorithm_by_name(kind)
        public = json.loads(algorithm.to_jwk(key.public_key()))
        self.shown[name] = {"kid": name, "use": "sig", "alg": kind, **public, **fields}

    def token(self, key: str = "first", *, algorithm: str = "ES256", kid: str | None = "", **claims: Any) -> str:
        """Return a signed token; ``claims`` are put over the right ones, ``None`` takes one away."""
        full = {"iss": self.url, "aud": AUDIENCE, "sub": "alice", "exp": 2**33, **claims}
        headers = {} if kid is None else {"kid": kid or key}
        given = {name: value for name, value in full.items() if value is not None}
        return jwt.encode(given, self.keys[key], algorithm, headers)

    def settings(self, **fields: Any) -> OidcSettings:
        """Return the settings of a broker that takes this issuer's tokens."""
        found = oidc_settings(OidcSection(issuer=self.url, audience=AUDIENCE, **fields), TAGS)
        assert found is not None
        return found
