"""What an address pages has a limit: what publishers of each protocol see, what the log says, what a restart keeps."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import structlog
from pamqp import commands

from annulet import testing
from annulet.broker.broker import Broker
from annulet.broker.settings.configuration import load
from annulet.core.host.address_accounts import AddressAccount
from annulet.wire.amqp10.frames.outcomes import Rejected, TransactionalState
from annulet.wire.amqp10.types import conditions
from tests.broker.amqp091.peer import Peer, persistent, publish, settlements
from tests.broker.amqp10 import peer as amqp10
from tests.broker.amqp10.test_coordinator import controller, declare, discharge
from tests.broker.restarts import crash, leave, publish_all, queue_of
from tests.broker.stomp import peer as stomp

QUEUE, TX = commands.Queue, commands.Tx

ROOM = 3
"""Messages that the address takes with these limits."""


def limit(broker: Broker, policy: str) -> None:
    broker.hosts["/"].address_settings.set(
        "q", {"max-size-messages": 1, "page-limit-messages": ROOM - 1, "page-full-policy": policy}
    )


def account(broker: Broker, name: str = "q") -> AddressAccount:
    """Return the account of an address, opened and counted as the first send would."""
    found = broker.hosts["/"].limited.account_of(name)
    assert found is not None
    return found


async def fill(broker: Broker, policy: str) -> None:
    """Take the address as far as it goes."""
    limit(broker, policy)
    peer = await Peer(broker).open(1)
    await peer.send(1, QUEUE.Declare(queue="q"), *(publish(1, "q", b"%d" % number) for number in range(ROOM)))
    assert account(broker).page_full


def outcome(broker: Broker) -> tuple[int, int, int]:
    """Return what is held, dropped and refused."""
    return queue_of(broker).order.count, account(broker).dropped, account(broker).refused


# ---------------------------------------------------------------------- AMQP 0-9-1


@pytest.mark.parametrize(
    ("policy", "answer", "expected"), [("FAIL", "nack", (ROOM, 0, 1)), ("DROP", "ack", (ROOM, 1, 0))]
)
async def test_confirms_of_amqp_0_9_1(broker: Broker, policy: str, answer: str, expected: tuple[int, int, int]) -> None:
    await fill(broker, policy)
    peer = await Peer(broker).open(1)
    await peer.send(1, commands.Confirm.Select(), publish(1, "q", b"more"))
    assert settlements(await peer.take()) == [(answer, 1, False)]
    assert outcome(broker) == expected
    assert broker.limit_refusals == expected[2]


async def test_without_confirms_a_mandatory_message_comes_back(broker: Broker) -> None:
    await fill(broker, "FAIL")
    peer = await Peer(broker).open(1)
    await peer.send(1, publish(1, "q", b"more", mandatory=True))
    returned = await peer.one(commands.Basic.Return)
    assert returned.reply_code == 506
    assert "page-limit-messages is 2" in returned.reply_text


@pytest.mark.parametrize("policy", ["FAIL", "DROP"])
async def test_transactions_of_amqp_0_9_1(broker: Broker, policy: str) -> None:
    limit(broker, policy)
    peer = await Peer(broker).open(1)
    await peer.send(1, QUEUE.Declare(queue="q"), TX.Select(), *(publish(1, "q") for _ in range(ROOM + 1)), TX.Commit())
    if policy == "FAIL":
        close = await peer.one(commands.Channel.Close)
        assert close.reply_code == 406
        assert f"send {ROOM + 1}: address 'q' is full" in close.reply_text
        assert outcome(broker) == (0, 0, 1)
    else:
        await peer.one(TX.CommitOk)
        assert outcome(broker) == (ROOM, 1, 0)


# ---------------------------------------------------------------------- AMQP 1.0


@pytest.mark.parametrize("policy", ["FAIL", "DROP"])
async def test_outcomes_of_amqp_1_0(broker: Broker, policy: str) -> None:
    await fill(broker, policy)
    peer = await amqp10.Peer(broker).open()
    state = await peer.publish(await peer.sender("q"), amqp10.message())
    if policy == "FAIL":
        assert isinstance(state, Rejected)
        assert state.error is not None
        assert state.error.condition == conditions.RESOURCE_LIMIT_EXCEEDED
        assert "page-full-policy fail" in (state.error.description or "")
        assert (outcome(broker), broker.limit_refusals) == ((ROOM, 0, 1), 1)
    else:
        assert state == amqp10.ACCEPTED
        assert (outcome(broker), broker.limit_refusals) == ((ROOM, 1, 0), 0)


async def test_a_full_address_rolls_a_transaction_of_amqp_1_0_back(broker: Broker) -> None:
    await fill(broker, "FAIL")
    peer = await amqp10.Peer(broker).open()
    amqp10.queue_of(broker, "other")
    link, full, other = await controller(peer), await peer.sender("q"), await peer.sender("other")
    identifier = await declare(peer, link)
    for sender in (other, full):
        await peer.publish(sender, amqp10.message(), state=TransactionalState(identifier))
    state: Any = await discharge(peer, link, identifier)
    assert state.error.condition == conditions.TRANSACTION_ROLLBACK
    assert "send 2: address 'q' is full" in state.error.description
    assert queue_of(broker, "other").order.count == 0


# ---------------------------------------------------------------------- STOMP


@pytest.mark.parametrize("policy", ["FAIL", "DROP"])
async def test_receipts_of_stomp(broker: Broker, policy: str) -> None:
    await fill(broker, policy)
    peer = await stomp.Peer(broker).open()
    await peer.send("SEND", {"destination": "/queue/q", "receipt": "1"})
    if policy == "FAIL":
        frame = await peer.next("ERROR")
        assert "page-limit-messages is 2" in frame.headers["message"]
        assert frame.headers["receipt-id"] == "1"
        assert (outcome(broker), broker.limit_refusals) == ((ROOM, 0, 1), 1)
    else:
        assert (await peer.next("RECEIPT")).headers["receipt-id"] == "1"
        assert (outcome(broker), broker.limit_refusals) == ((ROOM, 1, 0), 0)


@pytest.mark.parametrize("policy", ["FAIL", "DROP"])
async def test_transactions_of_stomp(broker: Broker, policy: str) -> None:
    await fill(broker, policy)
    peer = await stomp.Peer(broker).open()
    await peer.request("BEGIN", transaction="t")
    await peer.request("SEND", {"destination": "/queue/q", "transaction": "t"})
    await peer.send("COMMIT", {"transaction": "t", "receipt": "9"})
    frame = await peer.next("ERROR" if policy == "FAIL" else "RECEIPT")
    assert frame.headers["receipt-id"] == "9"
    assert outcome(broker) == ((ROOM, 0, 1) if policy == "FAIL" else (ROOM, 1, 0))


# ---------------------------------------------------------------------- the log


async def test_that_messages_are_dropped_is_in_the_log_once(broker: Broker) -> None:
    with structlog.testing.capture_logs() as logs:
        await fill(broker, "DROP")
        peer = await Peer(broker).open(1)
        await peer.send(1, *(publish(1, "q") for _ in range(3)))
    told = [log for log in logs if "drops arrivals" in log["event"]]
    assert told == [
        {
            "event": "address is full and drops arrivals",
            "log_level": "warning",
            "address": "q",
            "rule": "page-full-policy drop",
        }
    ]


PAGING = "max-size-messages = 1"
COMPLETE = f'{PAGING}\npage-limit-messages = 5\npage-full-policy = "DROP"'


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (f"{PAGING}\npage-limit-bytes = 5", "without 'page-full-policy'; set it to 'drop' or 'fail'"),
        (f'{PAGING}\npage-full-policy = "DROP"', "without 'page-limit-bytes' or 'page-limit-messages'"),
        ('page-limit-messages = 5\npage-full-policy = "DROP"', "without 'max-size-bytes' or 'max-size-messages'"),
        (f'{COMPLETE}\naddress-full-policy = "BLOCK"', "with 'address-full-policy' block"),
        (COMPLETE, ""),
        (PAGING, ""),
        ("", ""),
    ],
)
@pytest.mark.parametrize("match", ["orders", "orders.#"])
async def test_limits_without_effect_are_named_at_the_start(
    tmp_path: Path, match: str, settings: str, reason: str
) -> None:
    file = tmp_path / "annulet.toml"
    file.write_text(f'[[address_settings]]\nmatch = "{match}"\n{settings}\n')
    with structlog.testing.capture_logs() as logs:
        async with testing.broker(http=False, definitions=load(file).definitions):
            pass
    found = [(log["match"], log["reason"]) for log in logs if log["event"] == "address settings without effect"]
    assert len(found) == (1 if reason else 0)
    assert all(name == match and reason in text for name, text in found)


async def test_who_is_exempt_is_not_named_nor_who_others_are_exempt_from(tmp_path: Path) -> None:
    file = tmp_path / "annulet.toml"
    file.write_text(
        f'[[address_settings]]\nmatch = "orders.#"\n{COMPLETE}\n'
        '[[address_settings]]\nmatch = "orders.*"\npage-full-policy = "none"\n'
    )
    with structlog.testing.capture_logs() as logs:
        async with testing.broker(http=False, definitions=load(file).definitions):
            pass
    assert [log["match"] for log in logs if log["event"] == "address settings without effect"] == []


async def test_what_another_pattern_completes_is_not_named(tmp_path: Path) -> None:
    file = tmp_path / "annulet.toml"
    file.write_text(
        '[[address_settings]]\nmatch = "orders.#"\nmax-size-messages = 1\npage-limit-messages = 5\n'
        '[[address_settings]]\nmatch = "#"\npage-full-policy = "FAIL"\n'
        '[[address_settings]]\nmatch = "other"\nid-cache-size = 5\n'
    )
    with structlog.testing.capture_logs() as logs:
        async with testing.broker(http=False, definitions=load(file).definitions) as running:
            running.broker.operator_settings.set_address_settings(
                running.broker.hosts["/"], "late", {"page-limit-messages": 5}
            )
    named = [(log["match"], log["reason"].split(";")[0]) for log in logs if "without effect" in log["event"]]
    nothing = "page limits have no effect without 'max-size-bytes' or 'max-size-messages': nothing is paged"
    assert named == [("#", "'page-full-policy' has no effect without 'page-limit-bytes' or 'page-limit-messages'"),
                     ("late", nothing)]  # fmt: skip


# ---------------------------------------------------------------------- restarts

BYTES = '[[address_settings]]\nmatch = "q"\nmax-size-bytes = 6\npage-limit-bytes = 7\npage-full-policy = "FAIL"\n'


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
async def test_what_is_paged_is_the_same_after_a_restart(tmp_path: Path, clean: bool) -> None:
    """By bytes, from a queue that gives them out in another order than they came in."""
    file, data = tmp_path / "annulet.toml", tmp_path / "live"
    file.write_text(BYTES)
    definitions = load(file).definitions
    async with testing.broker(http=False, data_dir=data, definitions=definitions) as running:
        peer = await Peer(running.broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="q", durable=True, arguments={"x-max-priority": 9}))
        for body, priority in ((b"11", 1), (b"2222", 9), (b"3", 5), (b"4444", 9), (b"55", 1)):
            await publish_all(running.broker, peer, persistent(1, "q", body, priority=priority))
        before = account(running.broker)
        expected = (5, 13, 3, 7)
        assert (before.messages, before.bytes, before.paged_count, before.paged_bytes) == expected
        assert queue_of(running.broker).order.entries()[0].message.body == b"2222"
        await crash(running.broker, data, tmp_path / "copy")
        await leave(peer)
    async with testing.broker(
        http=False, data_dir=data if clean else tmp_path / "copy", definitions=definitions
    ) as running:
        peer = await Peer(running.broker).open(1)
        await peer.send(1, commands.Confirm.Select())
        await publish_all(running.broker, peer, persistent(1, "q", b"x"))
        assert settlements(await peer.take()) == [("nack", 1, False)]
        after = account(running.broker)
        assert (after.messages, after.bytes, after.paged_count, after.paged_bytes) == expected
        assert [message.body for message in after.paged] == [b"3", b"4444", b"55"]
        assert after.refused == 1
        await leave(peer)


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
async def test_a_message_in_two_queues_is_paged_once_after_a_restart_too(tmp_path: Path, clean: bool) -> None:
    file, data = tmp_path / "annulet.toml", tmp_path / "live"
    file.write_text(
        '[[address_settings]]\nmatch = "news"\nmax-size-messages = 1\npage-limit-messages = 2\n'
        'page-full-policy = "DROP"\n'
        '[[addresses]]\nname = "news"\n'
        '[[queues]]\nname = "q"\nbindings = [{ exchange = "news" }]\n'
        '[[queues]]\nname = "r"\nbindings = [{ exchange = "news" }]\n'
    )
    definitions = load(file).definitions
    async with testing.broker(http=False, data_dir=data, definitions=definitions) as running:
        peer = await Peer(running.broker).open(1)
        await publish_all(running.broker, peer, *(persistent(1, "", b"%d" % n, exchange="news") for n in range(5)))
        assert (account(running.broker, "news").paged_count, account(running.broker, "news").dropped) == (2, 2)
        queue_of(running.broker, "r").purge(0)
        await running.broker.commit.durable()
        await crash(running.broker, data, tmp_path / "copy")
        await leave(peer)
    shutil.copytree(data if clean else tmp_path / "copy", tmp_path / "next")
    async with testing.broker(http=False, data_dir=tmp_path / "next", definitions=definitions) as running:
        found = account(running.broker, "news")
        assert (found.messages, found.paged_count, found.page_full, found.dropped) == (3, 2, True, 0)
        ledger = running.broker.hosts["/"].ledger
        dropped = [record.rule for record in ledger.query(queue="news")]
        assert dropped == ["page-full-policy drop"] * 2
