"""A path of this machine as an argument of a command. A URI is refused: it would become a folder's name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from annulet.core.base.uri_texts import why_no_path


class LocalPath(click.Path):
    """``click.Path`` that refuses URIs and gives a :class:`pathlib.Path`."""

    def __init__(self, *, file_okay: bool = True, dir_okay: bool = True) -> None:
        super().__init__(file_okay=file_okay, dir_okay=dir_okay, path_type=Path)

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        """Return the path. Raises ``click.BadParameter``."""
        if isinstance(value, str):
            wrong = why_no_path(value)
            if wrong:
                self.fail(wrong, parameter, context)
        return super().convert(value, parameter, context)
