"""Very many queues that follow a change of policies or address settings, some in each turn."""

from __future__ import annotations

from annulet.core.host.refreshing import REFRESHED_AT_ONCE, REFRESHED_PER_SLICE
from annulet.core.host.virtual_host import VirtualHost
from annulet.core.queue.queue import Queue
from tests.core.helpers import NOW, SlicingEffects

MANY = REFRESHED_AT_ONCE + 1


class Scene:
    """A virtual host with so many queues, and a policy for their ring."""

    def __init__(self, count: int) -> None:
        self.effects = SlicingEffects()
        self.host = VirtualHost("/", self.effects)
        self.queues = [self.declare(f"q{number}") for number in range(count)]

    def declare(self, name: str) -> Queue:
        return self.host.declare_queue(name, now=NOW)

    def set(self, length: int) -> None:
        self.host.policies.set("all", "^q", {"ring-size": length})

    def following(self, length: int) -> int:
        return sum(queue.settings.ring_size == length for queue in self.queues)


def test_queues_at_the_bound_follow_in_the_call() -> None:
    scene = Scene(REFRESHED_AT_ONCE)
    scene.set(7)
    assert (scene.following(7), scene.effects.works) == (REFRESHED_AT_ONCE, [])


def test_more_of_them_follow_in_slices() -> None:
    scene = Scene(MANY)
    scene.set(7)
    followed = 0
    while scene.effects.works:
        assert scene.host.refreshing.waiting == MANY - followed
        scene.effects.turn()
        assert 0 < scene.following(7) - followed <= REFRESHED_PER_SLICE
        followed = scene.following(7)
    assert (followed, scene.host.refreshing.waiting) == (MANY, 0)


def test_address_settings_are_followed_in_slices() -> None:
    scene = Scene(MANY)
    scene.host.address_settings.set("#", {"max-delivery-attempts": 7})
    assert scene.host.refreshing.waiting == MANY
    scene.effects.turns()
    assert {queue.settings.max_delivery_attempts for queue in scene.queues} == {7}


def test_a_change_in_between_reaches_all_and_lists_no_queue_twice() -> None:
    scene = Scene(MANY)
    scene.set(7)
    scene.effects.turn()
    scene.set(8)
    assert scene.host.refreshing.waiting == MANY
    assert len(scene.effects.works) == 1
    scene.effects.turns()
    assert scene.following(8) == MANY


def test_new_queues_have_the_policy_at_once_and_deleted_ones_are_left_out() -> None:
    scene = Scene(MANY)
    scene.set(7)
    late = scene.declare("q-late")
    assert late.settings.ring_size == 7
    scene.host.delete_queue(scene.queues[-1], NOW)
    scene.effects.turns()
    assert scene.following(7) == MANY - 1


def test_a_defect_that_meets_one_queue_does_not_keep_the_others_from_following() -> None:
    scene = Scene(MANY)
    scene.set(7)
    scene.effects.turn()
    scene.effects.works.pop().abandon(NOW)
    scene.effects.turns()
    assert scene.following(7) == MANY
    scene.host.refreshing.abandon(NOW)
    assert scene.effects.works == []
