"""Errors of core and catalogue as reply codes."""

from __future__ import annotations

import pytest
from pamqp import commands

from annulet.broker.amqp091.reply_codes import translate, translated
from annulet.broker.amqp091.topology import Topology
from annulet.broker.broker import Broker
from annulet.core.base import errors
from annulet.store.files.errors import CatalogueError
from annulet.wire.amqp091.types.errors import ChannelError
from tests.broker.amqp091.peer import Peer


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.NotFound("x"), 404),
        (errors.PreconditionFailed("x"), 406),
        (errors.InvalidArgument("x"), 406),
        (errors.AccessRefused("x"), 403),
        (errors.ResourceLocked("x"), 405),
        (errors.CoreError("x"), 406),
    ],
)
def test_every_error_of_the_core_has_a_code(error: errors.CoreError, code: int) -> None:
    assert translate(error).code == code
    assert translate(error).text == "x"


def test_no_error_of_the_core_is_left_to_the_default() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.CoreError)]
    for kind in kinds:
        assert kind is errors.CoreError or translate(kind("x")).code in {403, 404, 405, 406}


def test_refusal_of_the_catalogue_closes_the_channel() -> None:
    with pytest.raises(ChannelError) as caught, translated():
        raise CatalogueError("disk full")
    assert (caught.value.code, caught.value.text) == (506, "disk full")


@pytest.mark.parametrize(
    ("error", "code"), [(errors.NotFound("x"), 404), (errors.ResourceLocked("x"), 405), (CatalogueError("x"), 506)]
)
async def test_refusals_of_a_get_have_their_codes_too(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
) -> None:
    def refuse(*_: object) -> None:
        raise error

    peer = await Peer(broker).open(1)
    monkeypatch.setattr(Topology, "get", refuse)
    await peer.send(1, commands.Basic.Get(queue="q"))
    closed = (await peer.take())[-1]
    assert isinstance(closed, commands.Channel.Close)
    assert (closed.reply_code, closed.class_id, closed.method_id) == (code, 60, 70)


def test_defects_are_not_translated() -> None:
    with pytest.raises(KeyError), translated():
        raise KeyError("defect")


async def test_no_wait_gets_no_answer_and_has_its_effect(broker: Broker) -> None:
    peer = await Peer(broker).open(1)
    await peer.send(
        1,
        commands.Exchange.Declare(exchange="e", nowait=True),
        commands.Exchange.Bind(destination="e", source="amq.topic", nowait=True),
        commands.Queue.Declare(queue="q", nowait=True),
        commands.Queue.Bind(queue="q", exchange="e", routing_key="k", nowait=True),
        commands.Basic.Consume(queue="q", consumer_tag="c", nowait=True),
        commands.Basic.Cancel("c", True),
        commands.Queue.Purge(queue="q", nowait=True),
        commands.Confirm.Select(True),
    )
    assert await peer.take() == []
    assert len(list(broker.hosts["/"].bindings())) == 2
    assert peer.connection.channels[1].confirms.enabled
    await peer.send(
        1, commands.Queue.Delete(queue="q", nowait=True), commands.Exchange.Delete(exchange="e", nowait=True)
    )
    assert await peer.take() == []
    assert broker.hosts["/"].queues == {}
