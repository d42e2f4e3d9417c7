"""Settings of the broker: their origins, and changes that last until the file gives them."""

from __future__ import annotations

from pathlib import Path

import pytest

from annulet.broker.operation.broker_settings import CHANGEABLE, BrokerSettings
from annulet.broker.settings.configuration import load
from annulet.core.base.errors import InvalidArgument, NotFound
from tests.admin.conftest import Site, site

__all__ = ["site"]


async def test_a_change_counts_now_and_at_the_next_start(site: Site) -> None:
    broker = site.broker
    assert broker.broker_settings.one("undo_seconds")["origin"] == "default"
    changed = broker.broker_settings.change("undo_seconds", 5)
    assert (changed["value"], changed["origin"], broker.undo.seconds) == (5, "run time", 5)
    broker.undo.seconds = 1
    again = BrokerSettings(broker.configuration, broker.catalogue, broker.undo)
    assert (again.one("undo_seconds")["value"], broker.undo.seconds) == (5, 5)
    back = again.take_back("undo_seconds")
    assert (back["value"], back["origin"]) == (broker.configuration.undo_seconds, "default")


@pytest.mark.parametrize("name", sorted(CHANGEABLE))
async def test_the_range_of_each_is_checked(site: Site, name: str) -> None:
    settings, changeable = site.broker.broker_settings, CHANGEABLE[name]
    for value in (changeable.least, changeable.most):
        assert settings.change(name, value)["value"] == value
    for value in (changeable.least - 1, changeable.most + 1):
        with pytest.raises(InvalidArgument, match=f"{name}={value}: give an integer from"):
            settings.change(name, value)


async def test_what_takes_a_restart_and_what_there_is_not(site: Site) -> None:
    with pytest.raises(InvalidArgument, match="setting 'heartbeat' takes a restart"):
        site.broker.broker_settings.change("heartbeat", 5)
    with pytest.raises(NotFound, match="no setting 'heartbeet'; did you mean 'heartbeat'"):
        site.broker.broker_settings.change("heartbeet", 5)


def test_origins_are_the_file_and_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "annulet.toml"
    file.write_text("heartbeat = 5\nundo_bytes = '1MiB'\n[log]\nlevel = 'debug'\n")
    origins = load(file, {"heartbeat": 7}).origins
    assert origins == {"heartbeat": "command line", "undo_bytes": f"file {file}", "log.level": f"file {file}"}
