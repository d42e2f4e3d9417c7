"""Changes of access that a request makes, and rights that are lost while it is under way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from annulet.broker.network.listening import PeerFacts
from tests.admin.conftest import Site


@pytest.mark.parametrize("loss", ["deleted", "tag"])
async def test_an_administrator_that_is_none_any_more_changes_nothing(site: Site, loss: str) -> None:
    """The body of a request may take 30 s to come; the rights are asked for again when it has."""
    await site.send("PUT", "/api/v1/users/ann", {"tags": ["administrator"], "password": "secret"})

    async def body() -> AsyncIterator[bytes]:
        yield b'{"password": '
        if loss == "deleted":
            site.broker.access_directory.delete_users(["ann"])
        else:
            site.broker.access_directory.set_user("ann", ("monitoring",))
        await asyncio.sleep(0)
        yield b'"secret"}'

    async with site.client(user="ann:secret") as client:
        answer = await client.put("/api/v1/users/mallory", content=body())
    assert (answer.status_code, "taken away during the request" in answer.text) == (401, True)
    assert "mallory" not in {user.name for user in site.broker.access_directory.users()}


async def test_operations_without_a_body_are_checked_where_they_are_done(site: Site) -> None:
    await site.send("PUT", "/api/v1/users/ann", {"tags": ["administrator"], "password": "secret"})
    current = await site.broker.authenticator.login("ann", "secret", peer=PeerFacts())
    assert current is not None
    assert site.broker.authenticator.is_administrator(current)
    site.broker.access_directory.delete_users(["ann"])
    assert not site.broker.authenticator.is_administrator(current)
