"""The files of the console, and what no path reaches."""

from __future__ import annotations

import base64
import gzip
import hashlib
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request

from annulet.admin.console import assets
from annulet.admin.console.assets import CONTENT_TYPES, IMPORT_MAP, Console, shipped_console
from annulet.admin.requests.responses import ResourceError
from tests.admin.conftest import Site

HTML = "text/html,application/xhtml+xml,*/*;q=0.8"


def folder(path: Path) -> Path:
    (path / "vendor").mkdir()
    (path / "index.html").write_text('<script type="importmap">{"imports": {}}</script>\n' + "<p>page</p>" * 100)
    (path / "app.js").write_text("export const text = 'x';\n" * 100)
    (path / "vendor" / "LICENSES").write_text("MIT")
    (path / ".hidden").write_text("secret")
    return path


def request(path: str, **headers: str) -> Request:
    given = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": "GET", "path": path, "headers": given})


@pytest.fixture
def console(tmp_path: Path) -> Console:
    return Console(folder(tmp_path))


async def get(console: Console, path: str, **headers: str) -> Any:
    return await console.answer(request(path, **headers))


async def test_files_have_their_types_and_are_compressed_once(console: Console) -> None:
    plain = await get(console, "/console/app.js")
    assert (plain.status_code, plain.headers["content-type"]) == (200, "text/javascript; charset=utf-8")
    assert "content-encoding" not in plain.headers
    packed = await get(console, "/console/app.js", accept_encoding="br, gzip;q=0.5")
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert packed.body is (await get(console, "/console/app.js", accept_encoding="gzip")).body
    assert (plain.headers["vary"], plain.headers["cache-control"]) == ("Accept-Encoding", "no-cache")
    refused = await get(console, "/console/app.js", accept_encoding="gzip;q=0")
    assert refused.body == plain.body
    small = await get(console, "/console/vendor/LICENSES", accept_encoding="gzip")
    assert (small.body, small.headers["content-type"]) == (b"MIT", "text/plain; charset=utf-8")


async def test_a_browser_that_has_a_file_gets_it_no_second_time(console: Console) -> None:
    for coding in ("gzip", "identity"):
        tag = (await get(console, "/console/app.js", accept_encoding=coding)).headers["etag"]
        again = await get(console, "/console/app.js", accept_encoding=coding, if_none_match=tag)
        assert (again.status_code, again.body, again.headers["etag"]) == (304, b"", tag)
        other = await get(console, "/console/app.js", accept_encoding=coding, if_none_match='"other"')
        assert other.status_code == 200


async def test_the_policy_allows_files_of_the_broker_and_the_import_map(console: Console) -> None:
    answer = await get(console, "/")
    digest = base64.b64encode(hashlib.sha256(b'{"imports": {}}').digest()).decode()
    assert answer.headers["content-security-policy"] == (
        f"default-src 'none'; script-src 'self' 'sha256-{digest}'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    script = await get(console, "/console/app.js")
    assert script.headers["content-security-policy"] == answer.headers["content-security-policy"]


@pytest.mark.parametrize(
    "path",
    [
        "/console/../../assets.py",
        "/console/vendor/../app.js",
        "/console/./app.js",
        "/console//app.js",
        "/console//etc/passwd",
        "/console/\\..\\assets.py",
        "/console/app.js\x00",
        "/console/.hidden",
        "/console/vendor",
        "/console/vendor/",
        "/console/",
    ],
)
async def test_no_path_leaves_the_listing(console: Console, path: str) -> None:
    with pytest.raises(ResourceError) as raised:
        await get(console, path)
    assert raised.value.status == 404


@pytest.mark.parametrize("path", ["/", "/queues", "/queues/%2F/a.b", "/queues/../../etc/passwd", "/apis", "//x"])
async def test_deep_links_show_the_page(console: Console, path: str) -> None:
    answer = await get(console, path, accept=HTML)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert b"page" in answer.body


@pytest.mark.parametrize("path", ["/api", "/health", "/health/dead", "/metrics/", "/console", "/ws/x", "/stomp/x"])
async def test_paths_of_other_parts_are_not_the_pages(console: Console, path: str) -> None:
    with pytest.raises(ResourceError):
        await get(console, path, accept=HTML)


async def test_a_program_that_wants_no_page_gets_none(console: Console) -> None:
    with pytest.raises(ResourceError):
        await get(console, "/queues", accept="application/json")


@pytest.mark.parametrize(("name", "words"), [("run.exe", "its kind is unknown"), ("index.html", "4 are allowed")])
def test_a_folder_that_cannot_be_served_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: str
) -> None:
    (tmp_path / "index.html").write_text("12345")
    (tmp_path / name).write_text("12345")
    monkeypatch.setattr(assets, "ASSETS_BYTES_MAX", 4)
    with pytest.raises(ValueError, match=words):
        Console(tmp_path)


def test_a_folder_without_a_page_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"have no index\.html"):
        Console(tmp_path)


def test_the_shipped_files_can_be_served() -> None:
    console = shipped_console()
    page = console.assets["index.html"].plain.decode()
    assert len(IMPORT_MAP.findall(page)) == page.count("importmap"), "an import map that the policy does not allow"
    assert page.count("<script") == page.count('<script type="module" src=') + page.count('type="importmap"')
    kinds = {asset.content_type for asset in console.assets.values()}
    assert kinds <= set(CONTENT_TYPES.values())


async def test_the_application_serves_them_to_anybody(site: Site) -> None:
    page = await site.get("/", user=None)
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert (await site.get("/queues/%2F/orders?tab=messages", user=None)).text == page.text
    assert (await site.get("/console/index.html", user=None)).text == page.text
    for path in ("/console/%2e%2e/assets.py", "/console/..%2fassets.py", "/console/nothing.js", "/metrics/", "/api"):
        answer = await site.get(path, user=None)
        assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json"), path
    async with site.client(user=None) as client:
        assert (await client.head("/")).status_code == 200
        assert (await client.post("/queues")).status_code == 405
        assert (await client.get("/health/live")).status_code == 200
