"""Records of the catalogue: values that cannot be changed by whoever reads them."""

from __future__ import annotations

import dataclasses

import pytest

from annulet.store.database.definitions import (
    BindingRecord,
    ExchangeRecord,
    LeaseRange,
    LeaseRecord,
    PermissionRecord,
    QueueRecord,
    UserRecord,
)

RECORDS = [
    UserRecord("guest", "hash", ("administrator",)),
    PermissionRecord("guest", "/", ".*", ".*", ".*"),
    ExchangeRecord("e", "direct", auto_delete=False, internal=False),
    QueueRecord(1, "q", auto_delete=False),
    BindingRecord("e", "queue", "q", "k"),
    LeaseRecord("l", "/", 1, 1, 1000, 1000, 0, 0, "owner"),
    LeaseRange(1, 2, b"\0" * 16),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_records_are_values(record):
    assert record == dataclasses.replace(record)
    for field in dataclasses.fields(record):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(record, field.name, None)
        assert record != dataclasses.replace(record, **{field.name: "other"})


@pytest.mark.parametrize("kind", [ExchangeRecord, QueueRecord, BindingRecord])
def test_records_do_not_share_their_arguments(kind):
    required = [
        field.name
        for field in dataclasses.fields(kind)
        if field.default is field.default_factory is dataclasses.MISSING
    ]
    first, second = (kind(**dict.fromkeys(required, "x")) for _ in range(2))
    first.arguments["a"] = 1
    assert second.arguments == {}


def test_nobody_is_an_administrator_by_default():
    assert UserRecord("plain", "hash").tags == ()
    assert LeaseRecord("l", "/", 1, 1, 1000, 1000, 0, 0, "owner").generated is False
