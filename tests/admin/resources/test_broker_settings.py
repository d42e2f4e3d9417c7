"""Settings over HTTP: for administrators, audited."""

from __future__ import annotations

from tests.admin.conftest import Site

PATH = "/api/v1/settings"


async def test_settings_are_shown_changed_and_taken_back(site: Site) -> None:
    (shown,) = [item for item in (await site.get(PATH)).json()["items"] if item["name"] == "undo_bytes"]
    assert (shown["default"], shown["unit"], shown["changeable"]) == (64 * 1024 * 1024, "bytes", True)
    status, changed = await site.send("PUT", f"{PATH}/undo_bytes", {"value": 1000})
    assert (status, changed["value"], site.broker.undo.bytes_max) == (200, 1000, 1000)
    status, changed = await site.send("DELETE", f"{PATH}/undo_bytes")
    assert (status, changed["value"]) == (200, shown["value"])
    operations = [entry["operation"] for entry in (await site.get("/api/v1/audit")).json()["items"]]
    assert operations == ["take-back-setting", "change-setting"]


async def test_administrators_only(site: Site) -> None:
    for method, path in (("GET", PATH), ("GET", f"{PATH}/undo_bytes"), ("PUT", f"{PATH}/undo_bytes")):
        assert (await site.refused(method, path, {"value": 1}, user="watcher:pass"))[0] == 403


async def test_refusals(site: Site) -> None:
    status, reason = await site.refused("PUT", f"{PATH}/heartbeat", {"value": 1})
    assert (status, "takes a restart" in reason) == (400, True)
    assert (await site.refused("GET", f"{PATH}/nix"))[0] == 404
