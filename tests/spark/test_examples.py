"""The examples of the documentation that need Spark: Python blocks marked ``<!-- test: spark -->`` run on the session.

``<!-- test: spark with NAME NAME -->`` gives them a broker with these queues. ``spark`` is defined, as in PySpark's
shell, and the default addresses are replaced by the broker's. A block that is followed by a ``text`` block must print
exactly that.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from annulet.cli import archive, pipeline, what_if

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.conftest import BrokerThread

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
EXAMPLE = re.compile(
    r"<!-- test: spark(?: with (?P<queues>[\w -]+?))? -->\s*"
    r"```python\n(?P<code>.*?)```(?:\s*```text\n(?P<output>.*?)```)?",
    re.DOTALL,
)
CELL = re.compile(
    r"<!-- test: spark cell -->\s*```python\n(?P<code>.*?)```(?:\s*```text\n(?P<output>.*?)```)?", re.DOTALL
)


def examples() -> Iterator[Any]:
    for page in sorted(DOCS.glob("*.md")):
        text = page.read_text()
        for match in EXAMPLE.finditer(text):
            line = text.count("\n", 0, match.start("code")) + 1
            yield pytest.param(
                match["code"], match["output"], (match["queues"] or "").split(), id=f"{page.name}:{line}"
            )


def at_broker(code: str, broker: BrokerThread) -> str:
    """Return an example with the test's broker in the place of one at the default addresses."""
    amqp = broker.running.amqp_url.rpartition("@")[2].rstrip("/")
    return code.replace("127.0.0.1:5672", amqp).replace("annulet://guest:guest@127.0.0.1:8815/", broker.url)


@pytest.mark.spark
@pytest.mark.parametrize(("code", "output", "queues"), list(examples()))
def test_example(
    spark: SparkSession,
    broker: BrokerThread,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    code: str,
    output: str | None,
    queues: list[str],
) -> None:
    @contextlib.contextmanager
    def session(*_arguments: Any, **_options: Any) -> Iterator[SparkSession]:
        yield spark  # a command's own would end the one of the tests

    for module in (archive, pipeline, what_if):
        monkeypatch.setattr(module, "session", session)
    broker.declare(*queues)
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    given = {
        "spark": spark,
        "print": partial(print, file=printed),  # the broker's thread logs to standard output
    }
    exec(compile(at_broker(code, broker), "example", "exec"), given)
    if output is not None:
        assert printed.getvalue() == output


@pytest.mark.spark
@pytest.mark.parametrize("page", sorted(page.name for page in DOCS.glob("notebook-*.md")))
def test_notebook(spark: SparkSession, broker: BrokerThread, page: str) -> None:
    """Cells marked ``<!-- test: spark cell -->`` run in order and share their names."""
    printed = io.StringIO()
    given = {
        "spark": spark,
        "print": partial(print, file=printed),  # as above
    }
    cells = list(CELL.finditer((DOCS / page).read_text()))
    assert len(cells) > 1
    for number, cell in enumerate(cells, 1):
        exec(compile(at_broker(cell["code"], broker), f"{page} cell {number}", "exec"), given)
        assert cell["output"] is None or printed.getvalue() == cell["output"], f"{page} cell {number}"
        printed.seek(0)
        printed.truncate()


def test_there_are_such_examples() -> None:
    assert len(list(examples())) >= 3
