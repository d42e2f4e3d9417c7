"""Hashes of passwords: Argon2id for those that are set here, and RabbitMQ's salted SHA for those that were imported.

The stored text of an imported hash is ``ALGORITHM:HASH`` with RabbitMQ's name of the algorithm, so that it can be
exported as it came. RabbitMQ's hash is base64 of four octets of salt and the digest of salt and password
(``rabbit_password.erl``).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Final

import argon2

from annulet.core.base.errors import InvalidArgument

HASHER: Final = argon2.PasswordHasher(time_cost=3, memory_cost=12 * 1024, parallelism=1)
"""Argon2id, 12 MiB, 3 passes: one of the parameter sets OWASP holds equivalent, and the one that blocks a loop least
(about 25 ms). Hashes made with other parameters are accepted; the parameters are part of a hash."""

ARGON2: Final = "argon2id"
"""The name of our own algorithm in RabbitMQ's field ``hashing_algorithm``."""

ARGON2_PREFIX: Final = "$argon2"

ARGON2_KIBIBYTES_MOST: Final = 64 * 1024
"""Memory that a check of a hash given at run time may take: OWASP's largest set has 46 MiB, and two are checked at a
time."""

ARGON2_PASSES_MOST: Final = 10
"""Passes over it: with the most memory about half a second of a thread."""

SALT_BYTES: Final = 4
"""Of RabbitMQ's hashes."""

RABBITMQ_SHA256: Final = "rabbit_password_hashing_sha256"
"""RabbitMQ's default, also where a definition names no algorithm."""

RABBITMQ_DIGESTS: Final = {RABBITMQ_SHA256: "sha256", "rabbit_password_hashing_sha512": "sha512"}
"""RabbitMQ's algorithms that are accepted, and their digests. Its oldest, MD5, is refused."""

NO_PASSWORD: Final = ""
"""The hash of a user that no password lets in."""


class UnusableHashError(Exception):
    """A stored hash is not one. The text names the defect."""


def verify(known_hash: str, password: bytes) -> bool:
    """Return whether a password has this hash. Takes about 25 ms for Argon2, microseconds for imported ones.

    Raises :class:`UnusableHashError`.
    """
    if known_hash == NO_PASSWORD:
        return False
    algorithm, colon, encoded = known_hash.partition(":")
    if colon and algorithm in RABBITMQ_DIGESTS:
        octets = _octets_of(encoded, algorithm)
        digest = hashlib.new(RABBITMQ_DIGESTS[algorithm], octets[:SALT_BYTES] + password).digest()
        return hmac.compare_digest(digest, octets[SALT_BYTES:])
    try:
        return HASHER.verify(known_hash, password)
    except argon2.exceptions.VerifyMismatchError:
        return False
    except (argon2.exceptions.InvalidHashError, argon2.exceptions.VerificationError) as error:
        raise UnusableHashError(str(error)) from error


def is_imported(known_hash: str) -> bool:
    """Return whether a hash is RabbitMQ's."""
    return known_hash.partition(":")[0] in RABBITMQ_DIGESTS


def has_own_cost(known_hash: str) -> bool:
    """Return whether a hash takes as long to check as those made here."""
    try:
        return not HASHER.check_needs_rehash(known_hash)
    except argon2.exceptions.InvalidHashError:
        return False


def read_hash(given: str, algorithm: str | None) -> str:
    """Return the stored text of a hash that an operator or a definition gives; an empty one means no password.

    Raises :class:`InvalidArgument` for an unknown algorithm, and for a hash that is not of this algorithm.
    """
    if given == NO_PASSWORD:
        return NO_PASSWORD
    if given.startswith(ARGON2_PREFIX):
        if algorithm not in {None, ARGON2}:
            raise InvalidArgument(f"'hashing_algorithm' is {algorithm!r}, but the hash is Argon2's; give {ARGON2!r}")
        return _checked_argon2(given)
    name = RABBITMQ_SHA256 if algorithm is None else algorithm
    if name not in RABBITMQ_DIGESTS:
        known = ", ".join([ARGON2, *RABBITMQ_DIGESTS])
        raise InvalidArgument(f"'hashing_algorithm' {name!r} is not available; take one of {known}, or give 'password'")
    try:
        _octets_of(given, name)
    except UnusableHashError as error:
        raise InvalidArgument(f"'password_hash': {error}; export it anew, or give 'password'") from error
    return f"{name}:{given}"


def describe_hash(known_hash: str) -> tuple[str, str]:
    """Return a stored hash as RabbitMQ's fields ``password_hash`` and ``hashing_algorithm``."""
    algorithm, _, encoded = known_hash.partition(":")
    if algorithm in RABBITMQ_DIGESTS:
        return encoded, algorithm
    return known_hash, ARGON2 if known_hash else RABBITMQ_SHA256


def _octets_of(encoded: str, algorithm: str) -> bytes:
    try:
        octets = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise UnusableHashError(f"not base64: {error}") from error
    wanted = SALT_BYTES + hashlib.new(RABBITMQ_DIGESTS[algorithm]).digest_size
    if len(octets) != wanted:
        raise UnusableHashError(f"{len(octets)} octets, {algorithm} has {wanted}")
    return octets


def _checked_argon2(given: str) -> str:
    try:
        parameters = argon2.extract_parameters(given)
    except (argon2.exceptions.InvalidHashError, ValueError) as error:
        raise InvalidArgument("'password_hash' is not an Argon2 hash; `annulet password-hash` prints one") from error
    if parameters.memory_cost > ARGON2_KIBIBYTES_MOST or parameters.time_cost > ARGON2_PASSES_MOST:
        raise InvalidArgument(
            f"'password_hash' takes {parameters.memory_cost} KiB and {parameters.time_cost} passes a check; allowed "
            f"are {ARGON2_KIBIBYTES_MOST} KiB and {ARGON2_PASSES_MOST} passes"
        )
    return given
