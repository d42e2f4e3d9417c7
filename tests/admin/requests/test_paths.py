from __future__ import annotations

import pytest

from annulet.admin.requests.paths import PathTable, decode_segment
from annulet.admin.requests.responses import ResourceError

TABLE = PathTable([("queues", 1), ("queues/{vhost}/{queue}", 2), ("queues/{vhost}/all", 3), ("users", 4)])


def test_text_wins_over_a_name() -> None:
    assert TABLE.match(["queues", "a", "b"]) == (2, {"vhost": "a", "queue": "b"})
    assert TABLE.match(["queues", "a", "all"]) == (3, {"vhost": "a"})
    assert TABLE.match(["queues", "a"]) is None
    assert TABLE.match([]) is None


@pytest.mark.parametrize(
    ("segments", "hint"),
    [
        (["user"], "; did you mean 'users'?"),
        (["queues", "a"], "; known here: queues/VHOST/QUEUE, queues/VHOST/all"),
        (["users", "a"], "; known here: users"),
        ([], "; known here: queues, queues/VHOST/QUEUE, queues/VHOST/all, users"),
    ],
)
def test_hints(segments: list[str], hint: str) -> None:
    assert TABLE.nearest(segments) == hint


def test_a_path_is_there_once() -> None:
    with pytest.raises(ValueError, match="'a/\\{y\\}' is in the table twice"):
        PathTable([("a/{x}", 1), ("a/{y}", 2)])


@pytest.mark.parametrize("segment", ["a%0Db", "a%0Ab", "a%00b", "%FF"])
def test_names_that_are_none(segment: str) -> None:
    with pytest.raises(ResourceError, match="field 'queue': value"):
        decode_segment("queue", segment)
    assert decode_segment("queue", "a%2Fb+c") == "a/b+c"
