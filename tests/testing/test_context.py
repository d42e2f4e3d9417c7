from __future__ import annotations

from pathlib import Path

import pytest

import annulet.testing
from annulet.testing import RunningBroker, ThreadedBroker


async def test_the_two_forms_give_brokers_for_their_kind_of_test() -> None:
    async with annulet.testing.broker(http=False) as running:
        assert isinstance(running, RunningBroker)
    with annulet.testing.broker() as threaded:
        assert isinstance(threaded, ThreadedBroker)


@pytest.mark.parametrize("options", [{"durable": True, "data_dir": "x"}, {"durable": True, "data_dir": Path("x")}])
def test_two_directories_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="give one of them"), annulet.testing.broker(**options):
        pass


def test_an_unknown_option_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(TypeError, match="no option 'htp'; did you mean 'http'"), annulet.testing.broker(htp=True):
        pass


async def test_a_start_that_fails_leaves_nothing(tmp_path: Path) -> None:
    async with annulet.testing.broker(data_dir=tmp_path, http=False) as first:
        assert first.broker.journal is None
        with pytest.raises(Exception, match=r"another|already|use"):
            async with annulet.testing.broker(data_dir=tmp_path, http=False):
                pass
    with annulet.testing.broker(data_dir=tmp_path, journal=True) as again:
        assert again.history() == ""


async def test_a_listener_can_be_opened_later() -> None:
    async with annulet.testing.broker(http=False) as running:
        with pytest.raises(LookupError, match="stomp=True"):
            _ = running.stomp_url
        await running.open("stomp")
        await running.open("stomp")
        assert list(running.urls) == ["amqp", "stomp"]
        with pytest.raises(LookupError, match="none of stomp, http and bulk"):
            await running.open("mqtt")


async def test_bulk_without_pyarrow_names_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "annulet.bulk.server", None)
    async with annulet.testing.broker(http=False) as running:
        with pytest.raises(Exception, match=r"pip install 'annulet\[spark\]'"):
            await running.open("bulk")
