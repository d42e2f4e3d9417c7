from __future__ import annotations

import logging

from tests.admin.conftest import Site

PATH = "/api/v1/console/stream"


async def test_those_without_a_login_or_a_tag_get_no_stream(site: Site) -> None:
    path = f"{PATH}?samples=1&topics=overview"
    assert (await site.get(path, user=None)).status_code == 401
    assert (await site.get(path, user="plain:pass")).status_code == 403
    assert (await site.get(path, user="watcher:pass")).status_code == 200
    assert site.broker.stream_figures.streams == 0


async def test_wrong_topics_open_nothing(site: Site) -> None:
    assert (await site.get(PATH)).status_code == 400
    assert (await site.get(f"{PATH}?topics=users")).status_code == 400
    assert (await site.get(f"{PATH}?topics=overview&samples=x")).status_code == 400
    assert site.broker.stream_figures.streams == 0


async def test_head_opens_no_stream(site: Site) -> None:
    async with site.client() as client:
        answer = await client.head(f"{PATH}?topics=overview")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert site.broker.stream_figures.streams == 0


async def test_names_in_topics_are_decoded_twice(site: Site) -> None:
    site.queue("a/b")
    answer = await site.get(f"{PATH}?samples=1&topics=queue%3A%252F%2Fa%252Fb")
    assert '"topic":"queue:%2F/a%2Fb"' in answer.text
    assert '"messages":0' in answer.text


async def test_the_log_is_for_users_that_see_every_virtual_host(site: Site) -> None:
    logging.getLogger("annulet.test").warning("seen by the watcher")
    path = f"{PATH}?samples=1&topics=log"
    assert "seen by the watcher" in (await site.get(path, user="watcher:pass")).text
    status, reason = await site.refused("GET", path, user="manager:pass")
    assert (status, reason.startswith("the log is for users that see all virtual hosts")) == (403, True)
    assert site.broker.stream_figures.streams == 0
