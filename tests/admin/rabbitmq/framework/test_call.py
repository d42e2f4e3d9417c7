from __future__ import annotations

from tests.admin.conftest import Site


async def test_a_virtual_host_of_others_and_one_that_is_not_there_look_the_same(site: Site) -> None:
    paths = ("/api/policies/other", "/api/policies/missing")
    answers = [await site.send("GET", path, user="shop:pass") for path in paths]
    assert answers[0] == answers[1]
    assert answers[0][0] in (401, 404)
