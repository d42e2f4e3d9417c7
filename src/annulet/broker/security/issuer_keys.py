"""The public keys of an OpenID Connect issuer, fetched in a thread.

The issuer's discovery document names the address of its key set (OpenID Connect Discovery 1.0 §4, RFC 7517). Keys are
kept for an hour. A token with a key that is not known has them fetched anew, at most once in ten seconds, so that
tokens that are made up cost the issuer nothing; all logins that wait share one fetch.
"""

from __future__ import annotations

import asyncio
import http.client
import ssl
import threading
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
import structlog

from annulet.broker.settings.oidc_settings import OidcSettingsError, check_address

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

logger = structlog.get_logger(__name__)

FETCH_SECONDS_LEAST: Final = 10.0
"""Between two fetches, whatever tokens say: keys change in days, and a made up key id costs nothing."""

FETCH_SECONDS_MAX: Final = 5.0
"""Of one fetch, both documents: half of the hand-shake time-out, so that the answer to a login still arrives."""

KEYS_SECONDS: Final = 3600.0
"""Age at which the next login has keys fetched anew: a key that the issuer has withdrawn counts no longer."""

KEYS_KEPT_SECONDS: Final = 86_400.0
"""Age at which keys are forgotten though the issuer cannot be reached: a night and a morning to mend it."""

DOCUMENT_BYTES_MAX: Final = 262_144
"""Of the discovery document or the key set; usual ones have 2 to 10 KB."""

KEYS_MAX: Final = 100
"""Of one key set; usual ones have 2 to 10."""

KINDS: Final = frozenset({"RSA", "EC", "OKP"})
"""Kinds of public keys. A shared secret (``oct``) in a key set is none."""

DISCOVERY_PATH: Final = "/.well-known/openid-configuration"

JsonKey: TypeAlias = dict[str, Any]


class IssuerUnavailableError(Exception):
    """There are no keys of the issuer. The text says why."""


class _Refusing(urllib.request.HTTPRedirectHandler):
    """Follows no redirection: keys come from the address that the issuer names, or from none."""

    def redirect_request(self, *_arguments: object) -> None:
        """Return nothing, so that the redirection is an error."""


class IssuerKeys:
    """The keys of one issuer by their key id. Belongs to the event loop; only fetching leaves it.

    ``clock`` returns monotonic seconds. ``on_change`` is called when a fetch has brought other keys.
    """

    def __init__(self, issuer: str, ca_file: Path | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.on_change: Callable[[], None] | None = None
        self.fetched = 0  # fetches that brought keys
        self.failed = 0  # fetches that brought none
        self._issuer = issuer
        self._ca_file = ca_file
        self._clock = clock
        self._keys: list[JsonKey] = []
        self._fetched_at = 0.0  # of the keys
        self._tried_at: float | None = None
        self._error = ""  # of the last fetch
        self._running: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._keys)

    async def find(self, key_id: str | None) -> JsonKey | None:
        """Return a key; ``None`` when the issuer has no such key. Without an id: the only key.

        Raises :class:`IssuerUnavailableError` when there are no keys at all.
        """
        age = self._clock() - self._fetched_at
        if self._keys and age >= KEYS_KEPT_SECONDS:
            self._replace([])
        if not self._keys or age >= KEYS_SECONDS or self._known(key_id) is None:
            await self.refresh()
        if not self._keys:
            raise IssuerUnavailableError(f"no keys of the issuer: {self._error}")
        return self._known(key_id)

    def known(self, key_id: str | None) -> JsonKey | None:
        """Return a key that is at hand and not too old."""
        return self._known(key_id) if self._clock() - self._fetched_at < KEYS_SECONDS else None

    async def refresh(self) -> None:
        """Fetch the keys, unless that was tried lately; join a fetch that is under way."""
        if self._running is None:
            now = self._clock()
            if self._tried_at is not None and now - self._tried_at < FETCH_SECONDS_LEAST:
                return
            self._tried_at = now
            self._running = asyncio.get_running_loop().create_future()
            fetch = _Fetch(self._issuer, self._ca_file, self._running.get_loop(), self._end)
            threading.Thread(target=fetch.run, name="annulet-issuer-keys", daemon=True).start()
        await asyncio.shield(self._running)

    def _known(self, key_id: str | None) -> JsonKey | None:
        if key_id is None:
            return self._keys[0] if len(self._keys) == 1 else None
        return next((key for key in self._keys if key.get("kid") == key_id), None)

    def _end(self, keys: list[JsonKey], error: str) -> None:
        """Take the outcome of a fetch."""
        running, self._running = self._running, None
        self._error = error
        if error:
            self.failed += 1
            logger.warning("keys of the issuer cannot be fetched", issuer=self._issuer, error=error, kept=len(self))
        else:
            self.fetched += 1
            self._fetched_at = self._clock()
            if keys != self._keys:
                self._replace(keys)
                logger.info("keys of the issuer fetched", issuer=self._issuer, keys=len(keys))
        if running is not None:
            running.set_result(None)

    def _replace(self, keys: list[JsonKey]) -> None:
        self._keys = keys
        if self.on_change is not None:
            self.on_change()


