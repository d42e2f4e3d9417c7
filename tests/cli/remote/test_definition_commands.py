from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from annulet.cli.remote.failures import EXIT_ABORTED, EXIT_REFUSED_BY_BROKER, EXIT_USAGE
from tests.cli.remote.test_queue_commands import publish

RABBITMQ = Path(__file__).parents[2] / "broker/operation/definitions/rabbitmq_3_10.json"


def test_an_export_of_rabbitmq_is_imported_exported_and_planned_as_empty(annulet: Any, tmp_path: Path) -> None:
    ran = annulet.done("definitions", "import", str(RABBITMQ))
    assert "not taken: queues 'log' in 'shop': argument 'x-max-age'" in ran.error
    assert annulet.json("definitions", "import", str(RABBITMQ))["conflicts"] == []
    file = tmp_path / "own.json"
    annulet.done("definitions", "export", str(file))
    assert file.stat().st_mode & 0o777 == 0o600
    plan = annulet.json("definitions", "plan", str(file), "--prune")
    assert (plan["steps"], plan["conflicts"], plan["not_taken"]) == ([], [], [])
    assert annulet.done("definitions", "apply", str(file)).output.startswith("0 created, 0 changed, 0 deleted")
    shop = json.loads(annulet.done("definitions", "export", "-V", "shop", "--format", "rabbitmq").output)
    assert {each["name"] for each in shop["queues"]} == {"app.orders", "app.payments", "lost", "temporary"}
    assert "users" not in shop
    annulet.done("vhost", "delete", "shop", "-y")
    annulet.done("user", "delete", "app", "-y")


@pytest.mark.usefixtures("terminal")
def test_apply_asks_before_it_destroys(annulet: Any, tmp_path: Path) -> None:
    annulet.done("vhost", "create", "small")
    annulet.done("queue", "create", "kept", "-V", "small")
    file = tmp_path / "small.json"
    annulet.done("definitions", "export", str(file))
    document = json.loads(file.read_text())
    document = {"queues": [each for each in document["queues"] if each["vhost"] == "small"]}
    annulet.done("queue", "create", "gone", "-V", "small")
    annulet.done("publish", "gone", "x", "-V", "small")
    document["queues"].append({"name": "made", "vhost": "small"})
    file.write_text(json.dumps(document))
    shown = annulet.done("definitions", "plan", str(file), "--prune").output
    assert shown.splitlines() == [
        "+ queue 'made' in 'small'",
        "- queue 'gone' in 'small', destroys 1 messages",
        "1 to create, 0 to change, 1 to delete; 1 messages would be destroyed",
    ]
    ran = annulet.run("definitions", "apply", str(file), "--prune", given="no\n")
    assert ran.code == EXIT_ABORTED
    assert "destroys 1 messages" in ran.error
    assert {each["name"] for each in annulet.json("queues", "-V", "small")} == {"kept", "gone"}
    annulet.done("definitions", "apply", str(file), "--prune", given=f"{file}\n")
    assert {each["name"] for each in annulet.json("queues", "-V", "small")} == {"kept", "made"}


def test_what_cannot_be_taken_or_conflicts_changes_nothing(annulet: Any, tmp_path: Path) -> None:
    annulet.done("queue", "create", "there", "-a", "x-max-length=5")
    publish(annulet, "there", 1)
    file = tmp_path / "file.json"
    file.write_text(json.dumps({"queues": [{"name": "first"}, {"name": "there", "arguments": {"x-max-length": 6}}]}))
    ran = annulet.run("definitions", "apply", str(file), "-y")
    assert (ran.code, ran.output) == (EXIT_REFUSED_BY_BROKER, "")
    assert "conflict: queue 'there' in '/': it exists with arguments" in ran.error
    file.write_text(json.dumps({"queues": [{"name": "first"}], "exchanges": [{"name": "e", "type": "nix"}]}))
    ran = annulet.run("definitions", "apply", str(file), "-y")
    assert ran.code == EXIT_REFUSED_BY_BROKER
    assert "--skip" in ran.error
    assert annulet.json("queues", "--name", "first") == []
    annulet.done("definitions", "apply", str(file), "-y", "--skip")
    assert len(annulet.json("queues", "--name", "first")) == 1


@pytest.mark.parametrize("text", ["[]", "{", "5"])
def test_a_wrong_file_is_a_usage_error(annulet: Any, tmp_path: Path, text: str) -> None:
    file = tmp_path / "file.json"
    file.write_text(text)
    assert "export of definitions" in annulet.refused(EXIT_USAGE, "definitions", "plan", str(file))
    assert "cannot be read" in annulet.refused(EXIT_USAGE, "definitions", "plan", str(tmp_path / "nix"))


def test_a_broker_xml_is_planned_applied_and_imported_into_the_chosen_host(annulet: Any, tmp_path: Path) -> None:
    annulet.done("vhost", "create", "east")
    file = tmp_path / "broker.xml"
    file.write_text(
        "<core><name>x</name><address-settings><address-setting match='a.#'><max-delivery-attempts>3"
        "</max-delivery-attempts></address-setting></address-settings>"
        "<addresses><address name='a.b'><anycast><queue name='a.b'/></anycast>"
        "</address></addresses></core>"
    )
    shown = annulet.done("definitions", "plan", str(file), "-V", "east")
    assert shown.output.splitlines() == [
        "+ address settings 'a.#' in 'east'",
        "+ exchange 'a.b' in 'east'",
        "+ queue 'a.b' in 'east'",
        "+ binding \"a.b -> a.b, key ''\" in 'east'",
        "4 to create, 0 to change, 0 to delete; 0 messages would be destroyed",
    ]
    assert "not taken: broker.xml 'name': addresses, address-settings and diverts" in shown.error
    ran = annulet.run("definitions", "apply", str(file), "-V", "east")
    assert (ran.code, "--skip" in ran.error) == (EXIT_REFUSED_BY_BROKER, True)
    assert annulet.json("queues", "-V", "east") == []
    annulet.done("definitions", "apply", str(file), "-V", "east", "--skip")
    assert annulet.json("definitions", "plan", str(file), "-V", "east")["steps"] == []
    assert annulet.done("definitions", "import", str(file), "-V", "east").output == f"imported {file}\n"
    assert [each["name"] for each in annulet.json("queues", "-V", "east")] == ["a.b"]
    file.write_text("<!DOCTYPE a><a/>")
    ran = annulet.run("definitions", "plan", str(file))
    assert (ran.code, "the XML is wrong in line 1" in ran.error) == (EXIT_REFUSED_BY_BROKER, True)
    annulet.done("vhost", "delete", "east", "-y")
