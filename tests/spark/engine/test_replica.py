"""The same history gives the same effects as the broker's core, whatever the composition."""

from __future__ import annotations

from typing import Any

import pytest

from annulet.core.model.entry import sequence_of
from annulet.core.queue.queue import Queue
from annulet.spark.engine.commands import parse_command
from annulet.spark.engine.effects import DELIVERY, DONE, DUPLICATE, FILTERED, FORWARD, LOSS, OUTCOME, Effect
from annulet.spark.engine.image import pack_rows, read_image, unpack_rows, write_image
from annulet.spark.engine.replica import Replica
from tests.core.model_suite.compositions import compositions
from tests.spark.engine.histories import Direct, history

EVERY = 9
"""One composition in so many; the others take their turn with other seeds in the soak test."""

IMAGED = 10
"""Commands between images."""


def told(effects: list[Effect]) -> tuple[list[Any], list[Any], list[bool]]:
    """Deliveries, losses and outcomes, as the direct driver says them."""
    deliveries = [
        (one.session, one.consumer, one.tag, one.message_id, one.redelivered, one.delivery_count)
        for one in effects
        if one.effect == DELIVERY
    ]
    losses = [(one.message, one.reason, one.replaced_by or 0, one.at) for one in effects if one.effect == LOSS]
    outcomes = [one.state in (DONE, DUPLICATE, FILTERED) for one in effects if one.effect == OUTCOME]
    return deliveries, losses, outcomes


def held(queue: Queue) -> dict[str, Any]:
    return {
        "pending": [entry.sequence for entry in queue.order.entries()],
        "scheduled": [entry.sequence for entry in queue.schedule.entries()],
        "delivering": [entry.sequence for entry in sorted(queue.delivering, key=sequence_of)],
        "counters": queue.counters.as_dict(),
        "due": queue.next_due_at(),
    }


def check(seed: int) -> None:
    composition = compositions()[seed % len(compositions())]
    print("seed", seed, composition.identifier)
    direct, replica = Direct("q"), Replica("q")
    effects: list[Effect] = []
    for one in history(seed, {"q": composition}, 150):
        direct.run(one)
        effects += replica.apply(parse_command(one[2]), one[3])
        assert told(effects) == (direct.deliveries, direct.losses(), direct.outcomes), one
        forwards = {(effect.message, effect.reason) for effect in effects if effect.effect == FORWARD}
        assert forwards == set(direct.forwarder.forwards)
        if one[1] % IMAGED == 0:  # what is made from an image goes on as if nothing had happened
            replica = read_image(unpack_rows(list(pack_rows(write_image(replica)))))
    assert replica.queue is not None
    assert held(replica.queue) == held(direct.queue)


@pytest.mark.parametrize("seed", range(0, len(compositions()), EVERY))
def test_a_history_has_the_effects_it_has_in_the_core(seed: int) -> None:
    check(seed)


@pytest.mark.soak
@pytest.mark.parametrize("round_number", range(1, 6))
def test_many_histories_have_the_effects_they_have_in_the_core(round_number: int) -> None:
    for place in range(len(compositions())):
        check(round_number * len(compositions()) + place)
