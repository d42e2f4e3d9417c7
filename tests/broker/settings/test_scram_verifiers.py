"""What is kept of a password: its text, its bounds, and decoys that look the same."""

from __future__ import annotations

import pytest

from annulet.broker.settings.scram_verifiers import (
    DIGESTS,
    ITERATIONS,
    ScramError,
    ScramVerifier,
    decoy_verifier,
    derive_verifier,
    parse_verifier,
    prepare,
)


@pytest.mark.parametrize("mechanism", DIGESTS)
def test_verifiers_as_text(mechanism: str) -> None:
    verifier = derive_verifier(mechanism, "secret")
    assert parse_verifier(str(verifier)) == verifier
    assert verifier.iterations == ITERATIONS
    assert derive_verifier(mechanism, "secret").salt != verifier.salt


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not MECHANISM"),
        ("SCRAM-SHA-1$4096:AAAA$AAAA:AAAA", "not MECHANISM"),
        ("SCRAM-SHA-256$4095:AAAA$AAAA:AAAA", "4095 iterations; allowed are 4096 to"),
        ("SCRAM-SHA-256$4096:A$AAAA:AAAA", "verifier is not base64"),
        ("SCRAM-SHA-256$4096:AAAA$AAAA:AAAA", "keys have 3 and 3 octets; SCRAM-SHA-256 has 32"),
    ],
)
def test_malformed_verifiers(text: str, message: str) -> None:
    with pytest.raises(ScramError, match=message):
        parse_verifier(text)


def test_decoys_differ_by_user_mechanism_and_key_and_look_like_verifiers() -> None:
    def salt(mechanism: str, user: str, key: bytes) -> bytes:
        return decoy_verifier(mechanism, user, key).salt

    salts = [salt(m, u, k) for m in DIGESTS for u in ("a", "b") for k in (b"1", b"2")]
    assert len(set(salts)) == len(salts)
    decoy = decoy_verifier("SCRAM-SHA-512", "a", b"1")
    assert isinstance(decoy, ScramVerifier)
    assert (decoy.iterations, len(decoy.salt), len(decoy.stored_key)) == (ITERATIONS, 16, 64)


@pytest.mark.parametrize(
    ("text", "prepared"),
    [
        ("I\u00adX", "IX"),  # RFC 4013 §3
        ("user", "user"),
        ("USER", "USER"),
        ("\u00aa", "a"),
        ("\u2168", "IX"),
        ("a\u00a0b", "a b"),
        ("\u0007", "\u0007"),  # prohibited: taken as it is
    ],
)
def test_passwords_are_prepared(text: str, prepared: str) -> None:
    assert prepare(text) == prepared
