"""TLS for every listener: contexts made of the files of the configuration, renewed when the files change.

Connections come in through :class:`TlsAcceptor`, which does the hand-shake before the protocol sees anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
import weakref
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
import structlog

from annulet.broker.network.listening import PeerFacts, is_loopback, release_transport
from annulet.broker.network.paced_handshake import PacedHandshake
from annulet.broker.observing.limited_log import LimitedLog
from annulet.broker.settings.configuration import StartError
from annulet.broker.settings.validity import CertificateError, validity_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.broker.network.paced_handshake import HandshakePace
    from annulet.broker.security.admission import Admission
    from annulet.broker.settings.configuration import BrokerConfiguration
    from annulet.broker.settings.tls_settings import CertificateName, TlsSettings

logger = structlog.get_logger(__name__)

RENEWAL_SECONDS: Final = 10.0
"""Between two looks at the files: programs that renew certificates do it hours before the old one ends."""

CLOSE_SECONDS: Final = 5.0
"""How long a peer may take to agree that the connection ends (RFC 8446 §6.1); as long as for reading our last bytes."""

EXPIRY_WARNING_DAYS: Final = 14

VERIFY_MODES: Final = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}

DISTINGUISHED_NAMES: Final = {
    "commonName": "CN",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "stateOrProvinceName": "ST",
    "localityName": "L",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
"""OpenSSL's names of attributes to those of RFC 4514 §3; others keep OpenSSL's."""


class TlsError(StartError):
    """Certificates cannot be used. The text names the listener, the file and the remedy."""


class TlsListener:
    """The TLS of one listener. ``context`` is made anew when the files change; connections keep the one they have."""

    def __init__(self, name: str, settings: TlsSettings) -> None:
        self.name = name  # in the configuration: amqps, stomps, https, bulks
        self.settings = settings
        self.renewals = 0
        self._seen = self._stamps()  # before the files are read: a file that changes in between is read again
        self.context = make_context(name, settings)
        self._looked_at = time.monotonic()
        self.warn_of_expiry()

    def renew(self, *, anew: bool = False) -> None:
        """Load the files again when they have changed since, or ``anew``.

        A failed load leaves the old ones in place.
        """
        now = time.monotonic()
        if now - self._looked_at < RENEWAL_SECONDS and not anew:
            return
        self._looked_at = now
        stamps = self._stamps()
        if stamps == self._seen and not anew:
            return
        self._seen = stamps
        try:
            self.context = make_context(self.name, self.settings)
        except TlsError as error:
            logger.error("certificates changed and cannot be used; the old ones stay", error=str(error))  # noqa: TRY400
            return
        self.renewals += 1
        logger.info("certificates renewed", listener=self.name, certificate=str(self.settings.certificate))
        self.warn_of_expiry()

    def warn_of_expiry(self) -> None:
        """Log when the certificate is not valid now, or not for long."""
        settings = self.settings
        try:
            begins, ends = validity_of(settings.certificate.read_text(errors="replace"))
        except (OSError, CertificateError) as error:
            logger.warning("cannot tell how long a certificate is valid", listener=self.name, error=str(error))
            return
        now = datetime.now(UTC)
        remedy = "have it renewed; the file is read again when it changes"
        values = {"listener": self.name, "certificate": str(settings.certificate)}
        if now > ends:
            logger.warning("the certificate has expired", **values, ended=ends.isoformat(), remedy=remedy)
        elif now < begins:
            logger.warning("the certificate is not valid yet", **values, begins=begins.isoformat())
        elif (ends - now).days < EXPIRY_WARNING_DAYS:
            logger.warning("the certificate expires soon", **values, ends=ends.isoformat(), remedy=remedy)

    def _stamps(self) -> list[tuple[int, int, int]]:
        found = []
        for path in (self.settings.certificate, self.settings.key, self.settings.client_ca):
            if path is not None:
                with contextlib.suppress(OSError):  # gone for a moment while it is replaced
                    facts = path.stat()
                    found.append((facts.st_mtime_ns, facts.st_ino, facts.st_size))
        return found


def make_context(listener: str, settings: TlsSettings) -> ssl.SSLContext:
    """Return a server's context. Raises :class:`TlsError`."""
    where = f"tls of listener {listener}"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if listener == "bulks":
        context.set_alpn_protocols(["h2"])  # clients of Arrow Flight insist on it
    context.minimum_version = VERSIONS[settings.minimum_version]
    for field, path in (
        ("certificate", settings.certificate),
        ("key", settings.key),
        ("client_ca", settings.client_ca),
    ):
        if path is not None:
            _check_readable(where, field, path)
    try:
        context.load_cert_chain(settings.certificate, settings.key, password=_no_password)
    except ssl.SSLError as error:
        raise TlsError(f"{where}: {_chain_error(settings, error)}") from error
    except OSError as error:
        raise _replaced_meanwhile(where, error) from error
    except _EncryptedKeyError as error:
        raise TlsError(
            f"{where}: key {settings.key} is encrypted; store it without: openssl pkey -in {settings.key} -out ..."
        ) from error
    context.verify_mode = VERIFY_MODES[settings.verify]
    if settings.client_ca is not None:
        try:
            context.load_verify_locations(settings.client_ca)
        except ssl.SSLError as error:
            raise TlsError(f"{where}: client_ca {settings.client_ca} holds no PEM certificate") from error
        except OSError as error:
            raise _replaced_meanwhile(where, error) from error
    if settings.ciphers:
        try:
            context.set_ciphers(settings.ciphers)
        except ssl.SSLError as error:
            raise TlsError(
                f"{where}: ciphers {settings.ciphers!r} selects none; try it with openssl ciphers"
            ) from error
    return context


