from __future__ import annotations

from typing import Any

from annulet.broker.amqp091.cancel_notices import CancelNotices


class Told:
    """Stands in for a channel."""

    def __init__(self) -> None:
        self.tags: list[str] = []

    def send_cancel(self, tag: str) -> None:
        self.tags.append(tag)


def test_a_notice_is_given_at_once_while_no_answer_is_due() -> None:
    notices, channel = CancelNotices(), Told()
    cancelled(notices, channel, "a")
    assert channel.tags == ["a"]


def test_notices_of_all_channels_wait_for_the_last_answer_and_keep_their_order() -> None:
    notices, first, second = CancelNotices(), Told(), Told()
    notices.hold()
    notices.hold()
    cancelled(notices, first, "a")
    cancelled(notices, second, "b")
    cancelled(notices, first, "c")
    notices.release()
    assert (first.tags, second.tags) == ([], [])
    notices.release()
    assert (first.tags, second.tags) == (["a", "c"], ["b"])
    cancelled(notices, second, "d")
    assert second.tags == ["b", "d"]


def cancelled(notices: CancelNotices, channel: Any, tag: str) -> None:
    notices.cancelled(channel, tag)
