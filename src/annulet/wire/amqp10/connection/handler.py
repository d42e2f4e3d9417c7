"""The interface by which an AMQP 1.0 engine calls its owner.

Section numbers are those of the OASIS standard (ISO/IEC 19464).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from annulet.wire.amqp10.connection.link import IncomingDelivery, Link
    from annulet.wire.amqp10.connection.session import EngineSession
    from annulet.wire.amqp10.frames.performatives import Attach, Begin, Error, Open


@mypyc_attr(allow_interpreted_subclasses=True)
class Amqp10Handler:
    """Base class of connection handlers. The engine calls its methods in the order of the peer's frames.

    All calls are synchronous. A method may raise :class:`~annulet.wire.amqp10.types.errors.LinkFault` to detach the
    link it was called about, :class:`~annulet.wire.amqp10.types.errors.SessionFault` to end the session or
    :class:`~annulet.wire.amqp10.types.errors.ConnectionFault` to close the connection, each with an error condition of
    §2.8.14 to §2.8.18. Any other exception is a defect: the engine closes with ``amqp:internal-error`` and lets the
    exception pass.
    """

    # ------------------------------------------------------------------ SASL, §5.3

    def sasl_mechanisms(self) -> tuple[str, ...]:
        """Return the mechanisms to offer, at least one; called once, when the peer's SASL header arrives."""
        raise NotImplementedError

    def sasl_init(self, mechanism: str, response: bytes, hostname: str) -> None:
        """Begin a login. Answer, now or later, with ``engine.sasl_challenge`` or ``engine.sasl_outcome``.

        Further input waits in the engine until then. ``response`` is empty when the peer sent none.
        """
        raise NotImplementedError

    def sasl_response(self, response: bytes) -> None:
        """Go on with a login after a challenge; answer as for :meth:`sasl_init`."""
        raise NotImplementedError

    def anonymous_allowed(self) -> bool:
        """Return whether a peer that skips SASL (§2.2: AMQP header first) is accepted; called when it does."""
        raise NotImplementedError

    # ------------------------------------------------------------------ connection, §2.4

    def connection_opened(self, performative: Open) -> None:
        """The peer's open has arrived; ours was sent just before. Raise ConnectionFault to close at once (§2.4.6)."""
        raise NotImplementedError

    def connection_closed(self, condition: str, description: str, by_peer: bool) -> None:
        """Note the end; called exactly once, after all sessions ended. ``condition`` is empty for a plain close."""
        raise NotImplementedError

    # ------------------------------------------------------------------ sessions, §2.5

    def session_began(self, session: EngineSession, performative: Begin) -> None:
        """A session began; the engine has answered begin."""
        raise NotImplementedError

    def session_ended(self, session: EngineSession) -> None:
        """A session ended by either side or with its connection; called exactly once, after all its links detached."""
        raise NotImplementedError

    def session_writable(self, session: EngineSession) -> None:
        """The peer's incoming window, or ours of unsent frames, has room again after ``session.writable`` was False."""
        raise NotImplementedError

    # ------------------------------------------------------------------ links, §2.6

    def attach(self, link: Link, performative: Attach) -> None:
        """The peer attaches a link. Answer, now or later, with ``accept_attach`` or ``refuse_attach``.

        ``performative.unsettled`` is given when it resumes a link (§2.6.13).
        """
        raise NotImplementedError

    def detached(self, link: Link, *, closed: bool, error: Error | None, by_peer: bool) -> None:
        """An accepted link has ended: ``closed`` permanently, else suspended. Called exactly once for each.

        Also when its session ends or the connection is lost (``closed`` False then). The engine answers detach.
        """
        raise NotImplementedError

    def credit_changed(self, link: Link) -> None:
        """The peer's flow changed ``link.credit`` or requested ``link.drain`` of an outgoing link (§2.6.7).

        When ``link.drain`` is set and nothing is left to send, call ``engine.credit.drained(link)``. ``echo`` is
        the engine's.
        """
        raise NotImplementedError

    # ------------------------------------------------------------------ transfers, §2.6.12 and §2.7.5

    def delivery(self, link: Link, delivery: IncomingDelivery) -> None:
        """A whole message arrived on an incoming link. Settle it, now or later, with ``settle_incoming``.

        Aborted deliveries and those over ``max-message-size`` never get here.
        """
        raise NotImplementedError

    def disposition(self, session: EngineSession, first: int, last: int, state: object | None, settled: bool) -> None:
        """The peer, as receiver, sent states of our deliveries ``first`` to ``last`` (§2.7.6).

        Numbers are those ``send_transfer`` returned; deliveries that are settled already are included and have
        to be ignored. ``state`` is ``None``, an outcome of §3.4, ``Received`` or ``TransactionalState``. When it is
        terminal and not ``settled``, answer with ``engine.transfers.settle_outgoing`` once it has been carried out.
        """
        raise NotImplementedError

    def incoming_disposition(
        self, session: EngineSession, first: int, last: int, state: object | None, settled: bool
    ) -> None:
        """The peer, as sender, settles or changes deliveries it sent (§2.7.6, role sender); seldom of interest."""
        raise NotImplementedError
