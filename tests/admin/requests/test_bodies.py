"""Bodies of requests: JSON objects, bounded, each member of its kind."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request

from annulet.admin.requests.bodies import (
    BODY_BYTES_MAX,
    INTEGER,
    INTEGERS,
    INTEGERS_MAX,
    MEMBERS_BYTES_MAX,
    OBJECT,
    SWITCH,
    TEXT,
    ArrivingBody,
    arguments_of,
    read_fields,
    read_object,
    required,
)
from annulet.admin.requests.responses import ResourceError
from annulet.broker.network.unfinished import UnfinishedWork
from annulet.broker.security.admission import Admission
from annulet.broker.settings.limits import Limits

KINDS = {"text": TEXT, "count": INTEGER, "switch": SWITCH, "ids": INTEGERS, "members": OBJECT}


class Broker:
    """What reading a body asks of the broker."""

    def __init__(self, most: int) -> None:
        self.unfinished = UnfinishedWork(most)
        self.admission = Admission(Limits())


def request(body: bytes, broker: Broker | None = None) -> Request:
    chunks = [body[: len(body) // 2], body[len(body) // 2 :]]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": chunks.pop(0), "more_body": bool(chunks)}

    application = SimpleNamespace(state=SimpleNamespace(broker=broker or Broker(2 * BODY_BYTES_MAX)))
    return Request({"type": "http", "method": "POST", "headers": [], "app": application}, receive)


async def test_members_of_every_kind_and_none() -> None:
    body = b'{"text": "\xc3\xa9", "count": -5, "switch": false, "ids": [1, 2], "members": {"a": null}}'
    assert await read_fields(request(body), KINDS) == {
        "text": "\u00e9", "count": -5, "switch": False, "ids": [1, 2], "members": {"a": None}
    }  # fmt: skip
    assert await read_fields(request(b""), KINDS) == {}


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"{", 400, "the body is not JSON"),
        (b'"text"', 400, "must be a JSON object, not 'text'"),
        (b'{"text": "\xff"}', 400, "the body is not JSON"),
        (b'{"text": NaN}', 400, "the body is not JSON"),
        (b'{"members":' * 5000, 400, "the body is not JSON"),
        (b'{"txt": 1}', 400, "unknown field 'txt'; did you mean 'text'?"),
        (b'{"text": 5}', 400, "field 'text' must be a text, not 5"),
        (b'{"count": true}', 400, "field 'count' must be an integer, not True"),
        (b'{"count": 1.0}', 400, "field 'count' must be an integer, not 1.0"),
        (b'{"switch": 0}', 400, "field 'switch' must be true or false, not 0"),
        (b'{"ids": [1, null]}', 400, "field 'ids' must be a list of integers"),
        (b'{"members": []}', 400, "field 'members' must be an object, not []"),
        (b" " * (BODY_BYTES_MAX + 1), 413, "more than"),
        (b'{"text": "' + b"a" * MEMBERS_BYTES_MAX + b'"}', 413, "beside lists of integers have more than 65536 bytes"),
        (b'{"ids": [' + b"[]," * 30_000 + b"[]]}", 400, "field 'ids' must be a list of integers: Expected `int`"),
        (b'{"ids": [' + b"1," * INTEGERS_MAX + b"1]}", 400, "has 100001 integers, 100000 are allowed"),
        (b'{"' + b"a" * MEMBERS_BYTES_MAX + b'": 1}', 400, "give text, count, switch, ids, members"),
    ],
)
async def test_what_is_wrong_is_refused(body: bytes, status: int, words: str) -> None:
    with pytest.raises(ResourceError) as caught:
        await read_fields(request(body), KINDS)
    assert caught.value.status == status
    assert words in caught.value.reason


async def test_a_list_of_the_most_integers_is_taken() -> None:
    body = b'{"text": "a", "ids": [' + b"1234567890," * (INTEGERS_MAX - 1) + b"1]}"
    given = await read_fields(request(body), KINDS)
    assert (given["text"], len(given["ids"]), given["ids"][-1]) == ("a", INTEGERS_MAX, 1)


async def test_other_bodies_are_bounded_tightly() -> None:
    fits = b'{"text": "' + b"a" * (MEMBERS_BYTES_MAX - 12) + b'"}'
    assert len(fits) == MEMBERS_BYTES_MAX
    assert len((await read_fields(request(fits), {"text": TEXT}))["text"]) == MEMBERS_BYTES_MAX - 12
    assert len((await read_object(request(fits)))["text"]) == MEMBERS_BYTES_MAX - 12
    broker = Broker(BODY_BYTES_MAX)
    readings = read_fields(request(fits + b" ", broker), {"text": TEXT}), read_object(request(fits + b" ", broker))
    for reading in readings:
        with pytest.raises(ResourceError, match="more than 65536 bytes") as caught:
            await reading
        assert caught.value.status == 413
    assert broker.admission.limit_hits["HTTP", "http_body_bytes_max"] == 2


async def test_what_has_come_counts_as_unfinished_work_until_all_has() -> None:
    broker = Broker(1000)
    await read_fields(request(b'{"text": "' + b"a" * 988 + b'"}', broker), KINDS)
    assert (broker.unfinished.total, broker.unfinished.refused) == (0, 0)
    with pytest.raises(ResourceError, match="max_unfinished_bytes") as caught:
        await read_fields(request(b'{"text": "' + b"a" * 1000 + b'"}', broker), KINDS)
    assert caught.value.status == 503
    assert (broker.unfinished.total, broker.unfinished.refused) == (0, 1)
    assert broker.admission.limit_hits["HTTP", "max_unfinished_bytes"] == 1


def test_a_body_that_is_refused_between_two_reads_is_let_go_of() -> None:
    broker: Any = Broker(1000)
    large, small = ArrivingBody(broker, "large", 1000), ArrivingBody(broker, "small", 1000)
    large.add(b"a" * 600)
    small.add(b"b" * 401)
    assert (large.unfinished_bytes(), small.unfinished_bytes(), broker.unfinished.total) == (0, 401, 401)
    with pytest.raises(ResourceError, match="600 bytes"):
        large.add(b"a")
    for body in (large, small):
        body.end()
    assert broker.unfinished.total == 0


def test_what_has_to_be_there() -> None:
    assert required({"a": 0}, "a", "a number") == 0
    with pytest.raises(ResourceError, match="field 'a' is missing; give a number"):
        required({}, "a", "a number")


def test_arguments_have_no_null() -> None:
    given = {"a": 1, "b": [True, "c"], "d": {"e": 1.5}}
    assert arguments_of("setting", given) == given
    for value in (None, [None], {"c": None}):
        with pytest.raises(ResourceError, match="is null; give a value, or leave it out"):
            arguments_of("setting", {"a": value})
