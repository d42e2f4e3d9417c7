from __future__ import annotations

from annulet.broker.amqp091.cancel_notices import CancelNotices


class Told:
    """Stands in for a channel."""

    def __init__(self) -> None:
        self.tags: list[str] = []

    def send_cancel(self, tag: str) -> None:
        self.tags.append(tag)


def test_a_notice_is_given_at_once_while_no_answer_is_due() -> None:
    notices, channel = CancelNotices(), Told()
    notices.cancelled(channel, "a")
    assert channel.tags == ["a"]


def test_notices_of_all_channels_wait_for_the_last_answer_and_keep_their_order() -> None:
    notices, first, second = CancelNotices(), Told(), Told()
    notices.hold()
    notices.hold()
    notices.cancelled(first, "a")
    notices.cancelled(second, "b")
    notices.cancelled(first, "c")
    notices.release()
    assert (first.tags, second.tags) == ([], [])
    notices.release()
    assert (first.tags, second.tags) == (["a", "c"], ["b"])
    notices.cancelled(second, "d")
    assert second.tags == ["b", "d"]
