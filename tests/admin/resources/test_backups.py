from __future__ import annotations

from pathlib import Path

import annulet.testing
from annulet.broker.settings.configuration import UserDeclaration
from tests.admin.conftest import IMPATIENT, REMOTE, USERS, Site


async def test_a_backup_over_http(tmp_path: Path) -> None:
    clock = annulet.testing.VirtualClock()
    settings = {"users": USERS, "limits": IMPATIENT, "clock": clock}
    async with annulet.testing.broker(data_dir=tmp_path / "data", http=False, **settings) as running:
        site = Site(running.broker, clock)
        status, answer = await site.send("POST", "/api/v1/backups", {"directory": str(tmp_path / "backup")})
        assert status == 202, answer
        assert answer["state"] in ("staging", "copying")
        await running.broker.backups.wait()
        found = (await site.get(f"/api/v1/backups/{answer['number']}")).json()
        assert found["state"] == "finished", found
        assert found["copied_bytes"] == found["bytes"] > 0
        listed = (await site.get("/api/v1/backups")).json()
        assert listed["items"] == [found]
        status, reason = await site.refused("POST", "/api/v1/backups", {"directory": str(tmp_path / "backup")})
        assert (status, "not empty" in reason) == (409, True)
        trail = (await site.get("/api/v1/audit?operation=backup")).json()["items"]
        assert [(entry["user"], entry["target"]) for entry in trail] == [("guest", str(tmp_path / "backup"))]
        metrics = (await site.get("/metrics")).text
        assert "annulet_backups_finished_total 1.0" in metrics


async def test_who_may_not(site: Site, tmp_path: Path) -> None:
    body = {"directory": str(tmp_path / "backup")}
    for user in ("manager:pass", "watcher:pass"):
        status, reason = await site.refused("POST", "/api/v1/backups", body, user=user)
        assert (status, "administrator" in reason) == (403, True)
        assert (await site.get("/api/v1/backups", user=user)).status_code == 403
    status, reason = await site.refused("POST", "/api/v1/backups", body)
    assert (status, "--data" in reason) == (409, True)
    status, reason = await site.refused("POST", "/api/v1/backups", {})
    assert (status, "absolute path" in reason) == (400, True)
    assert (await site.get("/api/v1/backups/7")).status_code == 404


async def test_another_machine_may_not_have_files_written_here(tmp_path: Path) -> None:
    clock = annulet.testing.VirtualClock()
    far = {
        **USERS,
        "far": UserDeclaration(USERS["guest"].password_hash, ("administrator",), USERS["guest"].permissions),
    }
    settings = {"users": far, "limits": IMPATIENT, "clock": clock}
    async with annulet.testing.broker(data_dir=tmp_path / "data", http=False, **settings) as running:
        site = Site(running.broker, clock)
        async with site.client(peer=REMOTE, user="far:guest") as client:
            response = await client.post("/api/v1/backups", json={"directory": str(tmp_path / "backup")})
        assert response.status_code == 403
        assert "own machine" in response.json()["reason"]
        assert not (tmp_path / "backup").exists()
