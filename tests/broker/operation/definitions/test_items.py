from __future__ import annotations

from annulet.broker.operation.definitions.items import BINDING, USER_LIMIT, Item, Turns


def test_names_as_people_read_them() -> None:
    assert Item(USER_LIMIT, "", ("app", "max-channels")).name == "app: max-channels"
    assert Item(BINDING, "/", ("e", "queue", "q", "k", "")).name == "e -> q, key 'k'"


async def test_turns_are_given_after_a_bounded_time() -> None:
    now = 0.0
    turns = Turns(lambda: now)
    await turns.look()
    assert turns.given == 0
    now = 0.004
    await turns.look()
    await turns.look()
    assert turns.given == 1