class _Fetch:
    """One fetch, in a thread of its own, which ends with the process if the issuer does not answer."""

    def __init__(
        self,
        issuer: str,
        ca_file: Path | None,
        loop: asyncio.AbstractEventLoop,
        end: Callable[[list[JsonKey], str], None],
    ) -> None:
        self._issuer = issuer
        self._ca_file = ca_file
        self._loop = loop
        self._end = end
        self._until = time.monotonic() + FETCH_SECONDS_MAX

    def run(self) -> None:
        """Fetch, and tell the loop."""
        keys: list[JsonKey] = []
        error = ""
        try:
            keys = self._fetch()
        except (OSError, http.client.HTTPException, ValueError, OidcSettingsError, msgspec.MsgspecError) as failure:
            error = f"{failure}" or type(failure).__name__
        except Exception as failure:  # noqa: BLE001 - an answer that nobody thought of: logins wait for the outcome
            error = f"the issuer's answer cannot be read: {failure!r}"[:200]
        try:
            self._loop.call_soon_threadsafe(self._end, keys, error)
        except RuntimeError:
            logger.debug("issuer's answer came after the end of the event loop", issuer=self._issuer)

    def _fetch(self) -> list[JsonKey]:
        context = ssl.create_default_context(cafile=None if self._ca_file is None else str(self._ca_file))
        opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), _Refusing())
        found = self._document(opener, self._issuer.rstrip("/") + DISCOVERY_PATH)
        named = found.get("issuer")
        if named != self._issuer:
            raise ValueError(f"the discovery document is of issuer {str(named)[:200]!r}; correct oidc.issuer")
        address = found.get("jwks_uri")
        if not isinstance(address, str):
            raise ValueError("the discovery document names no jwks_uri")  # noqa: TRY004 - of an answer
        check_address("jwks_uri of the discovery document", address)
        keys = self._document(opener, address).get("keys")
        if not isinstance(keys, list):
            raise ValueError("the key set has no list 'keys'")  # noqa: TRY004 - of an answer
        usable = [key for key in keys if _is_usable(key)][:KEYS_MAX]
        if not usable:
            raise ValueError("the key set has no key for signatures of kind RSA, EC or OKP")
        return usable

    def _document(self, opener: urllib.request.OpenerDirector, address: str) -> dict[str, Any]:
        request = urllib.request.Request(address, headers={"Accept": "application/json"})  # noqa: S310 - checked
        octets = b""
        with opener.open(request, timeout=self._left()) as answer:
            while True:
                piece = answer.read1(65_536)
                octets += piece
                if len(octets) > DOCUMENT_BYTES_MAX:
                    raise ValueError(f"{address} has more than {DOCUMENT_BYTES_MAX} bytes")
                self._left()
                if not piece:
                    break
        document = msgspec.json.decode(octets)
        if not isinstance(document, dict):
            raise ValueError(f"{address} is no JSON object")  # noqa: TRY004 - of the answer, not of an argument
        return document

    def _left(self) -> float:
        """Return the seconds that are left of the fetch. Raises ``TimeoutError``."""
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"the issuer took more than {FETCH_SECONDS_MAX:g} seconds")
        return left


def _is_usable(key: object) -> bool:
    if not isinstance(key, dict):
        return False
    kind = key.get("kty")
    return isinstance(kind, str) and kind in KINDS and key.get("use", "sig") == "sig"
