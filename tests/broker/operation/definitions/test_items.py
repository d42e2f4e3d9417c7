from __future__ import annotations

from annulet.broker.operation.definitions.items import BINDING, USER_LIMIT, Item


def test_names_as_people_read_them() -> None:
    assert Item(USER_LIMIT, "", ("app", "max-channels")).name == "app: max-channels"
    assert Item(BINDING, "/", ("e", "queue", "q", "k", "")).name == "e -> q, key 'k'"
