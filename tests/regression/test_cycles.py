"""A9: what ends takes itself apart; a reference cycle would stay until a full collection, and those are rare."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from pathlib import Path
from types import FunctionType
from typing import Any
from urllib.parse import urlsplit

import pytest

from annulet import testing
from annulet.admin import service
from annulet.broker.broker import Broker
from annulet.broker.settings.configuration import LOOPBACK, Endpoint
from annulet.broker.settings.limits import Limits
from tests.broker.conftest import until
from tests.certificates import Certificates
from tests.regression import bulk_cycle_kinds, timed_cycle_kinds  # noqa: F401 - they enter their kinds
from tests.regression.cycle_kinds import KINDS, Kind, Places

FEW = 20
MANY = 5000
SETTLE_SECONDS = 30.0
IDLE_SECONDS = 0.2
LIMITS = Limits(login_delay_first=0.0, login_delay_most=0.0)


@pytest.fixture(autouse=True)
def brief_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the time-out of idle HTTP connections end within the test."""
    monkeypatch.setattr(service, "IDLE_SECONDS", IDLE_SECONDS)


async def settled(broker: Broker) -> None:
    """Wait until all connections have ended, and for what ends a little later."""
    await until(lambda: not (broker.connections or broker.undecided or broker.web_sockets), SETTLE_SECONDS)
    await asyncio.sleep(2 * IDLE_SECONDS)


async def cycles_of(broker: Broker, work: Kind, places: Places, count: int) -> Counter[str]:
    """Return the objects that opening and closing ``count`` things leaves to a collection, by their types."""
    await asyncio.to_thread(work, places, 3)
    await settled(broker)
    gc.collect()
    gc.disable()
    try:
        await asyncio.to_thread(work, places, count)
        await settled(broker)
        found = collected()
    finally:
        gc.enable()
    return found


def collected() -> Counter[str]:
    """Collect, and return what only that freed, by type.

    A cycle with a suspended generator or coroutine ends when the collection finalises that, and is no garbage then: it
    is found by what is there no more. Tuples and dictionaries may only be out of the collector's sight then.
    """
    before = Counter(name_of(thing) for thing in gc.get_objects())
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
    finally:
        gc.set_debug(0)
    saved = Counter(name_of(thing) for thing in gc.garbage)
    finalised = before - Counter(name_of(thing) for thing in gc.get_objects())
    for name in ("builtins.tuple", "builtins.dict"):
        del finalised[name]
    gc.garbage.clear()
    return saved + finalised


def name_of(thing: Any) -> str:
    """Return what is shown of an object: a function by its name, else the type."""
    kind = type(thing)
    return thing.__qualname__ if isinstance(thing, FunctionType) else f"{kind.__module__}.{kind.__qualname__}"


async def check(name: str, count: int, folder: Path) -> None:
    """Run one kind against a broker with all listeners."""
    certificates = Certificates(folder / "certificates")
    free = Endpoint(LOOPBACK, 0)
    listeners: dict[str, Any] = dict.fromkeys(("amqps", "https", "bulks"), free)
    tls = {name: certificates.settings() for name in listeners}
    context = testing.broker(
        data_dir=folder / "data", stomp=True, bulk=True, tls=tls, limits=LIMITS, handshake_timeout=1.0, **listeners
    )
    async with context as running:
        broker = running.broker
        http, https, bulk, bulks = (
            urlsplit(running.urls[name]).port or 0 for name in ("http", "https", "bulk", "bulks")
        )
        assert broker.amqps_address is not None
        places = Places(
            amqp=broker.amqp_address,
            stomp=running.stomp_address,
            http=(LOOPBACK, http),
            amqps=broker.amqps_address,
            https=(LOOPBACK, https),
            bulk=running.bulk_url,
            bulk_address=(LOOPBACK, bulk),
            bulks=(LOOPBACK, bulks),
            tls=certificates.client_context(),
        )
        found = await cycles_of(broker, KINDS[name], places, count)
    assert found.total() < count // 2, f"left in cycles by {count}: {found.most_common(20)}"


@pytest.mark.parametrize("name", KINDS)
async def test_what_opens_and_closes_leaves_nothing_to_a_collection(name: str, tmp_path: Path) -> None:
    """A9: sessions, links, connections of every protocol and deleted queues ended as cycles."""
    await check(name, FEW, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("name", KINDS)
async def test_what_opens_and_closes_thousands_of_times_leaves_nothing(name: str, tmp_path: Path) -> None:
    """A9, 5,000 times each."""
    await check(name, MANY, tmp_path)
