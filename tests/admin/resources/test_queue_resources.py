"""What is below a queue's path, by method."""

from __future__ import annotations

import pytest

from annulet.admin.resources.queue_resources import METHODS, RESOURCES
from tests.admin.conftest import Site

PATH = "/api/v1/queues/%2F/a%2Fb"


async def test_every_resource_answers_and_other_methods_are_refused_with_those_it_has(site: Site) -> None:
    site.queue("a/b")
    for resource, handlers in RESOURCES.items():
        path = f"{PATH}/{resource.replace('ID', '1')}".rstrip("/")
        for method in METHODS:
            status, answer = await site.send(method, path)
            if method in handlers:
                assert status != 405, (method, path)
            else:
                assert (status, answer["error"]) == (405, "method_not_allowed"), (method, path)
                assert answer["reason"].endswith(f"use {', '.join(handlers)}")


async def test_a_refused_method_names_the_others_in_its_header(site: Site) -> None:
    async with site.client() as client:
        response = await client.post(PATH)
        assert response.headers["allow"] == "GET, PATCH"
        assert (await client.put(PATH)).status_code == 405
        site.queue("a/b")
        assert (await client.head(PATH)).status_code == 200


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (f"{PATH}/mesages", "did you mean 'messages'?"),
        (f"{PATH}/operations/1/2", "write a slash within a name as %2F"),
        (f"{PATH}/operations/ID", "no operation 'ID'"),
        ("/api/v1/queues/%2F", "the path is /api/v1/queues/VHOST/NAME"),
    ],
)
async def test_paths_that_are_none(site: Site, path: str, words: str) -> None:
    site.queue("a/b")
    status, reason = await site.refused("GET", path)
    assert status == 404
    assert words in reason
