from __future__ import annotations

import json
from http import HTTPStatus

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from annulet.admin.requests.responses import ResourceError, answer_http_exception, answer_resource_error, json_response

REQUEST = Request({"type": "http", "method": "GET", "path": "/", "headers": []})


def test_json_is_compact_and_typed() -> None:
    response = json_response({"a": [1, None]}, 201)
    assert (response.status_code, response.body, response.media_type) == (201, b'{"a":[1,null]}', "application/json")


@pytest.mark.parametrize(("status", "word"), [(400, "bad_request"), (404, "not_found"), (418, "error")])
async def test_errors_carry_word_reason_and_headers(status: int, word: str) -> None:
    answers = (
        await answer_resource_error(REQUEST, ResourceError(status, "why", {"X-A": "b"})),
        await answer_http_exception(REQUEST, HTTPException(status, "why", {"X-A": "b"})),
    )
    for answer in answers:
        assert answer.status_code == status
        assert answer.headers["x-a"] == "b"
        assert answer.media_type == "application/problem+json"
        content = json.loads(bytes(answer.body))
        assert (content["error"], content["reason"], content["detail"]) == (word, "why", "why")
        assert (content["type"], content["title"], content["status"]) == (
            "about:blank",
            HTTPStatus(status).phrase,
            status,
        )


async def test_other_exceptions_are_not_swallowed() -> None:
    for handler in (answer_resource_error, answer_http_exception):
        with pytest.raises(KeyError):
            await handler(REQUEST, KeyError("x"))
