"""Keys of an issuer: fetched over real HTTP, kept, fetched anew, and refused when something is wrong with them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from annulet.broker.security.issuer_keys import (
    DOCUMENT_BYTES_MAX,
    FETCH_SECONDS_LEAST,
    KEYS_KEPT_SECONDS,
    KEYS_MAX,
    KEYS_SECONDS,
    IssuerKeys,
    IssuerUnavailableError,
)
from tests.issuer import DISCOVERY, Issuer

DISCOVERY_PATH = "/realms/main" + DISCOVERY


class Seconds:
    """A clock of seconds that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer() as running:
        yield running


@pytest.fixture
def clock() -> Seconds:
    return Seconds()


@pytest.fixture
def keys(issuer: Issuer, clock: Seconds) -> IssuerKeys:
    return IssuerKeys(issuer.url, None, clock=clock)


async def why_not(keys: IssuerKeys) -> str:
    with pytest.raises(IssuerUnavailableError) as caught:
        await keys.find("first")
    return str(caught.value)


async def test_keys_are_fetched_once_and_kept(issuer: Issuer, keys: IssuerKeys) -> None:
    found = await keys.find("first")
    assert found is not None
    assert found["kty"] == "EC"
    assert await keys.find("first") == found
    assert keys.known("first") == found
    assert issuer.asked == [DISCOVERY_PATH, "/keys"]
    assert (len(keys), keys.fetched, keys.failed) == (1, 1, 0)


async def test_logins_that_wait_share_a_fetch(issuer: Issuer, keys: IssuerKeys) -> None:
    found = await asyncio.gather(*(keys.find("first") for _ in range(20)))
    assert all(found)
    assert len(issuer.asked) == 2


async def test_an_unknown_key_has_them_fetched_anew_at_most_once_in_a_while(
    issuer: Issuer, keys: IssuerKeys, clock: Seconds
) -> None:
    await keys.find("first")
    issuer.add_key("second")
    clock.now += FETCH_SECONDS_LEAST - 0.01
    for number in range(50):
        assert await keys.find(f"made up {number}") is None
    assert await keys.find("second") is None
    assert len(issuer.asked) == 2
    clock.now += 0.01
    assert await keys.find("second") is not None, "rotation"
    assert len(issuer.asked) == 4


async def test_a_withdrawn_key_counts_no_longer_when_the_keys_are_old(
    issuer: Issuer, keys: IssuerKeys, clock: Seconds
) -> None:
    changes: list[int] = []
    keys.on_change = lambda: changes.append(len(keys))
    issuer.add_key("second")
    await keys.find("first")
    del issuer.shown["first"]
    clock.now += KEYS_SECONDS - 1
    assert await keys.find("first") is not None
    clock.now += 1
    assert keys.known("first") is None, "too old to be used without asking"
    assert await keys.find("first") is None
    assert changes == [2, 1]


async def test_keys_are_kept_for_a_day_while_the_issuer_is_down(
    issuer: Issuer, keys: IssuerKeys, clock: Seconds
) -> None:
    await keys.find("first")
    issuer.stop()
    clock.now += KEYS_KEPT_SECONDS - 1
    assert await keys.find("first") is not None
    assert keys.failed == 1
    clock.now += KEYS_SECONDS
    assert "refused" in await why_not(keys)


async def test_an_issuer_that_is_down_is_asked_again_later(issuer: Issuer, keys: IssuerKeys, clock: Seconds) -> None:
    issuer.answers["/keys"] = 503
    assert "503" in await why_not(keys)
    assert "503" in await why_not(keys)
    assert issuer.asked.count("/keys") == 1
    del issuer.answers["/keys"]
    clock.now += FETCH_SECONDS_LEAST
    assert await keys.find("first") is not None


async def test_without_a_key_id_the_only_key_counts(issuer: Issuer, keys: IssuerKeys, clock: Seconds) -> None:
    assert await keys.find(None) is not None
    issuer.add_key("second")
    clock.now += KEYS_SECONDS
    await keys.find("second")
    assert await keys.find(None) is None


@pytest.mark.parametrize(
    ("path", "answer", "reason"),
    [
        (DISCOVERY_PATH, b'{"issuer": "https://other.example"}', "other.example"),
        (DISCOVERY_PATH, b"[]", "no JSON object"),
        (DISCOVERY_PATH, b"<html>", "malformed"),
        (DISCOVERY_PATH, 302, "302"),
        ("/keys", b"{}", "no list 'keys'"),
        ("/keys", b'{"keys": []}', "no key for signatures"),
        ("/keys", b'{"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "first"}]}', "no key for signatures"),
        ("/keys", b'{"keys": [{"kty": "EC", "use": "enc", "kid": "first"}]}', "no key for signatures"),
        ("/keys", b'{"keys": [{"kty": ["EC"], "kid": "first"}, 7]}', "no key for signatures"),
        ("/keys", b"[" * 200_000, "recursion"),
        ("/keys", b" " * (DOCUMENT_BYTES_MAX + 1), f"more than {DOCUMENT_BYTES_MAX} bytes"),
    ],
)
async def test_wrong_documents_give_no_keys(
    issuer: Issuer, keys: IssuerKeys, path: str, answer: bytes | int, reason: str
) -> None:
    issuer.answers[path] = answer
    assert reason in await why_not(keys)


@pytest.mark.parametrize("address", ["http://keys.example/keys", "file:///etc/passwd", 7, None])
async def test_keys_come_over_tls_or_from_this_machine(issuer: Issuer, keys: IssuerKeys, address: object) -> None:
    issuer.answers[DISCOVERY_PATH] = json.dumps({"issuer": issuer.url, "jwks_uri": address}).encode()
    assert "jwks_uri" in await why_not(keys)


async def test_a_key_set_is_bounded(issuer: Issuer, keys: IssuerKeys) -> None:
    many = [{**issuer.shown["first"], "kid": f"key {number}"} for number in range(KEYS_MAX + 1)]
    issuer.answers["/keys"] = json.dumps({"keys": many}).encode()
    assert await keys.find(f"key {KEYS_MAX - 1}") is not None
    assert await keys.find(f"key {KEYS_MAX}") is None
    assert len(keys) == KEYS_MAX


async def test_an_unusable_file_of_authorities_is_told(issuer: Issuer, clock: Seconds, tmp_path: object) -> None:
    keys = IssuerKeys(issuer.url, tmp_path / "none.pem", clock=clock)  # type: ignore[operator]
    assert "No such file" in await why_not(keys)
