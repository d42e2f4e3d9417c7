"""Rows R5 and A1 to A4 of the Artemis scenarios: address settings, purging queues, retroactive addresses."""

from __future__ import annotations

import pytest

from annulet.core.base.settings import UNLIMITED
from tests.scenarios.artemis.scene import Client, Scene, numbers


def test_r5_the_default_ring_size_of_one_address():
    scene = Scene({"ring.address": {"default-ring-size": 100}})
    sizes = {}
    for name in ("ring.address", "other.address"):
        created = scene.host.nodes.resolve_node(name, scene.now, routing_type="anycast").queue
        assert created is not None
        sizes[name] = created.settings.ring_size
    assert sizes == {"ring.address": 100, "other.address": UNLIMITED}
    scene.send(*["m"] * 101, to="ring.address")
    assert scene.figures("message_count messages_replaced", "ring.address") == (100, 1)


def test_a1_a_purging_queue_holds_nothing_while_nobody_consumes():
    scene = Scene()
    queue, client = scene.queue(purge_on_no_consumers=True), Client(scene)
    scene.send("before")
    assert scene.figures("message_count") == (0,)
    client.listen(queue, messages=0)
    scene.send("while")
    assert scene.figures("message_count") == (1,)
    client.leave()
    assert scene.figures("message_count consumer_count") == (0, 0)
    assert "q" in scene.host.queues
    assert scene.removed("purged") == 2


@pytest.mark.parametrize(
    ("address", "size"),
    [
        pytest.param("a.b", 2, id="A2"),
        pytest.param("a.b.c", 2, id="A2-one-more-word"),
        pytest.param("a.b.d", 3, id="A2-the-tighter-pattern"),
        pytest.param("a.b.d.lll", 3, id="A2-and-below-it"),
        pytest.param("a.babc", 1, id="A2-words-are-whole"),
    ],
)
def test_the_most_specific_match_decides(address, size):
    scene = Scene(
        {pattern: {"default-ring-size": number} for number, pattern in enumerate(("#", "a.b.#", "a.b.d.#"), 1)}
    )
    assert scene.queue("q", address=address).settings.ring_size == size


def ring_of(scene, name="news"):
    return scene.host.addresses[name].rings["multicast"]


@pytest.mark.parametrize("loops", [1, 3])
def test_a3_a_new_queue_gets_the_latest_messages_in_order(loops):
    scene = Scene({"news": {"retroactive-message-count": 15}})
    scene.address("news")
    for start in range(0, 15 * (loops + 1), 15):
        scene.send(*numbers(start, start + 15), to="news")
    assert scene.figures("message_count messages_replaced", ring_of(scene).name) == (15, 15 * loops)
    scene.queue("late", address="news")
    assert scene.held("late") == numbers(15 * loops, 15 * (loops + 1))
    scene.send("next", to="news")
    assert scene.held("late")[-1] == "next"


def test_a4_the_ring_follows_its_setting_and_is_trimmed_at_once():
    """Artemis leaves the surplus of a smaller number to be trimmed by hand."""
    scene = Scene({"news": {"retroactive-message-count": 10}})
    scene.address("news")
    scene.send(*numbers(0, 15), to="news")
    assert scene.held(ring_of(scene).name) == numbers(5, 15)
    for count, held in ((20, numbers(5, 15)), (10, numbers(5, 15)), (4, numbers(11, 15))):
        scene.host.address_settings.set("news", {"retroactive-message-count": count})
        scene.pass_time(1)
        assert ring_of(scene).settings.ring_size == count
        assert scene.held(ring_of(scene).name) == held
