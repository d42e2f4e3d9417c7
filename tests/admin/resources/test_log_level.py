from __future__ import annotations

import logging

from tests.admin.conftest import Site


async def test_administrators_change_the_level_and_the_audit_trail_has_it(site: Site) -> None:
    assert (await site.send("GET", "/api/v1/log", user="watcher:pass"))[1] == {
        "level": "info",
        "configured": "info",
        "until": 0,
    }
    status, answer = await site.send("PUT", "/api/v1/log", {"level": "debug", "seconds": 60})
    assert (status, answer["level"], answer["until"]) == (200, "debug", site.clock() + 60_000)
    (entry,) = site.broker.audit.query(operation="log-level")
    assert (entry.user, entry.target) == ("guest", "debug")
    site.broker.log_levels.stop()


async def test_others_may_not_and_wrong_values_are_refused(site: Site) -> None:
    for user in ("manager:pass", "watcher:pass", "shop:pass"):
        assert (await site.refused("PUT", "/api/v1/log", {"level": "debug"}, user=user))[0] == 403
    assert (await site.refused("PUT", "/api/v1/log", {}))[1].startswith("field 'level' is missing")
    assert "unknown value 'loud'" in (await site.refused("PUT", "/api/v1/log", {"level": "loud"}))[1]
    assert "from 0 to 86400" in (await site.refused("PUT", "/api/v1/log", {"level": "debug", "seconds": 86_401}))[1]
    assert site.broker.log_levels.current == "info"


LINES = "/api/v1/log/lines"


async def test_the_newest_lines_are_read_and_filtered(site: Site) -> None:
    log = logging.getLogger("annulet.test")
    newest = site.broker.log_lines.newest
    for number in range(3):
        log.warning("warning %d", number)
    log.error("Something FAILED")

    async def events(query: str) -> list[str]:
        found = (await site.get(f"{LINES}?after={newest}&{query}", user="watcher:pass")).json()
        assert found["newest"] == newest + 4
        return [item["event"] for item in found["items"]]

    assert await events("limit=2") == ["warning 2", "Something FAILED"]
    assert await events("level=error") == ["Something FAILED"]
    assert await events("text=failed") == ["Something FAILED"]
    assert await events("since=99999999999999") == []


async def test_lines_are_for_users_that_see_every_virtual_host(site: Site) -> None:
    for user in ("manager:pass", "shop:pass", "plain:pass"):
        assert (await site.refused("GET", LINES, user=user))[0] == 403
    assert await site.status("GET", f"{LINES}?level=loud") == 400
    assert await site.status("GET", f"{LINES}?limit=1001") == 400
