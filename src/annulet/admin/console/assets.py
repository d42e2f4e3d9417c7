"""The files of the web console: read once, compressed once, answered from memory.

A request's path is looked up among the names that were listed at start, and never joined to a folder. Any other path
below ``/`` that is no API gets the page, which shows what the path names.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from annulet.admin.interface.entity_tags import is_known
from annulet.admin.requests.responses import ResourceError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

    from starlette.requests import Request

ASSETS_BYTES_MAX: Final = 4 * 1024 * 1024
"""All files together, as they are: they stay in memory, with their compressed forms."""

COMPRESSED_LEAST: Final = 512
"""Octets from which a file is sent compressed: a smaller one fits into one packet anyway."""

PAGE: Final = "index.html"
PREFIX: Final = "/console/"

CONTENT_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/vnd.microsoft.icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}
"""The kinds of files that there may be, by the end of the name."""

PLAIN_TEXT: Final = CONTENT_TYPES[".txt"]
"""Of files without an end, such as ``LICENSES``."""

IMPORT_MAP: Final = re.compile(r"<script\s+type=\"importmap\"\s*>(.*?)</script>", re.DOTALL)
"""The one inline script of a page, which has to be inline; the policy names its hash."""

OTHER_ROOTS: Final = frozenset({"api", "console", "health", "metrics", "ws", "stomp"})
"""First segments of paths that are never a page's: an unknown one of those is not found."""


@dataclass(frozen=True, slots=True)
class Asset:
    """One file: its octets, the compressed ones if they are fewer, and an entity tag for each form."""

    content_type: str
    plain: bytes
    compressed: bytes
    tag: str

    def answer(self, request: Request, headers: dict[str, str]) -> Response:
        """Return the file in a form that the client takes, or 304 when it has it."""
        compressed = bool(self.compressed) and _takes_gzip(request)
        tag = f'"{self.tag}-gzip"' if compressed else f'"{self.tag}"'
        sent = {**headers, "ETag": tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if is_known(request, tag):
            return Response(status_code=304, headers=sent)
        if compressed:
            sent["Content-Encoding"] = "gzip"
        return Response(self.compressed if compressed else self.plain, headers=sent, media_type=self.content_type)


class Console:
    """The files of one folder by their names below ``/console/``, and the page."""

    def __init__(self, folder: Traversable) -> None:
        self.assets = dict(_read(folder))
        if PAGE not in self.assets:
            raise ValueError(f"the files of the console have no {PAGE}; install the package anew")
        total = sum(len(asset.plain) for asset in self.assets.values())
        if total > ASSETS_BYTES_MAX:
            raise ValueError(f"the files of the console have {total} bytes, {ASSETS_BYTES_MAX} are allowed")
        self.headers = {
            "Content-Security-Policy": _policy(self.assets[PAGE].plain.decode()),
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
            "X-Frame-Options": "DENY",
        }

    async def answer(self, request: Request) -> Response:
        """Answer a file, or the page for any path that is the page's to show."""
        path: str = request.scope["path"]
        if path.startswith(PREFIX):
            asset = self.assets.get(path.removeprefix(PREFIX))
            if asset is None:
                raise ResourceError(404, f"the console has no file at this path; its files are below {PREFIX}")
            return asset.answer(request, self.headers)
        if path.lstrip("/").split("/", 1)[0] in OTHER_ROOTS or not _takes_page(request):
            raise ResourceError(404, "no resource at this path; the API is below /api/v1, the console at /")
        return self.assets[PAGE].answer(request, self.headers)


def _read(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, Asset]]:
    """Yield the files of a folder and of those in it, with their names."""
    for entry in folder.iterdir():
        name = f"{prefix}{entry.name}"
        if entry.is_dir():
            yield from _read(entry, f"{name}/")
        elif not entry.name.startswith("."):
            yield name, _asset(entry)


def _asset(entry: Traversable) -> Asset:
    stem, dot, end = entry.name.rpartition(".")
    kind = f"{dot}{end}" if stem else ""
    if kind and kind not in CONTENT_TYPES:
        raise ValueError(f"file {entry.name!r} of the console: its kind is unknown; add it to CONTENT_TYPES")
    plain = entry.read_bytes()
    compressed = gzip.compress(plain, 9, mtime=0) if len(plain) >= COMPRESSED_LEAST else b""
    if len(compressed) >= len(plain):
        compressed = b""
    digest = hashlib.sha256(plain).hexdigest()[:32]
    return Asset(CONTENT_TYPES.get(kind, PLAIN_TEXT), plain, compressed, digest)


def _policy(page: str) -> str:
    """Return the content security policy: files of the broker only, and the import maps of the page by their hash."""
    digests = [hashlib.sha256(text.encode()).digest() for text in IMPORT_MAP.findall(page)]
    hashes = "".join(f" 'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src 'self'{hashes}; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )


def _takes_gzip(request: Request) -> bool:
    for part in request.headers.get("accept-encoding", "").split(","):
        coding, _, quality = part.partition(";")
        if coding.strip().lower() == "gzip":
            return quality.replace(" ", "") not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
    return False


def _takes_page(request: Request) -> bool:
    """Return whether the client takes HTML: a program that asks for JSON at a wrong path is told so."""
    accepted = request.headers.get("accept", "*/*")
    return "text/html" in accepted or "*/*" in accepted


@cache
def shipped_console() -> Console:
    """Return the console of this package, read for the first application of the process."""
    return Console(resources.files(__package__).joinpath("assets"))
