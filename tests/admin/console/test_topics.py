from __future__ import annotations

import pytest

from annulet.admin.console.topics import Topic, read_topics
from annulet.admin.requests.responses import ResourceError
from annulet.broker.observing.stream_figures import TOPICS_MAX


def test_names_are_percent_encoded() -> None:
    text = "overview,log,queues:%2F,queue:%2F/a%2Fb%2Cc,queue:other/caf%C3%A9"
    assert read_topics(text) == (
        Topic("overview"),
        Topic("log"),
        Topic("queues", "/"),
        Topic("queue", "/", "a/b,c"),
        Topic("queue", "other", "café"),
    )
    assert ",".join(map(str, read_topics(text))) == text


def test_texts_are_as_a_page_writes_them() -> None:
    assert str(Topic("queue", "/", "it's (a) *!")) == "queue:%2F/it's%20(a)%20*!"


def test_a_topic_counts_once() -> None:
    assert read_topics("overview,overview,queue:a/b,queue:a/%62") == (Topic("overview"), Topic("queue", "a", "b"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "overview,",
        "overview:x",
        "queues",
        "queues:",
        "queues:a/b",
        "queue:a",
        "queue:a/",
        "queue:/b",
        "queue:a/b/c",
        "users",
        "queue:a/%FF",
        "queue:a/%0A",
        ",".join(["overview"] * (TOPICS_MAX + 1)),
    ],
)
def test_others_are_refused(text: str) -> None:
    with pytest.raises(ResourceError) as raised:
        read_topics(text)
    assert (raised.value.status, "topics" in raised.value.reason) == (400, True)


def test_as_many_as_the_bound_are_taken() -> None:
    assert len(read_topics(",".join(f"queue:a/{number}" for number in range(TOPICS_MAX)))) == TOPICS_MAX
