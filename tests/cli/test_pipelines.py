from __future__ import annotations

from annulet.cli.pipelines import COMMANDS, pipeline


def test_the_group_has_all_its_commands() -> None:
    assert {command.name for command in COMMANDS} < pipeline.commands.keys()
