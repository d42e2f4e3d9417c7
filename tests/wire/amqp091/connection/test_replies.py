from __future__ import annotations

from typing import Any

import pytest

from annulet.wire.amqp091.connection.replies import Replies
from tests.wire.amqp091.recorder import frames, opened

REPLIES: list[tuple[str, tuple[Any, ...], str, dict[str, Any]]] = [
    ("queue_declare_ok", ("q", 3, 2), "Queue.DeclareOk", {"queue": "q", "message_count": 3, "consumer_count": 2}),
    ("queue_declare_ok", ("q", 2**40, 0), "Queue.DeclareOk", {"message_count": 2**32 - 1}),
    ("queue_bind_ok", (), "Queue.BindOk", {}),
    ("queue_unbind_ok", (), "Queue.UnbindOk", {}),
    ("queue_purge_ok", (5,), "Queue.PurgeOk", {"message_count": 5}),
    ("queue_delete_ok", (5,), "Queue.DeleteOk", {"message_count": 5}),
    ("exchange_declare_ok", (), "Exchange.DeclareOk", {}),
    ("exchange_delete_ok", (), "Exchange.DeleteOk", {}),
    ("exchange_bind_ok", (), "Exchange.BindOk", {}),
    ("exchange_unbind_ok", (), "Exchange.UnbindOk", {}),
    ("qos_ok", (), "Basic.QosOk", {}),
    ("consume_ok", ("t",), "Basic.ConsumeOk", {"consumer_tag": "t"}),
    ("cancel_ok", ("t",), "Basic.CancelOk", {"consumer_tag": "t"}),
    ("get_empty", (), "Basic.GetEmpty", {}),
    ("confirm_select_ok", (), "Confirm.SelectOk", {}),
    ("tx_select_ok", (), "Tx.SelectOk", {}),
    ("tx_commit_ok", (), "Tx.CommitOk", {}),
    ("tx_rollback_ok", (), "Tx.RollbackOk", {}),
]


@pytest.mark.parametrize(("name", "arguments", "expected", "values"), REPLIES)
def test_every_reply(name: str, arguments: tuple[Any, ...], expected: str, values: dict[str, Any]) -> None:
    engine, _ = opened()
    getattr(engine.replies, f"send_{name}")(1, *arguments)
    ((channel, method),) = frames(engine)
    assert (channel, method.name) == (1, expected)
    assert {key: getattr(method, key) for key in values} == values


def test_no_reply_is_left_out() -> None:
    assert {f"send_{row[0]}" for row in REPLIES} == {name for name in vars(Replies) if name.startswith("send_")}
