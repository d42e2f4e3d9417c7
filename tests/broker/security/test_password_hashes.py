"""Hashes made here, and hashes that were imported."""

from __future__ import annotations

import base64
import hashlib

import argon2
import pytest

from annulet.broker.security.password_hashes import (
    ARGON2_KIBIBYTES_MOST,
    HASHER,
    NO_PASSWORD,
    UnusableHashError,
    describe_hash,
    has_own_cost,
    is_imported,
    read_hash,
    verify,
)
from annulet.core.base.errors import InvalidArgument

OF_RABBITMQ = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
"""The hash of ``test12`` in RabbitMQ's documentation of its algorithm (docs/passwords)."""


def imported(password: bytes, digest: str = "sha256") -> str:
    salt = b"\x90\x8d\xc6\x0a"
    return base64.b64encode(salt + hashlib.new(digest, salt + password).digest()).decode()


def test_the_hash_in_rabbitmqs_documentation() -> None:
    assert imported(b"test12") == OF_RABBITMQ
    known = read_hash(OF_RABBITMQ, "rabbit_password_hashing_sha256")
    assert verify(known, b"test12")
    assert not verify(known, b"test13")
    assert is_imported(known)
    assert describe_hash(known) == (OF_RABBITMQ, "rabbit_password_hashing_sha256")


def test_an_algorithm_that_is_not_named_is_rabbitmqs_default() -> None:
    assert verify(read_hash(OF_RABBITMQ, None), b"test12")


def test_sha_512() -> None:
    known = read_hash(imported(b"secret", "sha512"), "rabbit_password_hashing_sha512")
    assert verify(known, b"secret")
    assert not verify(known, b"other")


def test_our_own_hash_goes_out_and_comes_back() -> None:
    known = HASHER.hash(b"secret")
    assert describe_hash(known) == (known, "argon2id")
    assert read_hash(*describe_hash(known)) == known
    assert read_hash(known, None) == known
    assert not is_imported(known)
    assert has_own_cost(known)
    assert not has_own_cost(OF_RABBITMQ)
    assert verify(known, b"secret")
    assert not verify(known, b"other")


def test_no_password_lets_no_password_in() -> None:
    assert read_hash("", "rabbit_password_hashing_sha256") == NO_PASSWORD
    assert not verify(NO_PASSWORD, b"")


def test_a_damaged_hash_is_named() -> None:
    with pytest.raises(UnusableHashError):
        verify("$argon2id$nonsense", b"x")
    with pytest.raises(UnusableHashError, match="3 octets"):
        verify("rabbit_password_hashing_sha256:AAAA", b"x")


@pytest.mark.parametrize(
    ("given", "algorithm", "words"),
    [
        ("###", None, "'password_hash': not base64"),
        ("AAAA", None, "3 octets, rabbit_password_hashing_sha256 has 36"),
        (OF_RABBITMQ, "rabbit_password_hashing_md5", "'rabbit_password_hashing_md5' is not available; take one of"),
        (OF_RABBITMQ, "rabbit_password_hashing_sha512", "36 octets, rabbit_password_hashing_sha512 has 68"),
        ("$argon2id$nonsense", None, "'password_hash' is not an Argon2 hash"),
        (HASHER.hash("x"), "rabbit_password_hashing_sha256", "but the hash is Argon2's"),
    ],
)
def test_other_hashes_are_refused_by_field(given: str, algorithm: str | None, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        read_hash(given, algorithm)


def test_a_hash_whose_check_takes_too_much_is_refused() -> None:
    text = argon2.PasswordHasher(1, ARGON2_KIBIBYTES_MOST, 1).hash("x")
    assert read_hash(text, None) == text
    with pytest.raises(InvalidArgument, match="takes 65537 KiB and 1 passes a check"):
        read_hash(text.replace(f"m={ARGON2_KIBIBYTES_MOST}", f"m={ARGON2_KIBIBYTES_MOST + 1}"), None)
    with pytest.raises(InvalidArgument, match="11 passes"):
        read_hash(HASHER.hash("x").replace("t=1,", "t=11,"), None)
