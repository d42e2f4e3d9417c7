from __future__ import annotations

import base64

import pytest

from annulet.broker.security import scram
from annulet.broker.security.scram import MESSAGE_BYTES_MAX, ScramServer
from annulet.broker.settings.scram_verifiers import (
    ScramError,
    decoy_verifier,
    derive_verifier,
)

NONCE = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"


def test_the_example_of_rfc_7677(monkeypatch: pytest.MonkeyPatch) -> None:
    """RFC 7677 §3: user "user", password "pencil"."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    monkeypatch.setattr(scram.secrets, "token_bytes", lambda size: salt)
    verifier = derive_verifier("SCRAM-SHA-256", "pencil", iterations=4096)
    server = ScramServer("SCRAM-SHA-256")
    assert server.first(NONCE) == "user"
    server._nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    challenge = server.challenge(verifier)
    assert challenge == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    final = (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert server.final(final) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert server.final(final.replace(b"p=dH", b"p=dI")) is None


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"", "not n,,n=USER,r=NONCE"),
        (b"n,,n=user", "not n,,n=USER,r=NONCE"),
        (b"x,,n=user,r=abc", "not n,,n=USER,r=NONCE"),
        (b"n,,r=abc,n=user", "not n,,n=USER,r=NONCE"),
        (b"n,,n=user,r=", "not n,,n=USER,r=NONCE"),
        (b"n,,m=x,n=user,r=abc", "mandatory extensions are not supported"),
        (b"p=tls-unique,,n=user,r=abc", "channel binding is not offered"),
        (b"n,a=other,n=user,r=abc", "authorisation identity a is another one"),
        (b"n,,n=,r=abc", "user name n is empty"),
        (b"n,,n=a=2Db,r=abc", "= without 2C or 3D"),
        (b"n,,n=\xff,r=abc", "not UTF-8"),
        (b"n,,n=user,r=" + b"a" * MESSAGE_BYTES_MAX, "octets; allowed are 4096"),
    ],
)
def test_malformed_first_messages(message: bytes, text: str) -> None:
    with pytest.raises(ScramError, match=text):
        ScramServer("SCRAM-SHA-256").first(message)


@pytest.mark.parametrize(
    ("message", "name"),
    [
        (b"n,,n=user,r=abc", "user"),
        (b"y,,n=user,r=abc", "user"),
        (b"n,a=user,n=user,r=abc", "user"),
        (b"n,,n=a=2Cb=3D,r=abc,x=extension", "a,b="),
        ("n,,n=müller,r=abc".encode(), "müller"),
    ],
)
def test_first_messages(message: bytes, name: str) -> None:
    assert ScramServer("SCRAM-SHA-256").first(message) == name


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("c=biws,r={nonce}", "not c=HEADER,r=NONCE,p=PROOF"),
        ("r={nonce},c=biws,p=AAAA", "not c=HEADER,r=NONCE,p=PROOF"),
        ("c=eSws,r={nonce},p=AAAA", "channel binding c is not the header"),
        ("c=*,r={nonce},p=AAAA", "channel binding c is not base64"),
        ("c=biws,r={nonce}x,p=AAAA", "nonce r is not the one"),
        ("c=biws,r=abc,p=AAAA", "nonce r is not the one"),
        ("c=biws,r={nonce},p=AAAA", "proof p has 3 octets; SCRAM-SHA-256 has 32"),
        ("c=biws,r={nonce},p=&", "proof p is not base64"),
    ],
)
def test_malformed_final_messages(message: str, text: str) -> None:
    server = ScramServer("SCRAM-SHA-256")
    server.first(b"n,,n=user,r=abc")
    challenge = server.challenge(decoy_verifier("SCRAM-SHA-256", "user", b"key")).decode()
    nonce = challenge.split(",")[0].removeprefix("r=")
    with pytest.raises(ScramError, match=text):
        server.final(message.format(nonce=nonce).encode())


def test_nonces_differ() -> None:
    def nonce() -> bytes:
        server = ScramServer("SCRAM-SHA-256")
        server.first(b"n,,n=user,r=abc")
        return server.challenge(decoy_verifier("SCRAM-SHA-256", "user", b"key")).split(b",")[0]

    assert len({nonce() for _ in range(50)}) == 50
