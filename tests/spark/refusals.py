"""What users see when something is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def refused(work: Callable[[], Any]) -> str:
    """Return the first line of what users see, whatever Spark wraps it in: it has to say what and what to do."""
    with pytest.raises(Exception) as error:  # noqa: PT011
        work()
    return str(error.value).splitlines()[0]
