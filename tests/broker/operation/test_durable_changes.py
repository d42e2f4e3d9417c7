from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from annulet.broker.connections.access import Access
from annulet.broker.operation.durable_changes import durably
from annulet.broker.security.authentication import User
from annulet.core.base.errors import InvalidArgument
from annulet.store.database.definition_groups import DefinitionGroup
from annulet.store.files.data_format import CATALOGUE_FILE
from annulet.store.files.errors import CatalogueError
from annulet.testing import RunningBroker, broker


def declare(running: RunningBroker, name: str) -> None:
    host = running.broker.hosts["/"]
    administrator = User("guest", frozenset({"administrator"}))
    access = Access(running.broker.authenticator, running.broker.catalogue, host, "guest", administrator=administrator)
    access.declare_queue(name, now=running.broker.clock(), durable=True, auto_delete=False, arguments={})


async def test_a_change_is_on_disk_when_it_returns_and_the_loop_went_on(tmp_path: Path) -> None:
    async with broker(data_dir=tmp_path, http=False) as running:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        await durably(running.broker.definitions, lambda: declare(running, "q"))
        counting.cancel()
        assert turns > 0
        with closing(sqlite3.connect(f"file:{tmp_path / CATALOGUE_FILE}?mode=ro", uri=True)) as database:
            assert database.execute("SELECT name FROM queues").fetchall() == [("q",)]


async def test_a_refusal_is_raised_and_nothing_waits() -> None:
    async with broker(http=False) as running:

        def refuse() -> None:
            raise InvalidArgument("no")

        with pytest.raises(InvalidArgument, match="no"):
            await durably(running.broker.definitions, refuse)
        assert await durably(running.broker.definitions, lambda: 5) == 5


async def test_a_disk_that_refuses_undoes_the_change(tmp_path: Path) -> None:
    async with broker(data_dir=tmp_path, http=False) as running:
        groups = running.broker.catalogue.groups

        def refuse(group: DefinitionGroup) -> None:
            group.error = CatalogueError("disk is full")

        run, groups._run = groups._run, refuse
        with pytest.raises(CatalogueError, match="is undone"):
            await durably(running.broker.definitions, lambda: declare(running, "q"))
        assert "q" not in running.broker.hosts["/"].queues
        groups._run = run
