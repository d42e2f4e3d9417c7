"""URIs and paths are told apart."""

from __future__ import annotations

import pytest

from annulet.core.base.uri_texts import why_no_path

PATHS = ["out", "./s3a:/out", "/srv/s3a:/out", "C:/out", "C:\\out", "a:b", "2026-01-01T10:00/x", "", "~/out", "x y:/z"]


@pytest.mark.parametrize("text", PATHS)
def test_paths_are_paths(text: str) -> None:
    assert why_no_path(text) == ""
