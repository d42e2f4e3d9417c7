"""Messages of one broker are recorded by the command line and replayed into another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pika
import pytest
from click.testing import CliRunner

import annulet.testing
from annulet.cli.main import main
from annulet.testing import ThreadedBroker
from annulet.testing.recording import read_recording
from annulet.testing.session import BrokerSession
from tests.testing.conftest import channel_of

LINE: dict[str, Any] = {"routing_key": "orders", "accepted_at": 1_700_000_000_000, "body": "1"}


def _recording(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("".join(f"{json.dumps({**LINE, **line})}\n" for line in lines))
    return path


def test_what_was_recorded_arrives_with_its_content_and_its_distance_in_time(
    broker: ThreadedBroker, tmp_path: Path
) -> None:
    recording = tmp_path / "orders.jsonl"
    with annulet.testing.broker(http=True) as production, channel_of(production) as channel:
        channel.exchange_declare("shop", "topic")
        channel.queue_declare("orders")
        channel.queue_bind("orders", "shop", "#")
        channel.basic_publish(
            "shop",
            "orders.new",
            b'{"id": 1}',
            pika.BasicProperties(
                headers={"amount": 5, "tags": ["a", 2]}, content_type="application/json", message_id="m1", priority=3,
                expiration="7200000", delivery_mode=2, user_id="guest",
            ),
        )  # fmt: skip
        production.clock.advance("1h")
        channel.basic_publish("shop", "orders.paid", b"\xff\x00")
        done = CliRunner().invoke(main, ["browse", "orders", "--whole", "--url", production.http_url])
        assert done.exit_code == 0, done.output
        recording.write_text(done.stdout)
    with channel_of(broker) as channel:
        channel.exchange_declare("shop", "topic")
        channel.queue_declare("bills")
        channel.queue_bind("bills", "shop", "orders.*")
        assert broker.replay(recording) == 2
        first, second = broker.messages("bills")
        assert (first.exchange, first.routing_key, first.body) == ("shop", "orders.new", b'{"id": 1}')
        assert first.headers == {"amount": 5, "tags": ["a", 2]}
        assert (first.content_type, first.message_id, first.priority, first.durable) == (
            "application/json",
            "m1",
            3,
            True,
        )
        assert second.body == b"\xff\x00"
        assert second.published_at - first.published_at >= 3_600_000
        assert first.expires_at - first.published_at == 7_200_000


def test_a_recording_can_go_to_one_queue_and_its_delays_are_kept(broker: ThreadedBroker, tmp_path: Path) -> None:
    recording = _recording(
        tmp_path / "all.jsonl",
        {"body": "later", "accepted_at": 2_000, "deliver_at": 62_000},
        {"body": "earlier", "accepted_at": 1_000, "exchange": "of-production"},
    )
    with channel_of(broker) as channel:
        channel.queue_declare("here")
        broker.replay(recording, queue="here")
        assert [(message.body, message.state) for message in broker.messages("here")] == [
            (b"earlier", "pending"),
            (b"later", "scheduled"),
        ]
        broker.clock.advance("1m")
        assert {message.state for message in broker.messages("here")} == {"pending"}


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("{", "line 2: Input data was truncated"),
        ('{"routing_key": "q"}', r"line 2: Object missing required field `accepted_at`"),
        ('{"routing_key": "q", "accepted_at": "now", "body": ""}', r"Expected `int`, got `str` - at `\$.accepted_at`"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, word: str) -> None:
    recording = _recording(tmp_path / "wrong.jsonl", {})
    recording.write_text(f"{recording.read_text()}{line}\n")
    with pytest.raises(ValueError, match=word):
        read_recording(recording)


def test_a_message_that_cannot_be_published_is_named(session: BrokerSession, tmp_path: Path) -> None:
    broker = session.start()
    recording = _recording(tmp_path / "all.jsonl", {"exchange": "nowhere"})
    with pytest.raises(
        ValueError, match=r"exchange 'nowhere', routing key 'orders'.* cannot be published: no exchange"
    ):
        broker.replay(recording)
    broker.stop()


async def test_a_broker_in_the_loop_replays_too(tmp_path: Path) -> None:
    async with annulet.testing.broker(http=False) as broker:
        assert await broker.replay(_recording(tmp_path / "all.jsonl", {}, {"accepted_at": 1})) == 2
