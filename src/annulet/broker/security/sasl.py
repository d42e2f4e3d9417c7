"""One login attempt of any protocol, as the steps of its SASL mechanism (RFC 4422).

A connection makes a :class:`SaslExchange`, hands it the peer's input, and sends its output::

    exchange = SaslExchange(broker.authenticator, "amqp10")
    step = await exchange.begin(mechanism, initial_response, peer=peer)
    while isinstance(step, Challenge):
        ...  # send step.octets, read the response
        step = await exchange.respond(response)

Awaiting may take seconds: hashes are computed in a thread, and guessers have to wait. Cancel it when the peer is gone.
"""

from __future__ import annotations

from typing import Final

import msgspec

from annulet.broker.network.listening import PeerFacts
from annulet.broker.security.authentication import (
    ANONYMOUS,
    EXTERNAL,
    MECHANISM_CHARACTERS,
    PLAIN,
    Authenticator,
    CredentialsError,
    User,
    parse_response,
)
from annulet.broker.security.scram import ScramServer
from annulet.broker.settings.scram_verifiers import DIGESTS, ScramError

__all__ = ["Challenge", "Failure", "PeerFacts", "SaslExchange", "Step", "Success", "User"]

REFUSED: Final = "user name or password is wrong, or the user may not connect from there; the broker's log says more"
"""All that a peer is told: anything else would help guessing."""


class Challenge(msgspec.Struct, frozen=True):
    """Send these octets to the peer and :meth:`SaslExchange.respond` with its answer."""

    octets: bytes


class Success(msgspec.Struct, frozen=True):
    """The peer is this user. ``additional``: data to send with the success (RFC 4422 §3.6), often empty."""

    user: User
    additional: bytes = b""


class Failure(msgspec.Struct, frozen=True):
    """The login is refused, and the log says why; ``reason`` is what the peer may know."""

    reason: str


Step = Challenge | Success | Failure


class SaslExchange:
    """One attempt. ``protocol`` is ``amqp091`` (any 0-x), ``amqp10``, ``stomp``.

    ``success_carries_data``: the protocol can send data along with success, as AMQP 1.0 does. Where it cannot, such
    data goes out as one more challenge, which the peer answers with nothing (RFC 4422 §3.6).
    """

    def __init__(self, authenticator: Authenticator, protocol: str, *, success_carries_data: bool = False) -> None:
        self._authenticator = authenticator
        self._protocol = protocol
        self._carries = success_carries_data
        self._peer = PeerFacts()
        self._mechanism = ""
        self._scram: ScramServer | None = None
        self._begun = False  # the mechanism has had its first response
        self._over = False
        self._proven: User | None = None  # only the empty answer to the last challenge is missing

    async def begin(self, mechanism: str, response: bytes | None, *, peer: PeerFacts) -> Step:
        """Start. ``response`` is the initial response; ``None`` when the peer sent none and waits for a challenge."""
        self._peer = peer
        self._mechanism = mechanism
        if mechanism not in self._authenticator.mechanisms(peer, self._protocol):
            return self._malformed(f"mechanism {mechanism[:MECHANISM_CHARACTERS]!r} is not offered to this peer")
        if mechanism in DIGESTS:
            self._scram = ScramServer(mechanism)
        if response is None:
            return Challenge(b"")  # RFC 4422 §5: the client speaks first, and has not
        return await self.respond(response)

    async def respond(self, response: bytes) -> Step:
        """Go on with the peer's answer to the challenge."""
        if self._over:
            return self._malformed("response to an exchange that is over")
        if self._proven is not None:
            self._over = True
            return self._malformed("response to the last challenge is not empty") if response else Success(self._proven)
        try:
            if self._scram is None:
                return await self._single(response)
            return await self._scram_step(self._scram, response)
        except (CredentialsError, ScramError) as error:
            return self._malformed(str(error))

    async def _single(self, response: bytes) -> Step:
        """PLAIN, AMQPLAIN, ANONYMOUS, EXTERNAL: one response says it all."""
        self._over = True
        peer = self._peer
        if self._mechanism == EXTERNAL:
            user = self._authenticator.login_external(response, peer=peer)
        elif self._mechanism == ANONYMOUS:
            user = self._authenticator.login_anonymous(peer=peer)
        else:
            name, password = parse_response(self._mechanism, response)
            user = await self._authenticator.login(name, password, peer=peer, mechanism=self._mechanism)
        return Failure(REFUSED) if user is None else Success(user)

    async def _scram_step(self, scram: ScramServer, response: bytes) -> Step:
        authenticator = self._authenticator
        if not self._begun:
            name = scram.first(response)
            self._begun = True
            return Challenge(scram.challenge(authenticator.scram_verifier(self._mechanism, name)))
        if not await authenticator.wait_turn(scram.user, peer=self._peer, mechanism=self._mechanism):
            return Failure(REFUSED)
        try:
            final = scram.final(response)
            user = await authenticator.conclude(
                scram.user, right=final is not None, peer=self._peer, mechanism=self._mechanism
            )
        finally:
            authenticator.end_turn(self._peer)
        if user is None or final is None:
            self._over = True
            return Failure(REFUSED)
        if self._carries:
            self._over = True
            return Success(user, final)
        self._proven = user
        return Challenge(final)

    def _malformed(self, reason: str) -> Failure:
        self._authenticator.note_malformed(self._peer, self._mechanism, reason)
        return Failure(reason)


def mechanisms_text(mechanisms: tuple[str, ...]) -> str:
    """Return the list as AMQP 0-9-1 wants it (§1.4.2.1): separated by blanks."""
    return " ".join(mechanisms) or PLAIN
