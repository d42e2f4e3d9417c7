from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from annulet.cli.backup import EXIT_FAILED, reason_of
from annulet.cli.main import main
from tests.broker_process import BrokerProcess
from tests.clients.support import PATIENCE_SECONDS, Peer, Scene
from tests.crash.workload import Consumer, Producer, contents


def run(process: BrokerProcess, *arguments: str, password: str = "guest") -> Result:
    command = ["backup", "--url", process.http_url, *arguments]
    return CliRunner().invoke(main, command, env={"ANNULET_PASSWORD": password})


def test_a_broker_starts_on_the_backup_of_one_that_works(tmp_path: Path) -> None:
    """Producer and consumer go on meanwhile. What was confirmed before is there, what was settled before is not."""
    target = tmp_path / "backup"
    with BrokerProcess(tmp_path / "data") as process:
        scene = Scene(Peer(process.amqp_url, ours=True))
        channel = scene.channel()
        for queue in ("work", "markers"):
            channel.queue_declare(queue, durable=True)
        producer, consumer = Producer(scene.peer, "", ["work"], 0), Consumer(scene.peer, "work", "markers")
        producer.wanted = 500
        for client in (producer, consumer):
            client.start()
        assert producer.enough.wait(PATIENCE_SECONDS), producer.failure
        confirmed, settled = set(producer.confirmed), set(consumer.settled)
        result = run(process, str(target), "--json")
        assert result.exit_code == 0, (result.output, process.log_end())
        outcome = json.loads(result.stdout)
        assert outcome["state"] == "finished"
        assert outcome["bytes"] == outcome["copied_bytes"]
        refused = run(process, str(target))
        assert refused.exit_code == EXIT_FAILED
        assert "is not empty; give one that is empty" in refused.output
        for client in (producer, consumer):
            client.expect_death()
            client.join(PATIENCE_SECONDS)
            assert client.failure is None, client.failure
        taken = set(consumer.acknowledged)
        scene.close_connections()
    with BrokerProcess(target) as process:
        scene = Scene(Peer(process.amqp_url, ours=True))
        work = [number for number, _ in contents(scene.channel(), "work")]
        scene.close_connections()
    assert work == sorted(set(work)), "out of order or twice"
    assert confirmed - taken <= set(work), "a message confirmed before the backup is lost"
    assert not settled & set(work), "a message settled before the backup is back"


def test_what_is_wrong_is_said_in_one_line(tmp_path: Path) -> None:
    with BrokerProcess(None, log_file=tmp_path / "log") as process:
        result = run(process, str(tmp_path / "backup"))
        assert (result.exit_code, "start it with --data" in result.output) == (EXIT_FAILED, True)
        result = run(process, str(tmp_path / "backup"), password="wrong")
        assert (result.exit_code, "password is wrong" in result.output) == (EXIT_FAILED, True)
    result = run(process, str(tmp_path / "backup"))
    assert (result.exit_code, "does a broker run" in result.output) == (EXIT_FAILED, True)
    result = CliRunner().invoke(main, ["backup", "--url", "file:///etc", str(tmp_path)])
    assert (result.exit_code, "give http://HOST:PORT" in result.output) == (2, True)


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"<html>"])
def test_an_answer_that_is_not_ours_is_named_by_its_status(body: bytes) -> None:
    assert reason_of(body, 502) == "the broker answered 502"
