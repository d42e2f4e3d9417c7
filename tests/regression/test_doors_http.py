"""Inputs that came through the doors of HTTP and WebSocket, or closed them for others."""

from __future__ import annotations

import base64

import httpx
import pytest
from wsproto import events

from annulet import testing
from annulet.broker.authentication import Authenticator
from annulet.broker.configuration import BrokerConfiguration
from annulet.broker.listening import PeerFacts, is_loopback
from annulet.broker.sasl import SaslExchange, Success
from annulet.store.catalogue import Catalogue
from tests.admin.test_web_socket import Page

GUEST = "Basic " + base64.b64encode(b"guest:guest").decode()


@pytest.mark.parametrize("name", ["127.evil.example", "127.0.0.1.evil.example", "127.", "127.0.0.256", "::ffff:127.x"])
def test_a_name_that_begins_as_an_address_is_no_address_of_this_machine(name: str) -> None:
    """A2: a host counted as local when its name began with ``127.``."""
    assert not is_loopback(name)


@pytest.mark.parametrize("origin", ["http://127.evil.example", "http://127.0.0.1.evil.example:8161"])
async def test_a_page_of_such_a_name_opens_no_web_socket(origin: str) -> None:
    """A2: it did, without a password."""
    async with testing.broker() as running:
        page = Page(running)
        answer = await page.open(origin=origin)
        assert isinstance(answer, events.RejectConnection)
        assert answer.status_code == 403
        page.close()


@pytest.mark.parametrize(
    "host", ["127.evil.example", "rebound.example", "rebound.example:8161", "localhost.evil.example"]
)
@pytest.mark.parametrize("path", ["/metrics", "/api/v1/queues", "/api/v1/overview"])
async def test_a_rebound_name_reads_nothing_with_the_well_known_password(host: str, path: str) -> None:
    """A2: GET and /metrics did not look at ``Host`` on loopback (DNS rebinding)."""
    async with testing.broker() as running, httpx.AsyncClient(base_url=running.http_url) as client:
        assert (await client.get(path, headers={"Authorization": GUEST})).status_code == 200
        for headers in ({}, {"Authorization": GUEST}):
            answer = await client.get(path, headers={"Host": host, **headers})
            assert answer.status_code == 401
        assert "'local_host_names'" in answer.json()["reason"]


async def test_a_page_of_such_a_name_changes_nothing() -> None:
    """A2: the check of ``Origin`` passed."""
    async with testing.broker() as running, httpx.AsyncClient(base_url=running.http_url) as client:
        headers = {"Authorization": GUEST, "Origin": "http://127.evil.example", "Host": "127.evil.example"}
        answer = await client.put("/api/v1/policies/%2F/p", headers=headers, json={"pattern": ".*", "definition": {}})
        assert answer.status_code == 403


async def test_a_rebound_name_is_no_anonymous_guest_over_a_web_socket() -> None:
    """A2: a program that names the broker as a foreign site does is not taken for local."""
    async with testing.broker() as running:
        page = Page(running)
        assert isinstance(await page.open(host="rebound.example"), events.AcceptConnection)
        page.send(events.TextMessage("CONNECT\naccept-version:1.2\nhost:/\n\n\0"))
        assert (await page.next()).data.startswith("ERROR\nmessage:login refused")
        page.close()


@pytest.mark.parametrize("protocol", ["amqp10", "stomp"])
async def test_an_anonymous_peer_is_no_administrator(protocol: str) -> None:
    """A2: SASL ANONYMOUS from loopback had the tags of guest."""
    authenticator = Authenticator(Catalogue(":memory:"), BrokerConfiguration())
    peer = PeerFacts("127.0.0.1", 1, is_loopback=True)
    step = await SaslExchange(authenticator, protocol).begin("ANONYMOUS", b"", peer=peer)
    assert isinstance(step, Success)
    assert (step.user.name, step.user.tags) == ("guest", frozenset())
    named = await authenticator.login("guest", "guest", peer=peer)
    assert named is not None
    assert named.tags == {"administrator"}
