"""Texts that are URIs where a path of this machine is meant: ``s3a://bucket/out`` would be a folder named ``s3a:``."""

from __future__ import annotations

import re
from typing import Final

URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
"""A scheme (RFC 3986 §3.1) of two letters or more, so no drive, and a path. One slash: ``Path`` makes two into one."""


def why_no_path(text: str) -> str:
    """Return the defect of a text as a path, with the remedy; empty when it is one."""
    found = URI.match(text)
    if found is None:
        return ""
    remedy = "give the path without the scheme" if found[1].lower() == "file" else "give a local or mounted folder"
    return f"{text!r} is a URI ({found[1]}), and only local paths can be used here; {remedy}"
