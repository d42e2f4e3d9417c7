from __future__ import annotations

import pytest
from starlette.responses import Response

from annulet.admin.rabbitmq.framework.call import Call
from annulet.admin.rabbitmq.framework.routing import Route, RouteTable
from annulet.admin.requests.paths import decode_segment
from annulet.admin.requests.responses import ResourceError
from tests.admin.conftest import Site


async def handler(_call: Call) -> Response:
    return Response()


TABLE = RouteTable(
    [
        Route("queues/{vhost}", {"GET": handler}),
        Route("queues/{vhost}/{name}", {"GET": handler}),
        Route("queues/{vhost}/bulk", {"GET": handler}),
    ]
)


def test_a_path_is_found_by_its_segments_and_text_wins_over_a_name() -> None:
    found = TABLE.match(["queues", "%2F", "a"])
    assert found is not None
    assert found[0].path == "queues/{vhost}/{name}"
    assert found[1] == {"vhost": "%2F", "name": "a"}
    bulk = TABLE.match(["queues", "%2F", "bulk"])
    assert bulk is not None
    assert bulk[0].path == "queues/{vhost}/bulk"
    assert TABLE.match(["queues"]) is None


def test_a_path_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        RouteTable([Route("a/{b}", {"GET": handler}), Route("a/{c}", {"GET": handler})])


def test_a_name_is_decoded_once_and_a_plus_stays() -> None:
    assert decode_segment("name", "a%2Fb+%252F%20%C3%A9") == "a/b+%2F é"
    for wrong in ("%FF", "a%0Ab", "a%0d", "%00"):
        with pytest.raises(ResourceError, match="field 'name': value"):
            decode_segment("name", wrong)


async def test_errors_have_rabbitmqs_shape(site: Site) -> None:
    assert await site.send("GET", "/api/nothing") == (
        404,
        {
            "error": "Object Not Found",
            "reason": (await site.send("GET", "/api/nothing"))[1]["reason"],
        },
    )
    status, answer = await site.send("DELETE", "/api/extensions")
    assert (status, answer["error"]) == (405, "method_not_allowed")
    status, answer = await site.send("GET", "/api/extensions", user="plain:pass")
    assert (status, answer) == (401, {"error": "not_authorised", "reason": "Not management user"})
    status, answer = await site.send("GET", "/api/feature-flags", user="shop:pass")
    assert (status, answer) == (401, {"error": "not_authorised", "reason": "Not administrator user"})
    async with site.client(user=None) as client:
        response = await client.get("/api/extensions")
        assert (response.status_code, response.json()["error"]) == (401, "not_authorised")
        assert "Basic" in response.headers["www-authenticate"]


async def test_an_unknown_parameter_passes_and_one_that_is_nearly_known_does_not(site: Site) -> None:
    assert (await site.send("GET", "/api/extensions?_=1&anything=x"))[0] == 200
    status, answer = await site.send("GET", "/api/extensions?colums=x")
    assert (status, answer["error"]) == (400, "bad_request")
    assert answer["reason"] == "field 'colums': value 'x'; unknown query parameter; did you mean 'columns'?"