def _check_readable(where: str, field: str, path: Path) -> None:
    try:
        with path.open("rb") as file:
            file.read(1)
    except OSError as error:
        raise TlsError(
            f"{where}: {field} {path} cannot be read: {error.strerror}; "
            f"set tls.{field} to a PEM file that the broker may read"
        ) from error


def _replaced_meanwhile(where: str, error: OSError) -> TlsError:
    """A file was there a moment before: it is being replaced, and will be checked again."""
    return TlsError(f"{where}: a file went away while it was read: {error}")


def _chain_error(settings: TlsSettings, error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"key {settings.key} does not belong to certificate {settings.certificate}; set the pair"
    for field, path, mark in (
        ("certificate", settings.certificate, "-----BEGIN CERTIFICATE-----"),
        ("key", settings.key, "PRIVATE KEY-----"),
    ):
        if mark not in path.read_text(errors="replace"):
            return f"{field} {path} is not a PEM file with {mark!r}"
    return f"certificate {settings.certificate} and key {settings.key} cannot be used: {error.reason or error}"


class _EncryptedKeyError(Exception):
    """OpenSSL asks for a password, which cannot be entered here."""


def _no_password() -> str:
    raise _EncryptedKeyError


# ---------------------------------------------------------------------- peers


def peer_facts(
    transport: asyncio.BaseTransport, configuration: BrokerConfiguration, listener: str = "amqps"
) -> PeerFacts:
    """Return what a transport tells of its peer. ``listener``: whose ``certificate_name`` counts when it has TLS."""
    peer = transport.get_extra_info("peername")
    address, port = (str(peer[0]), int(peer[1])) if peer else ("", 0)
    connection: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    if connection is None:
        return PeerFacts(address, port, is_loopback(address))
    settings = configuration.tls.get(listener)
    name = ""
    if settings is not None and settings.verify != "none":
        name = certificate_name(connection.getpeercert() or {}, settings.certificate_name)
    return PeerFacts(address, port, is_loopback(address), tls=True, certificate_name=name)


def certificate_name(certificate: dict[str, Any], which: CertificateName) -> str:
    """Return the name a certificate gives its holder; empty when it has no such part. The first one counts.

    ``certificate`` is what ``ssl`` returns of a verified one. ``distinguished-name`` is RFC 4514's text: ``CN=a,O=b``.
    """
    if which.startswith("san-"):
        kind = {"san-dns": "DNS", "san-email": "email"}[which]
        return next((value for name, value in certificate.get("subjectAltName", ()) if name == kind), "")
    parts: tuple[tuple[tuple[str, str], ...], ...] = certificate.get("subject", ())
    if which == "common-name":
        return next((value for part in parts for name, value in part if name == "commonName"), "")
    return ",".join(
        "+".join(f"{DISTINGUISHED_NAMES.get(name, name)}={_escaped(value)}" for name, value in part)
        for part in reversed(parts)
    )


def _escaped(value: str) -> str:
    """Escape a value as RFC 4514 §2.4 prescribes."""
    last = len(value) - 1
    return "".join(
        f"\\{character}"
        if character in ',+"\\<>;' or (character in "# " and place == 0) or (character == " " and place == last)
        else character
        for place, character in enumerate(value)
    )


# ---------------------------------------------------------------------- accepting


class TlsCounters(msgspec.Struct):
    """Hand-shakes of all TLS listeners since start."""

    completed: int = 0
    failed: int = 0  # of them: timed out, hung up, no common version or cipher, no or wrong certificate


class TlsAcceptor:
    """Does the hand-shake of one socket, then hands the transport to a protocol. A duck-typed ``asyncio.Protocol``.

    The time from accept to the end of the protocol's own hand-shake is one time-out: when it is over, a transport whose
    protocol has no attribute ``opened`` that is true is cut. ``watched`` of false leaves that to the protocol.
    """

    def __init__(
        self,
        listener: TlsListener,
        make_protocol: Callable[[], Any],
        admission: Admission,
        counters: TlsCounters,
        timeout: float,
        log: LimitedLog,
        pace: HandshakePace,
        *,
        watched: bool = True,
    ) -> None:
        self._listener = listener
        self._make_protocol = make_protocol
        self._admission = admission
        self._counters = counters
        self._timeout = timeout
        self._log = log
        self._pace = pace
        self._watched = watched
        self._task: asyncio.Task[None] | None = None
        self._early: list[bytes] = []
        self._ended = False
        self._lost = False
        self._successor: Any = None  # the protocol that has the transport now

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin, unless too many hand-shakes are under way."""
        peer = transport.get_extra_info("peername")
        address, port = (str(peer[0]), int(peer[1])) if peer else ("", 0)
        facts = PeerFacts(address, port, is_loopback(address), tls=True)
        if not self._admission.handshake_began(facts):
            transport.abort()
            return
        transport.pause_reading()  # the input belongs to the hand-shake, not to this object
        self._pace.begin(partial(self._begin, transport, facts))

    def _begin(self, transport: asyncio.Transport, facts: PeerFacts) -> None:
        if self._lost or transport.is_closing():  # while others began
            self._admission.handshake_ended(facts)
            self._note_failure(facts, ConnectionResetError("the peer hung up"))
            release_transport(transport)
            return
        self._task = asyncio.get_running_loop().create_task(self._shake_hands(transport, facts))

    def data_received(self, data: bytes) -> None:
        """Keep input read together with the end of the hand-shake, until the protocol is there a turn later."""
        self._early.append(data)

    def eof_received(self) -> bool:
        """Keep that the peer will send nothing more."""
        self._ended = True
        return False

    def connection_lost(self, error: BaseException | None) -> None:
        """The socket was cut before the protocol was there, or a moment before: asyncio's TLS has chosen us by then."""
        self._lost = True
        if self._successor is not None:
            self._successor.connection_lost(error)

    def pause_writing(self) -> None:
        """Nothing is written here."""

    def resume_writing(self) -> None:
        """As above."""

    async def _shake_hands(self, transport: asyncio.Transport, peer: PeerFacts) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        keeper = cast("asyncio.Protocol", self)
        paced = PacedHandshake(self._pace.turns)
        loop.call_soon(paced.step_in, transport)  # once start_tls has put its protocol there, before it is told
        try:
            secured = await loop.start_tls(
                transport,
                keeper,
                self._listener.context,
                server_side=True,
                ssl_handshake_timeout=self._timeout,
                ssl_shutdown_timeout=CLOSE_SECONDS,
            )
        except (OSError, TimeoutError) as error:  # ssl.SSLError is an OSError
            transport.abort()
            release_transport(transport)
            self._note_failure(peer, error)
            error.__traceback__ = None  # its frames hold asyncio's future, which holds the error
            return
        except Exception as error:  # noqa: BLE001 - a defect: the socket must not stay, and no caller hears of it
            transport.abort()
            release_transport(transport)
            self._log.defect("defect in a TLS handshake", error, listener=self._listener.name, peer=str(peer))
            return
        finally:
            paced.finish()
            self._admission.handshake_ended(peer)
        if secured is None or self._lost:
            self._note_failure(peer, ConnectionResetError("the peer hung up"))
            return
        self._counters.completed += 1
        # The protocol sees only the secured transport, which goes once its connection is lost.
        weakref.finalize(secured, release_transport, transport).atexit = False
        if self._watched:
            loop.call_at(started + self._timeout, self._expired, secured, peer)
        try:
            self._hand_over(secured)
        except Exception as error:  # noqa: BLE001 - as above; the protocol releases its resources at its end
            self._log.defect("defect while serving a connection", error, listener=self._listener.name, peer=str(peer))
            secured.abort()

    def _hand_over(self, secured: asyncio.Transport) -> None:
        self._successor = protocol = self._make_protocol()
        secured.set_protocol(protocol)
        protocol.connection_made(secured)
        early = b"".join(self._early)  # at once: behind the first piece another protocol may have the transport
        self._early.clear()
        if early:
            protocol.data_received(early)
        if self._ended:
            protocol.eof_received()

    def _expired(self, transport: asyncio.Transport, peer: PeerFacts) -> None:
        protocol = transport.get_protocol()
        if not getattr(protocol, "opened", False) and not transport.is_closing():
            self._admission.note_timed_out(str(peer), self._timeout)
            transport.abort()

    def _note_failure(self, peer: PeerFacts, error: Exception) -> None:
        self._counters.failed += 1
        reason = getattr(error, "reason", None) or str(error) or type(error).__name__
        self._log.warning("TLS handshake failed", listener=self._listener.name, peer=str(peer), reason=str(reason))
