"""Entity tags: changes are refused on an older state, answers are not sent twice."""

from __future__ import annotations

import pytest

from annulet.admin.interface.entity_tags import TAGS_MAX, changeable_part, entity_tag
from tests.admin.conftest import Site

PATH = "/api/v1/queues/%2F/shop"
CHANGE = {"settings": {"ring-size": 7}}


async def test_a_change_of_an_older_state_is_refused_and_traffic_is_none(site: Site) -> None:
    queue = site.queue("shop", ring_size=5)
    tag = (await site.get(PATH)).headers["etag"]
    site.publish("shop")
    other = (await site.get(PATH)).headers["etag"]
    assert other != tag
    status, _ = await site.send("PATCH", PATH, CHANGE, **{"If-Match": tag})
    assert (status, queue.settings.ring_size) == (200, 7)
    status, answer = await site.send("PATCH", PATH, {"settings": {"ring-size": 9}}, **{"If-Match": tag})
    assert (status, answer["error"], queue.settings.ring_size) == (412, "precondition_failed", 7)
    assert "it was changed since; GET it" in answer["reason"]
    assert (await site.send("PATCH", PATH, CHANGE, **{"If-Match": "*"}))[0] == 200


async def test_an_answer_that_the_client_has_is_not_sent_again(site: Site) -> None:
    site.queue("shop")
    async with site.client() as client:
        first = await client.get(PATH)
        tag = first.headers["etag"]
        for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
            again = await client.get(PATH, headers={"If-None-Match": known})
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        site.publish("shop")
        assert (await client.get(PATH, headers={"If-None-Match": tag})).status_code == 200


async def test_what_exists_is_not_made_again_and_what_is_not_there_is_not_changed(site: Site) -> None:
    path, body = "/api/v1/policies/%2F/short", {"pattern": "x", "definition": {"message-ttl": 5}}
    assert (await site.send("PUT", path, body, **{"If-Match": "*"}))[0] == 412
    assert (await site.send("PUT", path, body, **{"If-None-Match": "*"}))[0] == 200
    assert (await site.send("PUT", path, body, **{"If-None-Match": "*"}))[0] == 412
    assert (await site.send("DELETE", path, **{"If-Match": '"0-0"'}))[0] == 412
    assert (await site.send("DELETE", path, **{"If-Match": "*"}))[0] == 200


@pytest.mark.parametrize("header", ["If-Match", "If-None-Match"])
@pytest.mark.parametrize("text", ["abc", '"', '"a", *', ", ".join(['"a"'] * (TAGS_MAX + 1))])
async def test_headers_that_are_none_are_refused(site: Site, header: str, text: str) -> None:
    site.queue("shop")
    status, answer = await site.send("PATCH", PATH, CHANGE, **{header: text})
    assert (status, f"header {header}: give * or at most {TAGS_MAX}" in answer["reason"]) == (400, True)


async def test_a_malformed_header_counts_before_one_that_does_not_fit(site: Site) -> None:
    both = {"If-Match": "*", "If-None-Match": ""}
    assert (await site.send("PUT", "/api/v1/policies/%2F/short", {}, **both))[0] == 400


async def test_as_many_tags_as_allowed(site: Site) -> None:
    site.queue("shop")
    tags = ", ".join([*['"a-b"'] * (TAGS_MAX - 1), (await site.get(PATH)).headers["etag"]])
    assert (await site.send("PATCH", PATH, CHANGE, **{"If-Match": tags}))[0] == 200


async def test_resources_without_tags_say_so(site: Site) -> None:
    site.queue("shop")
    status, answer = await site.send("POST", f"{PATH}/pause", **{"If-Match": "*"})
    assert (status, "has no entity tags" in answer["reason"]) == (400, True)


def test_a_tag_begins_with_what_can_be_changed() -> None:
    assert entity_tag({"a": 1, "b": 2}, b"x").startswith(f'"{changeable_part({"b": 2, "a": 1})}-')
    assert entity_tag({"a": 1}, b"x") != entity_tag({"a": 1}, b"y")
