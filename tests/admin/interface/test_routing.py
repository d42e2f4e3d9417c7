"""The order of checks, which is the same for all operations, and what the table says of unknown paths and methods."""

from __future__ import annotations

import pytest

from annulet.admin.interface.routing import METHODS
from annulet.admin.resources.routes import TABLE
from tests.admin.conftest import Site

PATH = "/api/v1/queues/%2F/a%2Fb"


async def test_every_resource_refuses_other_methods_with_those_it_has(site: Site) -> None:
    async with site.client() as client:
        for resource in TABLE.resources:
            path = f"/api/v1/{resource.path}".replace("{", "").replace("}", "")
            for method in METHODS:
                if resource.operation(method) is None:
                    response = await client.request(method, path)
                    assert (response.status_code, response.headers["allow"]) == (405, resource.methods), path
                    if method != "HEAD":
                        assert response.json()["reason"].endswith(f"use {resource.methods}")


async def test_head_is_answered_as_get(site: Site) -> None:
    site.queue("a/b")
    async with site.client() as client:
        assert (await client.head(PATH)).status_code == 200


async def test_an_answer_says_what_it_cost_the_loop(site: Site) -> None:
    site.queue("a/b")
    async with site.client() as client:
        response = await client.get(PATH)
    cost = response.headers["server-timing"]
    assert cost.startswith("loop;dur=")
    assert float(cost.removeprefix("loop;dur=")) > 0


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (f"{PATH}/mesages", "did you mean 'messages'?"),
        (f"{PATH}/operations/1/2", "write a slash within a name as %2F"),
        ("/api/v1/queues/%2F", "known here: queues/VHOST/QUEUE"),
        ("/api/v1/queue", "did you mean 'queues'?"),
        ("/api/v1", "known here: openapi.json, session, console/stream, history, "),
        ("/api/v1/queues/%2F/%FF", "field 'queue': value '%FF'; give UTF-8"),
        ("/api/v1/queues/%2F/a%0Ab", "give a name without CR, LF and NUL"),
    ],
)
async def test_paths_that_are_none(site: Site, path: str, words: str) -> None:
    _, reason = await site.refused("GET", path)
    assert words in reason


async def test_permission_comes_before_everything_else(site: Site) -> None:
    """A user without the permission gets the same answer for a queue that is there and for one that is not."""
    site.queue("there")
    answers = set()
    for name in ("there", "absent"):
        for query, body in (("", {"settings": {}}), ("?wrong=1", None)):
            path = f"/api/v1/queues/%2F/{name}{query}"
            status, answer = await site.send("PATCH", path, body, user="shop:pass", **{"If-Match": '"no"'})
            answers.add((status, answer["reason"].replace(name, "NAME")))
    assert answers == {(403, "configure access to 'NAME' in vhost '/' refused for user 'shop'")}


async def test_a_field_that_is_needed(site: Site) -> None:
    site.queue("shop")
    assert await site.refused("PATCH", "/api/v1/queues/%2F/shop", {}) == (
        400,
        "field 'settings' is missing; give an object of arguments such as {'ring-size': 100}",
    )
