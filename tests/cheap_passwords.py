"""Password hashes that cost microseconds, for every test that does not measure them.

A broker hashes two passwords when it starts and checks one at a login, each 25 ms of CPU on purpose. Over the suite's
thousand brokers that is a minute of nothing but Argon2. The hashes name their own parameters, so those that tests make
and those that a configuration brings are checked by the same code. Processes that tests start are not concerned.
"""

from __future__ import annotations

import argon2

from annulet.broker.security import password_hashes

PRODUCT_HASHER = password_hashes.HASHER
"""What users get; tests/broker/security/test_authentication.py holds it to its documented cost."""


def use_cheap_passwords() -> None:
    """Have everything in this process that is imported from now on hash with the least that Argon2 can do."""
    cheap = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    password_hashes.HASHER = cheap  # type: ignore[misc] # final for everybody else
