"""Clients of each protocol that log in with access tokens of a real issuer on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pika
import pytest

from annulet import testing
from annulet.broker.settings.limits import Limits
from annulet.broker.settings.oidc_settings import ScopePermissions, ScopeSection
from annulet.bulk.client import BulkClient
from annulet.bulk.protocol import protocol
from annulet.bulk.protocol.url import parse_url
from annulet.testing.threaded import ThreadedBroker
from tests.clients import raw10
from tests.clients.amqp10 import Client, proton_missing, proton_process
from tests.clients.raw10 import Composite, RawAmqp10, Symbol
from tests.clients.stomp_client import PATIENCE_SECONDS, StompClient
from tests.clients.support import Peer
from tests.issuer import Issuer

READER = "annulet.read:*/* annulet.configure:*/*"
ALL = f"{READER} annulet.write:*/*"
SCOPES = {"app": ScopeSection(["management"], {"/": ScopePermissions(configure="^app", write="^app|^amq.default$")})}


@dataclass
class Place:
    """A broker that takes the tokens of an issuer."""

    issuer: Issuer
    broker: ThreadedBroker

    def token(self, scope: str = ALL, *, seconds: int = 3600, **claims: Any) -> str:
        now = self.broker.clock.now() // 1000
        return self.issuer.token(scope=scope, exp=now + seconds, **claims)

    def pika(self, token: str, name: str = "ignored") -> pika.BlockingConnection:
        host, port = self.broker.amqp_address
        credentials = pika.PlainCredentials(name, token)
        return pika.BlockingConnection(pika.ConnectionParameters(host, port, credentials=credentials))

    def http(self, token: str) -> httpx.Client:
        return httpx.Client(base_url=self.broker.http_url, headers={"Authorization": f"Bearer {token}"}, timeout=30)

    def raw10(self) -> RawAmqp10:
        client = RawAmqp10(Peer(self.broker.amqp_url, ours=True))
        client.send(raw10.SASL_HEADER)
        assert client.read_header() == raw10.SASL_HEADER
        offered = client.read(raw10.SASL_MECHANISMS)
        assert offered is not None
        assert b"OAUTHBEARER" in offered.body
        assert b"SCRAM" not in offered.body, "a client would take it, and no token fits"
        return client


def go_on(connection: pika.BlockingConnection, token: str) -> None:
    """Take another token, and look what the broker says; the end may come with the answer or after it."""
    connection.update_secret(token, "the first one ends")
    connection.process_data_events(PATIENCE_SECONDS)


@pytest.fixture
def place() -> Iterator[Place]:
    with Issuer() as issuer:
        settings = issuer.settings(scopes=SCOPES)
        limits = Limits(login_delay_first=0)
        with testing.broker(oidc=settings, limits=limits, http=True, stomp=True, journal=False) as broker:
            yield Place(issuer, broker)


def test_pika(place: Place) -> None:
    with place.pika(place.token()) as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        channel.confirm_delivery()
        channel.basic_publish("", "q", b"x")
        assert channel.basic_get("q")[2] == b"x"
        names = place.broker.do(lambda running: [one.user_name for one in running.broker.connections])
        assert names == ["alice"]


def test_a_scope_is_no_more_than_it_says(place: Place) -> None:
    with place.pika(place.token(READER)) as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        channel.confirm_delivery()
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match=r"write access to 'amq\.default'"):
            channel.basic_publish("", "q", b"x")


def test_scopes_of_the_configuration(place: Place) -> None:
    with place.pika(place.token("app")) as connection:
        connection.channel().queue_declare("app.q")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="configure access to 'other'"):
            connection.channel().queue_declare("other")


@pytest.mark.parametrize(
    "claims",
    [{"aud": "other"}, {"iss": "https://other.example"}, {"seconds": -31}, {"kid": "unknown"}, {"sub": "guest"}],
)
def test_wrong_tokens_are_refused(place: Place, claims: dict[str, Any]) -> None:
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        place.pika(place.token(**claims))
    with place.http(place.token(**claims)) as http:
        assert http.get("/api/v1/queues").status_code == 401


def test_a_user_without_any_scope_may_enter_nothing(place: Place) -> None:
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError):
        place.pika(place.token("openid"))


def test_an_issuer_that_is_down_lets_nobody_in_and_others_as_before(place: Place) -> None:
    token = place.token()
    place.issuer.stop()
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        place.pika(token)
    place.pika("guest", "guest").close()


def test_the_end_of_a_token_ends_connections(place: Place) -> None:
    connection = place.pika(place.token(seconds=60))
    channel = connection.channel()
    channel.queue_declare("q")
    other = place.pika(place.token(seconds=600))
    stomp = StompClient(place.broker.stomp_address[1]).connect("ignored", place.token(seconds=60))
    place.broker.clock.advance("75s")  # the leeway is 30 s, and the kit's clock goes on while this test waits
    channel.queue_declare("q", passive=True)
    place.broker.clock.advance("16s")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="token of user 'alice' has ended"):
        connection.process_data_events(PATIENCE_SECONDS)
    error = stomp.errors.get(timeout=PATIENCE_SECONDS)
    assert "token of user 'alice' has ended" in f"{error.headers} {error.body}"
    other.channel().queue_declare("q", passive=True)
    assert place.broker.do(lambda running: len(running.broker.login_ends)) == 1
    other.close()
    stomp.close()
    place.broker.settle()
    assert place.broker.do(lambda running: len(running.broker.login_ends)) == 0


def test_a_connection_goes_on_with_another_token(place: Place) -> None:
    connection = place.pika(place.token(seconds=60))
    channel = connection.channel()
    channel.queue_declare("q")
    connection.update_secret(place.token(READER, seconds=600), "the first one ends")
    place.broker.settle()
    place.broker.clock.advance("120s")
    channel.queue_declare("q", passive=True)
    channel.confirm_delivery()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match=r"write access to 'amq\.default'"):
        channel.basic_publish("", "q", b"x")
    connection.close()


def test_a_consumer_ends_when_another_token_does_not_allow_it(place: Place) -> None:
    connection = place.pika(place.token())
    channel = connection.channel()
    channel.queue_declare("q")
    channel.basic_consume("q", lambda *_: None)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="read access to 'q'"):
        go_on(connection, place.token("annulet.write:*/*"))


@pytest.mark.parametrize(("claims", "reason"), [({"sub": "bob"}, "of user 'bob'"), ({"aud": "other"}, "Audience")])
def test_a_wrong_other_token_ends_the_connection(place: Place, claims: dict[str, Any], reason: str) -> None:
    connection = place.pika(place.token())
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match=reason) as closed:
        go_on(connection, place.token(**claims))
    assert closed.value.reply_code == 530


def test_keys_are_rotated(place: Place) -> None:
    place.pika(place.token()).close()
    place.issuer.add_key("second")
    del place.issuer.shown["first"]
    tokens = place.broker.do(lambda running: running.broker.authenticator.access_tokens)
    place.broker.do(lambda running: setattr(tokens.keys, "_tried_at", None))  # ten seconds have passed
    place.pika(place.token(key="second")).close()
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        place.pika(place.token())


def test_stomp(place: Place) -> None:
    client = StompClient(place.broker.stomp_address[1]).connect("ignored", place.token())
    client.subscribe("/queue/of-stomp")
    client.send("/queue/of-stomp", "x")
    assert client.messages.get(timeout=PATIENCE_SECONDS).body == "x"
    client.close()


@pytest.mark.parametrize("mechanism", ["PLAIN", "OAUTHBEARER", "XOAUTH2"])
def test_amqp_1_0(place: Place, mechanism: str) -> None:
    token = place.token(filler="x" * 4000)
    response = {
        "PLAIN": f"\0any\0{token}",
        "OAUTHBEARER": f"n,a=any,\x01host=localhost\x01auth=Bearer {token}\x01\x01",
        "XOAUTH2": f"user=any\x01auth=Bearer {token}\x01\x01",
    }[mechanism].encode()
    with place.raw10() as client:
        init = raw10.encode(Composite(raw10.SASL_INIT, [Symbol(mechanism), response]))
        client.send(raw10.frame(init, kind=1))
        outcome = client.read(raw10.SASL_OUTCOME)
        assert outcome is not None
        assert b"\x50\x00" in outcome.body
        client.send(raw10.AMQP_HEADER)
        assert client.read_header() == raw10.AMQP_HEADER
        client.send(raw10.performative(raw10.OPEN, "raw", "localhost", raw10.Uint(2**32 - 1)))
        assert client.read(raw10.OPEN)
        client.session()
        client.link(0, raw10.RECEIVER, "of-ten")
        place.broker.clock.advance("2h")
        client.expect_close("token of user 'alice' has ended")


@pytest.mark.parametrize("response", [b"", b"n,,\x01host=x\x01\x01", b"n,,\x01auth=Basic eyJ\x01\x01", b"\xff"])
def test_malformed_responses(place: Place, response: bytes) -> None:
    with place.raw10() as client:
        init = raw10.encode(Composite(raw10.SASL_INIT, [Symbol("OAUTHBEARER"), response or None]))
        client.send(raw10.frame(init, kind=1))
        if not response:
            assert client.read(raw10.SASL_CHALLENGE), "the client speaks first, and has not"
            client.send(raw10.frame(raw10.encode(Composite(raw10.SASL_RESPONSE, [b"nothing"])), kind=1))
        outcome = client.read(raw10.SASL_OUTCOME)
        assert outcome is not None
        assert b"\x50\x01" in outcome.body


def test_proton(place: Place) -> None:
    if proton_missing():
        pytest.skip(proton_missing())
    with proton_process() as driver:
        host, port = place.broker.amqp_address
        client = Client(driver, f"amqp://{host}:{port}")
        connection = client.connect(user="any", password=place.token(), sasl="PLAIN")
        connection.receiver("of-proton")
        client.close()


def test_http(place: Place) -> None:
    place.broker.do(lambda running: running.broker.create_host("other"))
    with place.http(place.token(f"{READER} app")) as http:
        assert http.get("/api/v1/queues").status_code == 200
        assert {host["name"] for host in http.get("/api/vhosts").json()} == {"/", "other"}
        assert http.put("/api/queues/%2F/app.q", json={}).status_code == 201
        assert http.get("/api/users").status_code == 401, "for administrators"
        allowed = {one["vhost"]: one for one in http.get("/api/v1/session").json()["permissions"]}
        everything = {"configure": "^.*$", "write": "", "read": "^.*$", "browse": "", "manage": ""}
        assert allowed["other"] == {"vhost": "other", **everything}
        assert allowed["/"]["configure"] == "(?:^.*$)|(?:^app)"
    with place.http(place.token("app")) as http:
        assert {host["name"] for host in http.get("/api/vhosts").json()} == {"/"}
        assert http.get("/api/queues/other").status_code == 401
        assert http.put("/api/queues/%2F/q", json={}).status_code == 401, "as RabbitMQ answers"
    with place.http(place.token("annulet.tag:administrator")) as http:
        assert http.get("/api/users").status_code == 200
        refused = http.put("/api/v1/tokens/alice/own", json={})
        assert refused.status_code == 403, "an access token makes no other tokens"
    with place.http(place.token()) as http:
        assert http.get("/api/v1/queues").status_code == 403, "no tag"


def test_bulk_transfer(place: Place) -> None:
    with place.pika(place.token()) as connection:
        connection.channel().queue_declare("bulk", durable=True)
    url = place.broker.bulk_url.replace("guest:guest@", f"any:{place.token(seconds=60)}@")
    client = BulkClient(parse_url(url))
    status = protocol.QueueStatus(virtual_host="/", queue="bulk")
    assert client.act(status)["pending"] == 0
    place.broker.clock.advance("91s")
    with pytest.raises(Exception, match=r"login refused|gone"):
        client.act(status)
    client.close()


def test_a_local_user_of_that_name_ends_connections(place: Place) -> None:
    connection = place.pika(place.token())
    with httpx.Client(base_url=place.broker.http_url, auth=("guest", "guest"), timeout=30) as http:
        made = http.put("/api/users/alice", json={"password": "secret", "tags": ""})
        assert made.status_code == 201
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        place.pika(place.token())
    connection.close()
