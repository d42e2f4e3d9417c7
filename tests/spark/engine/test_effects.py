"""How the core's calls become rows."""

from __future__ import annotations

from annulet.core.base.removal_reasons import RemovalReason
from annulet.spark.engine.commands import Command
from annulet.spark.engine.content import message_of
from annulet.spark.engine.effects import FORWARD, LOSS, EngineEffects, EngineForwarder, EngineLosses, Output
from tests.core.helpers import queue_of


def test_what_is_to_be_sent_on_names_its_target_and_the_whole_message() -> None:
    output = Output()
    queue = queue_of(EngineEffects(output), ring_size=1, dropped_address="dropped")
    queue.forwarder = EngineForwarder(output)
    queue.ledger.listeners.append(EngineLosses(output))
    for number in (1, 2):
        command = Command(command="publish", sequence=number, message_id=f"m{number}", properties={"b": 2, "a": 1})
        queue.enqueue(message_of(command, b"body", 5), 5)
    assert [(row.effect, row.message, row.reason, row.rule, row.target, row.body) for row in output.take()] == [
        (LOSS, 1, "replaced-ring", "ring-size=1", None, None),
        (FORWARD, 1, "replaced-ring", None, "dropped-address 'dropped'", b"body"),
    ]
    assert output.take() == []
    assert not queue.forwarder.takes(queue, RemovalReason.EXPIRED)


def test_properties_are_json_in_the_order_of_names_and_mark_the_first_of_a_group() -> None:
    output = Output()
    queue = queue_of(group_mode="sticky", group_first_key="first")
    command = Command(command="publish", sequence=1, group="g", properties={"b": 2, "a": True})
    entry = queue.enqueue(message_of(command, b"", 5), 5)
    queue.group_firsts.add(entry)
    output.add_message("delivery", entry)
    assert output.rows[0].properties == '{"a":true,"b":2,"first":true}'
