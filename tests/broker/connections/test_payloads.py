from __future__ import annotations

from typing import Any

import pytest

from annulet.broker.connections.payloads import payload_of
from annulet.core.base.typed_values import Byte
from annulet.core.message.message import Message, Origin
from annulet.core.message.neutral_content import BODY_DATA, BODY_MAP, BODY_TEXT, MessageContent
from annulet.wire.amqp091.messages.properties import VIEW as AMQP_0_9_1
from annulet.wire.amqp10.messages.conversion import from_content
from annulet.wire.amqp10.messages.view import VIEW as AMQP_1_0
from annulet.wire.stomp.view import VIEW as STOMP

MAP = bytes.fromhex("00000008 00000001 0161 0101")


def message(kind: str, body: Any, **fields: Any) -> Message:
    content = MessageContent()
    content.body_kind, content.body = kind, body
    for name, value in fields.items():
        setattr(content, name, value)
    return Message(*from_content(content), Origin("", "q", "", AMQP_1_0))


@pytest.mark.parametrize("view", [AMQP_0_9_1, STOMP], ids=lambda view: view.name)
def test_bodies_of_protocols_that_have_octets_only_are_the_payload(view: Any) -> None:
    assert payload_of(Message(b"", b"body", Origin("", "q", "", view))) is None


def test_one_data_section_is_the_payload() -> None:
    assert payload_of(message(BODY_DATA, b"body", content_type="application/json")) is None


@pytest.mark.parametrize(
    ("kind", "body", "fields", "payload"),
    [
        (BODY_TEXT, "é", {}, ("é".encode(), "text/plain")),
        (BODY_TEXT, "{}", {"content_type": "application/json"}, (b"{}", "application/json")),
        (BODY_MAP, {"a": Byte(1)}, {}, (MAP, "amqp/map")),
        (BODY_MAP, {"a": Byte(1)}, {"content_type": "application/json"}, (MAP, "amqp/map")),
        (BODY_DATA, b"ab", {"annotations": {"x-opt-annulet-data-sections": [1, 1]}}, (b"ab", None)),
        (BODY_DATA, b"ab", {"footer": {"x-opt-checksum": 7}}, (b"ab", None)),
    ],
)
def test_other_bodies_are_written_as_for_0_9_1(kind: str, body: Any, fields: dict[str, Any], payload: Any) -> None:
    assert payload_of(message(kind, body, **fields)) == payload
