from __future__ import annotations

from pathlib import Path

import pytest

from annulet.broker.connections.access import Access
from annulet.broker.operation.publishing import Submission, publish
from annulet.core.base.errors import AccessRefused, InvalidArgument, LimitExceeded, NotFound, PreconditionFailed
from annulet.core.host.sliced_commit import COMMIT_AT_ONCE_MAX
from annulet.testing import RunningBroker, broker
from annulet.wire.amqp091.messages.properties import BasicProperties


def access(running: RunningBroker, user: str = "guest") -> Access:
    return Access(running.broker.authenticator, running.broker.catalogue, running.broker.hosts["/"], user)


def submission(body: bytes = b"x", exchange: str = "", key: str = "q", **properties: object) -> Submission:
    made = BasicProperties()
    for name, value in properties.items():
        setattr(made, name, value)
    return Submission(exchange, key, made, body, "guest@test")


async def test_a_persistent_message_is_in_the_log_when_it_is_answered(tmp_path: Path) -> None:
    async with broker(data_dir=tmp_path, http=False) as running:
        rights = access(running)
        rights.declare_queue("q", now=0, durable=True, auto_delete=False, arguments={})
        assert await publish(running.broker, rights, submission(delivery_mode=2)) == 1
        assert running.broker.commit.window > 1
    async with broker(data_dir=tmp_path, http=False) as running:
        assert running.broker.hosts["/"].queues["q"].statistics().message_count == 1


async def test_headers_act_as_they_do_in_amqp() -> None:
    async with broker(http=False) as running:
        rights = access(running)
        for name in ("q", "copy"):
            rights.declare_queue(name, now=0, durable=False, auto_delete=False, arguments={})
        assert await publish(running.broker, rights, submission(headers={"CC": ["copy"]}, expiration="60000")) == 2
        assert await publish(running.broker, rights, submission(headers={"x-delay": 60_000})) == 1
        statistics = running.broker.hosts["/"].queues["q"].statistics()
        assert (statistics.pending_count, statistics.scheduled_count) == (1, 1)


async def test_a_message_for_very_many_queues_goes_in_slices_and_is_answered_when_all_have_it() -> None:
    async with broker(http=False) as running:
        host, rights = running.broker.hosts["/"], access(running)
        for number in range(COMMIT_AT_ONCE_MAX + 1):
            host.bind_queue(host.declare_queue(f"q{number}", now=0), "amq.fanout", "", {})
        slices = running.broker.worker.slices
        assert await publish(running.broker, rights, submission(exchange="amq.fanout")) > 0
        assert running.broker.worker.slices > slices + 1
        assert all(queue.statistics().pending_count == 1 for queue in host.queues.values())


async def test_refusals() -> None:
    async with broker(http=False) as running:
        rights = access(running)
        rights.declare_queue("q", now=0, durable=False, auto_delete=False, arguments={})
        with pytest.raises(AccessRefused):
            await publish(running.broker, access(running, "nobody"), submission())
        with pytest.raises(NotFound):
            await publish(running.broker, rights, submission(exchange="nope"))
        for wrong in (
            submission(user_id="other"),
            submission(expiration="x"),
            submission(priority=300),
            submission(type="x" * 300),
            submission(reply_to="amq.rabbitmq.reply-to"),
            submission(headers={"x-extend-delivery": 1}),
            submission(bytes(running.broker.admission.limits.max_message_bytes + 1)),
        ):
            with pytest.raises(InvalidArgument):
                await publish(running.broker, rights, wrong)
        running.broker.accepts_durable = lambda size, now: False  # type: ignore[method-assign]
        with pytest.raises(PreconditionFailed, match="disk of the message log is full"):
            await publish(running.broker, rights, submission(delivery_mode=2))
        running.broker.memory_blocked = True
        with pytest.raises(LimitExceeded, match="held back"):
            await publish(running.broker, rights, submission())
        assert running.broker.hosts["/"].queues["q"].statistics().messages_added == 0
