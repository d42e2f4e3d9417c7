"""kill -9: what was confirmed before is remembered beside the messages: losses, deliveries, duplicate ids."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.broker_process import BrokerProcess
from tests.clients.support import Scene
from tests.crash.workload import PERSISTENT, encode

ROOT = Path(__file__).resolve().parents[2]


def test_losses_of_persistent_messages_are_in_the_ledger(process: BrokerProcess, scene: Scene) -> None:
    channel = scene.channel()
    channel.queue_declare("ring", durable=True, arguments={"x-ring-size": 10})
    channel.confirm_delivery()
    for number in range(30):
        channel.basic_publish("", "ring", encode(number), PERSISTENT)
    before = process.get("/api/v1/losses?queue=ring")
    for _ in range(2):
        process.restart()
        after = process.get("/api/v1/losses?queue=ring")
        assert after == before
        assert [item["sequence"] for item in after["items"]] == list(range(20, 0, -1))
        assert {(item["reason"], item["rule"]) for item in after["items"]} == {("replaced-ring", "ring-size=10")}
    (counts,) = process.get("/api/v1/losses/counts")["items"]
    assert (counts["queue"], counts["count"]) == ("ring", 20)


def test_a_message_is_not_delivered_more_often_than_it_may(process: BrokerProcess, scene: Scene) -> None:
    channel = scene.channel()
    channel.queue_declare("work", durable=True, arguments={"x-max-delivery-attempts": 3})
    channel.confirm_delivery()
    channel.basic_publish("", "work", b"poison", PERSISTENT)
    for attempt in range(3):
        method, _, body = channel.basic_get("work")
        assert method is not None, f"gone after {attempt} deliveries"
        assert body == b"poison"
        channel.basic_nack(method.delivery_tag, requeue=True)
        channel.queue_declare("other", durable=True)
        channel.basic_publish("", "other", b"", PERSISTENT)  # its confirm says that the return is on disk too
        process.restart()
        channel = scene.channel()
        channel.confirm_delivery()
    assert channel.basic_get("work")[0] is None
    (loss,) = process.get("/api/v1/losses?queue=work")["items"]
    assert (loss["reason"], loss["sequence"]) == ("rejected", 1)


SENDER = """
import asyncio, os, signal, sys
from annulet import testing
from tests.broker.restarts import send_with_id

async def main():
    async with testing.broker(http=False, data_dir=sys.argv[1]) as running:
        host = running.broker.hosts["/"]
        if "q" not in host.queues:
            queue_id = running.broker.catalogue.add_queue("/", "q", False, {})
            host.declare_queue("q", now=0, durable=True, queue_id=queue_id)
        print(send_with_id(running.broker, "order 7"), len(host.queues["q"].browse()))
        host.queues["q"].purge(0)
        await running.broker.commit.durable()
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def test_a_duplicate_stays_a_duplicate(tmp_path: Path) -> None:
    """The message itself was consumed and is gone: only its id is left."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    answers = []
    for _ in range(2):
        result = subprocess.run(
            [sys.executable, "-c", SENDER, str(tmp_path / "data")], cwd=ROOT, env=environment,
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert result.returncode == -signal.SIGKILL, result.stderr
        answers.append(result.stdout.splitlines()[-1])
    assert answers == ["0 1", "1 0"], "duplicates dropped, and messages in the queue"
