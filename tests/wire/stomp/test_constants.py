from __future__ import annotations

from annulet.wire.stomp import constants


def test_versions_are_tried_from_the_newest_on() -> None:
    assert list(constants.VERSIONS) == sorted(constants.VERSIONS, reverse=True)


def test_one_frame_of_the_largest_headers_may_come_before_a_login() -> None:
    assert constants.MAX_HEADER_BYTES <= constants.MAX_UNAUTHENTICATED_BYTES < constants.MAX_BODY_BYTES
    assert constants.MAX_HEADERS * 2 <= constants.MAX_HEADER_BYTES  # or the number could never be reached
    assert 0 < constants.LEAST_HEARTBEAT < constants.MOST_HEARTBEAT
