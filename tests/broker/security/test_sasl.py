from __future__ import annotations

import pytest
import structlog

from annulet.broker.network.listening import PeerFacts
from annulet.broker.security.authentication import Authenticator
from annulet.broker.security.password_hashes import HASHER
from annulet.broker.security.sasl import REFUSED, Challenge, Failure, SaslExchange, Success, mechanisms_text
from annulet.broker.settings.configuration import BrokerConfiguration, UserDeclaration
from annulet.broker.settings.limits import Limits
from annulet.broker.settings.scram_verifiers import derive_verifier
from annulet.wire.amqp091.types.values import encode_table
from tests.databases import memory_catalogue
from tests.scram_client import ScramClient

LOCAL = PeerFacts("127.0.0.1", 50_000, is_loopback=True)
REMOTE = PeerFacts("10.0.0.1", 50_000)
AMQPLAIN = encode_table({"LOGIN": "guest", "PASSWORD": "guest"})[4:]


@pytest.fixture
def authenticator() -> Authenticator:
    return Authenticator(memory_catalogue(), BrokerConfiguration(limits=Limits(login_delay_first=0)))


@pytest.mark.parametrize(
    ("protocol", "mechanism", "response"),
    [
        ("amqp10", "PLAIN", b"\0guest\0guest"),
        ("amqp091", "AMQPLAIN", AMQPLAIN),
        ("amqp10", "ANONYMOUS", b"trace"),
        ("stomp", "PLAIN", b"\0guest\0guest"),
    ],
)
@pytest.mark.parametrize("first", [True, False], ids=["initial response", "after an empty challenge"])
async def test_mechanisms_of_one_response(
    authenticator: Authenticator, protocol: str, mechanism: str, response: bytes, first: bool
) -> None:
    exchange = SaslExchange(authenticator, protocol)
    step = await exchange.begin(mechanism, response if first else None, peer=LOCAL)
    if not first:
        assert step == Challenge(b"")
        step = await exchange.respond(response)
    assert isinstance(step, Success)
    assert (step.user.name, step.additional) == ("guest", b"")
    assert isinstance(await exchange.respond(response), Failure), "one exchange, one login"


@pytest.mark.parametrize(
    ("protocol", "mechanism", "peer"),
    [
        ("amqp10", "ANONYMOUS", REMOTE),
        ("amqp091", "ANONYMOUS", LOCAL),
        ("amqp10", "AMQPLAIN", LOCAL),
        ("amqp10", "EXTERNAL", LOCAL),
        ("amqp10", "SCRAM-SHA-1", LOCAL),
    ],
)
async def test_what_is_not_offered_is_refused(
    authenticator: Authenticator, protocol: str, mechanism: str, peer: PeerFacts
) -> None:
    step = await SaslExchange(authenticator, protocol).begin(mechanism, b"", peer=peer)
    assert step == Failure(f"mechanism {mechanism!r} is not offered to this peer")
    statistics = authenticator.statistics()
    assert (statistics.refused, statistics.malformed) == (1, 1)


async def test_the_reason_a_peer_gets_tells_nothing(authenticator: Authenticator) -> None:
    for response in (b"\0guest\0wrong", b"\0nobody\0guest"):
        assert await SaslExchange(authenticator, "amqp10").begin("PLAIN", response, peer=LOCAL) == Failure(REFUSED)
    assert await SaslExchange(authenticator, "amqp10").begin("PLAIN", b"\0guest\0guest", peer=REMOTE) == Failure(
        REFUSED
    )


async def test_a_malformed_response_is_told_and_counted(authenticator: Authenticator) -> None:
    with structlog.testing.capture_logs() as logs:
        step = await SaslExchange(authenticator, "amqp10").begin("PLAIN", b"guest", peer=LOCAL)
    assert step == Failure("PLAIN response has 1 fields, 3 are prescribed (RFC 4616 §2)")
    assert logs[0]["reason"] == step.reason
    assert authenticator.statistics().malformed == 1


async def test_external_with_a_certificate(authenticator: Authenticator) -> None:
    peer = PeerFacts("127.0.0.1", 1, is_loopback=True, tls=True, certificate_name="guest")
    step = await SaslExchange(authenticator, "amqp10").begin("EXTERNAL", b"", peer=peer)
    assert isinstance(step, Success)
    assert step.user.name == "guest"


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("carries", [True, False], ids=["data with success", "data as a challenge"])
async def test_scram(authenticator: Authenticator, mechanism: str, carries: bool) -> None:
    client = ScramClient(mechanism, "guest", "guest")
    exchange = SaslExchange(authenticator, "amqp10", success_carries_data=carries)
    challenge = await exchange.begin(mechanism, client.first, peer=LOCAL)
    assert isinstance(challenge, Challenge)
    step = await exchange.respond(client.final(challenge.octets))
    if not carries:
        assert step == Challenge(client.server_signature)
        step = await exchange.respond(b"")
        assert isinstance(step, Success)
    else:
        assert isinstance(step, Success)
        assert step.additional == client.server_signature
    assert step.user.name == "guest"
    assert authenticator.statistics().accepted == 1
    assert isinstance(await exchange.respond(b""), Failure)


@pytest.mark.parametrize(("name", "password"), [("guest", "wrong"), ("nobody", "guest")])
async def test_scram_with_wrong_credentials(authenticator: Authenticator, name: str, password: str) -> None:
    client = ScramClient("SCRAM-SHA-256", name, password)
    exchange = SaslExchange(authenticator, "amqp10", success_carries_data=True)
    challenge = await exchange.begin("SCRAM-SHA-256", client.first, peer=LOCAL)
    assert isinstance(challenge, Challenge), "an unknown user is not told from a known one"
    assert await exchange.respond(client.final(challenge.octets)) == Failure(REFUSED)
    assert isinstance(await exchange.respond(client.final(challenge.octets)), Failure)
    statistics = authenticator.statistics()
    assert (statistics.accepted, statistics.refused) == (0, 2)


async def test_the_last_answer_of_scram_is_empty(authenticator: Authenticator) -> None:
    client = ScramClient("SCRAM-SHA-256", "guest", "guest")
    exchange = SaslExchange(authenticator, "amqp091")
    challenge = await exchange.begin("SCRAM-SHA-256", client.first, peer=LOCAL)
    assert isinstance(challenge, Challenge)
    await exchange.respond(client.final(challenge.octets))
    assert await exchange.respond(b"x") == Failure("response to the last challenge is not empty")


async def test_scram_waits_like_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    verifier = str(derive_verifier("SCRAM-SHA-256", "secret", iterations=4096))
    users = {"alice": UserDeclaration(HASHER.hash("secret"), scram=(verifier,))}
    authenticator = Authenticator(memory_catalogue(), BrokerConfiguration(users=users), sleep=sleep)
    for _ in range(2):
        client = ScramClient("SCRAM-SHA-256", "alice", "wrong")
        exchange = SaslExchange(authenticator, "amqp10")
        challenge = await exchange.begin("SCRAM-SHA-256", client.first, peer=REMOTE)
        assert isinstance(challenge, Challenge)
        assert isinstance(await exchange.respond(client.final(challenge.octets)), Failure)
    assert [round(seconds, 3) for seconds in slept] == [0.1, 0.1, 0.1]  # after the first; before and after the second
    assert authenticator.attempts_waiting == 0


def test_mechanisms_as_amqp_0_9_1_lists_them() -> None:
    assert mechanisms_text(("PLAIN", "AMQPLAIN")) == "PLAIN AMQPLAIN"
