from __future__ import annotations

import pytest

from annulet.broker.security import login_throttle
from annulet.broker.security.login_throttle import FORGET_SECONDS, NAME_CHARACTERS_MAX, LoginThrottle


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def throttle(clock: Clock) -> LoginThrottle:
    return LoginThrottle(0.5, 3.0, 2, clock=clock)


def test_the_delay_doubles_up_to_the_cap(throttle: LoginThrottle) -> None:
    assert throttle.delay("a", "u") == 0
    assert [throttle.failed("a", "u") for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    for _ in range(100):  # no overflow
        throttle.failed("a", "u")
    assert throttle.delay("a", "u") == 3.0


def test_address_and_user_count_each_for_themselves(throttle: LoginThrottle) -> None:
    throttle.failed("a", "u")
    throttle.failed("a", "v")
    assert (throttle.delay("a", "w"), throttle.delay("b", "u"), throttle.delay("b", "w")) == (1.0, 0.5, 0.0)
    throttle.succeeded("a", "u")
    assert (throttle.delay("a", "w"), throttle.delay("b", "u"), throttle.delay("b", "v")) == (0.0, 0.0, 0.5)


@pytest.mark.parametrize(("after", "delay"), [(FORGET_SECONDS - 1, 1.0), (FORGET_SECONDS, 0.0)])
def test_failures_are_forgotten(throttle: LoginThrottle, clock: Clock, after: float, delay: float) -> None:
    throttle.failed("a", "u")
    throttle.failed("a", "u")
    clock.now += after
    assert throttle.delay("a", "u") == delay
    assert throttle.failed("a", "u") == (2.0 if delay else 0.5)


@pytest.mark.parametrize(("others", "remembered"), [(1, True), (2, True), (3, False)])
def test_the_table_is_bounded(
    throttle: LoginThrottle, monkeypatch: pytest.MonkeyPatch, others: int, remembered: bool
) -> None:
    monkeypatch.setattr(login_throttle, "ENTRIES_MAX", 3)
    throttle.failed("first", "first")
    for number in range(others):
        throttle.failed(f"a{number}", f"u{number}")
    assert (throttle.delay("first", "") > 0, throttle.delay("", "first") > 0) == (remembered, remembered)


def test_long_names_are_cut(throttle: LoginThrottle) -> None:
    throttle.failed("a", "x" * NAME_CHARACTERS_MAX + "1")
    assert throttle.delay("b", "x" * NAME_CHARACTERS_MAX + "2") == 0.5
    assert throttle.delay("b", "x" * (NAME_CHARACTERS_MAX - 1)) == 0.0


def test_attempts_that_wait_are_counted_by_address(throttle: LoginThrottle) -> None:
    assert [throttle.enter("a") for _ in range(3)] == [True, True, False]
    assert throttle.enter("b")
    throttle.leave("a")
    assert throttle.enter("a")
    for address in ("a", "a", "b"):
        throttle.leave(address)
    assert throttle.waiting == 0


def test_no_first_delay_means_none_at_all() -> None:
    throttle = LoginThrottle(0, 3.0, 2)
    assert [throttle.failed("a", "u") for _ in range(3)] == [0, 0, 0]


def test_another_address_of_the_same_machine_is_no_new_start(throttle: LoginThrottle) -> None:
    throttle.failed("2001:db8::1", "anna")
    assert throttle.delay("2001:db8::ffff", "bert") > 0
    assert throttle.delay("2001:db8:0:1::1", "bert") == 0
    throttle.enter("2001:db8::1")
    throttle.leave("2001:db8::2")
    assert throttle.waiting == 0
