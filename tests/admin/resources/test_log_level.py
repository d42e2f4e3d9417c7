from __future__ import annotations

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
