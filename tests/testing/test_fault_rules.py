from __future__ import annotations

from pamqp import commands, frame

from annulet.testing.fault_rules import CONFIRM, METHOD_AT, REFUSAL, Chosen
from annulet.testing.gate import Gate
from annulet.testing.wire_commands import IN, Command
from annulet.wire.amqp091.connection.methods import METHODS_BY_NAME


def test_a_refusal_has_the_form_of_a_confirm() -> None:
    assert int.from_bytes(CONFIRM, "big") == METHODS_BY_NAME["basic.ack"].identifier
    assert int.from_bytes(REFUSAL, "big") == METHODS_BY_NAME["basic.nack"].identifier
    confirm = frame.marshal(commands.Basic.Ack(7, True), 3)
    assert confirm[METHOD_AT : METHOD_AT + 4] == CONFIRM
    refusal = confirm[:METHOD_AT] + REFUSAL + confirm[METHOD_AT + 4 :]
    _, channel, method = frame.unmarshal(refusal)
    assert (channel, method.name, method.delivery_tag, method.multiple) == (3, "Basic.Nack", 7, True)


def test_a_rule_is_not_for_a_socket_whose_protocol_is_unknown() -> None:
    rule = Chosen(None)
    gate = Gate(object(), [])
    assert not rule.concerns(gate)
    assert rule.handle(gate, Command(IN, "", b""))
    rule.passed(gate, Command(IN, "", b""))
    rule.end()
