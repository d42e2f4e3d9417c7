"""``/api/v1/tokens``, and what tokens may do over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admin.conftest import Site

ANN = {"tags": ["administrator", "monitoring"], "password": "secret"}


@pytest.fixture
async def made(site: Site) -> Site:
    await site.send("PUT", "/api/v1/users/ann", ANN)
    return site


async def token_of(site: Site, **scope: Any) -> str:
    status, answer = await site.send("PUT", "/api/v1/tokens/ann/ci", scope)
    assert status == 201, answer
    return str(answer["token"])


async def test_a_token_is_made_shown_once_and_deleted(made: Site) -> None:
    status, answer = await made.send("PUT", "/api/v1/tokens/ann/ci", {"tags": ["monitoring"], "seconds": 60})
    assert status == 201
    text = answer.pop("token")
    assert answer["expires_at"] == made.clock() + 60_000
    assert (await made.send("GET", "/api/v1/tokens?user=ann"))[1]["items"] == [answer]
    assert (await made.send("GET", "/api/v1/tokens/ann/ci"))[1] == answer
    assert (await made.send("GET", "/api/v1/overview", user=f"ann:{text}"))[0] == 200
    assert await made.send("DELETE", "/api/v1/tokens/ann/ci") == (200, {"user": "ann", "name": "ci", "deleted": True})
    assert (await made.send("GET", "/api/v1/overview", user=f"ann:{text}"))[0] == 401


async def test_a_token_comes_as_bearer_too(made: Site) -> None:
    text = await token_of(made, tags=["monitoring"])
    async with made.client(user=None) as client:
        answer = await client.get("/api/whoami", headers={"Authorization": f"Bearer {text}"})
        assert answer.json() == {"name": "ann", "tags": ["monitoring"]}
        answer = await client.get("/api/whoami", headers={"Authorization": f"Bearer {text}x"})
        assert answer.status_code == 401


async def test_a_token_does_what_its_scope_leaves(made: Site) -> None:
    made.queue("q")
    reads = await token_of(made, tags=["administrator"], operations=["read"])
    assert (await made.send("GET", "/api/v1/users", user=f"ann:{reads}"))[0] == 200
    status, reason = await made.refused("PUT", "/api/v1/users/x", {"password": "p"}, user=f"ann:{reads}")
    assert (status, reason) == (403, "token 'ci' of user 'ann' has no operation configure in its scope")
    writes = await token_of(made, tags=["administrator"], operations=["write"])
    assert (await made.refused("PUT", "/api/v1/users/x", {"password": "p"}, user=f"ann:{writes}"))[0] == 403
    assert (await made.refused("PATCH", "/api/v1/queues/%2F/q", {"settings": {}}, user=f"ann:{writes}"))[0] == 403
    other = await token_of(made, tags=["administrator"], virtual_hosts=["other"])
    assert (await made.refused("GET", "/api/v1/queues/%2F/q", user=f"ann:{other}"))[0] == 404
    without = await token_of(made)
    assert (await made.refused("GET", "/api/v1/overview", user=f"ann:{without}"))[0] == 403


async def test_a_token_makes_no_tokens(made: Site) -> None:
    text = await token_of(made, tags=["administrator"])
    for method, path in (("PUT", "/api/v1/tokens/ann/more"), ("DELETE", "/api/v1/tokens/ann/ci")):
        assert (await made.refused(method, path, user=f"ann:{text}"))[0] == 403
    assert (await made.send("GET", "/api/v1/tokens", user=f"ann:{text}"))[1]["items"] == []


async def test_users_manage_their_own(made: Site) -> None:
    assert (await made.send("PUT", "/api/v1/tokens/manager/own", {}, user="manager:pass"))[0] == 201
    assert (await made.refused("PUT", "/api/v1/tokens/ann/own", {}, user="manager:pass"))[0] == 403
    await token_of(made)
    listed = (await made.send("GET", "/api/v1/tokens", user="manager:pass"))[1]["items"]
    assert [token["user"] for token in listed] == ["manager"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"operations": ["reed"]}, "operation 'reed' is unknown"),
        ({"operations": "read"}, "must be a list of texts"),
        ({"expires_at": 5}, "which is over"),
        ({"expires_at": -1}, "give an integer from 0 to"),
        ({"seconds": 0}, "field 'seconds' is 0; give an integer from 1 to"),
        ({"seconds": 5, "expires_at": 5}, "without 'expires_at'"),
        ({"tags": ["management"]}, "tag 'management' is none of user 'ann'"),
    ],
)
async def test_wrong_tokens_are_refused_by_field(made: Site, body: dict[str, Any], words: str) -> None:
    status, reason = await made.refused("PUT", "/api/v1/tokens/ann/ci", body)
    assert (status, words in reason) == (400, True), reason
