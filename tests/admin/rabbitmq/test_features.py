from __future__ import annotations

from tests.admin.conftest import Site


async def test_lists_are_empty_and_users_log_in_by_name_and_password(site: Site) -> None:
    for path in ("extensions", "feature-flags", "deprecated-features", "deprecated-features/used"):
        assert await site.send("GET", f"/api/{path}") == (200, [])
    assert await site.send("GET", "/api/auth") == (
        200, {"enable_uaa": False, "uaa_client_id": "", "uaa_location": "", "oauth_enabled": False},
    )  # fmt: skip
