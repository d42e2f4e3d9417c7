"""Short forms for the oracle's own tests."""

from __future__ import annotations

from typing import Any

from annulet.core.base.settings import QueueSettings
from annulet.testing.oracle.queue import DROP, REQUEUE, QueueOracle
from annulet.testing.oracle.records import OracleConsumer, OracleMessage, OracleSession

NOW = 1000


def oracle(**settings: Any) -> QueueOracle:
    return QueueOracle(QueueSettings(**settings))


def publish(model: QueueOracle, *keys: str | None, now: int = NOW, **facts: Any) -> list[OracleMessage]:
    """Publish one message per key, numbered on; the key is property ``k``, further properties by keyword."""
    names = OracleMessage.__dataclass_fields__
    published = []
    for key in keys:
        properties = {name: value for name, value in facts.items() if name not in names}
        properties |= {} if key is None else {"k": key}
        own = {name: value for name, value in facts.items() if name in names}
        message = OracleMessage(len(model.messages) + 1, accepted_at=now, properties=properties, **own)
        model.publish(message, now)
        published.append(message)
    return published


def consumer(
    model: QueueOracle, session: OracleSession | None = None, *, now: int = NOW, **facts: Any
) -> OracleConsumer:
    """Attach a consumer, to a session of its own unless one is given."""
    attached = OracleConsumer(OracleSession() if session is None else session, "c", **facts)
    model.attach(attached, now)
    return attached


def waiting(model: QueueOracle) -> list[int]:
    return [message.number for message in model.pending()]


def received(one: OracleConsumer | OracleSession) -> list[int]:
    session = one.session if isinstance(one, OracleConsumer) else one
    return [number for _, _, number in session.received]


def requeue(model: QueueOracle, session: OracleSession, *tags: int, now: int = NOW, how: str = REQUEUE) -> None:
    """Give the deliveries of these tags back, or all."""
    taken = [session.held.pop(tag) for tag in tags or list(session.held)]
    model.settle(taken, how, now)


def drop(model: QueueOracle, session: OracleSession, *tags: int, now: int = NOW) -> None:
    requeue(model, session, *tags, now=now, how=DROP)
