"""The pipeline file: its structure, defaults, and refusals. Independent of Spark."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import msgspec

from annulet.core.base.uri_texts import why_no_path
from annulet.spark.options import BYTES_PER_TRIGGER, MESSAGES_PER_TRIGGER, PARTITIONS
from annulet.spark.pipeline.errors import PipelineFileError
from annulet.spark.pipeline.toml_lines import line_of, lines_of
from annulet.spark.pipeline.triggers import AVAILABLE_NOW, is_trigger

T = TypeVar("T", bound="Section")

IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""Names of sources and transforms are names of SQL views."""
VARIABLE: Final = re.compile(r"\$\{(\w+)\}")
SECRET: Final = re.compile(r"//([^:@/]+):[^@/]*@")

ROWS_SHOWN: Final = 20
"""Rows of a batch that a console sink prints; Spark's own default."""


class Section(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A table of the file."""


class PipelineSection(Section):
    """``[pipeline]``. Paths are relative to the file's folder."""

    name: str = ""  # "": the file's name without its suffix
    checkpoints: str = ""  # folder; "": checkpoints/NAME beside the file
    trigger: str = AVAILABLE_NOW  # or the shortest distance between two batches, such as "5 seconds"
    cores: int = 2  # of a local session
    spark: dict[str, str] = {}  # further settings of Spark, by Spark's names


class QueueSource(Section):
    """``type = "queue"``: a stream through a lease, or with ``snapshot`` the messages in the queue when the run begins.

    With ``non_destructive`` the stream removes nothing and needs no lease.
    """

    url: str
    queue: str
    snapshot: bool = False
    non_destructive: bool = False
    selector: str = ""
    lease: str = ""  # "": PIPELINE.SOURCE
    messages_per_trigger: int = MESSAGES_PER_TRIGGER
    bytes_per_trigger: int = BYTES_PER_TRIGGER
    partitions: int = PARTITIONS
    fail_on_data_loss: bool = True
    on_existing_lease: Literal["fail", "resume", "release"] = "fail"
    retry_seconds: int = 60
    json_schema: str = ""  # columns in Spark's DDL; the body's JSON becomes the column ``json``


class ParquetSource(Section):
    """``type = "parquet"``: files as they arrive, or with ``snapshot`` those present when the run begins."""

    path: str
    snapshot: bool = False
    files_per_trigger: int = 1000


class RateSource(Section):
    """``type = "rate"``: numbered rows (``timestamp``, ``value``) out of nothing, to try a pipeline with."""

    rows_per_batch: int = 10


Source = QueueSource | ParquetSource | RateSource


class Transform(Section):
    """``[transforms.NAME]``: one SQL statement over the views before it, or a Python function ``module:function``."""

    sql: str = ""
    python: str = ""
    inputs: list[str] = []  # of a Python function: the data frames it gets, in this order
    options: dict[str, str | int | float | bool] = {}  # of a Python function: its keyword arguments


class QueueSink(Section):
    """``type = "queue"``: each batch published once and at once."""

    input: str
    url: str
    sql: str = ""  # over the view ``batch``, for each batch
    mode: Literal["append", "update", "complete"] = "append"
    address: str | None = None
    exchange: str | None = None
    routing_key: str | None = None
    persistent: bool = True
    mandatory: bool = True
    retry_seconds: int = 60


class ParquetSink(Section):
    """``type = "parquet"``: each batch once, as finished files."""

    input: str
    path: str
    sql: str = ""
    mode: Literal["append"] = "append"
    partition_by: list[str] = []
    files_per_batch: int = 1


class ConsoleSink(Section):
    """``type = "console"``: the first rows of each batch, on standard output."""

    input: str
    sql: str = ""
    mode: Literal["append", "update", "complete"] = "append"
    rows: int = ROWS_SHOWN


Sink = QueueSink | ParquetSink | ConsoleSink

SOURCES: Final[dict[str, type[Section]]] = {"queue": QueueSource, "parquet": ParquetSource, "rate": RateSource}
SINKS: Final[dict[str, type[Section]]] = {"queue": QueueSink, "parquet": ParquetSink, "console": ConsoleSink}
RANGES: Final[dict[str, tuple[int, int]]] = {
    "cores": (1, 1024),
    "messages_per_trigger": (1, 1_000_000),
    "bytes_per_trigger": (1, 1 << 40),
    "partitions": (1, 10_000),
    "retry_seconds": (0, 86_400),
    "files_per_trigger": (1, 1_000_000),
    "rows_per_batch": (1, 1_000_000),
    "files_per_batch": (1, 1000),
    "rows": (1, 10_000),
}
"""Minimum and maximum of every number, by its key: the range that Spark and the broker support."""


PATHS: Final = ("path", "checkpoints")
"""Keys whose values are paths of this machine: files are moved to their places there, in one step."""


class Pipeline(msgspec.Struct, frozen=True):
    """A checked file. ``places`` has the line of every key."""

    file: Path
    name: str
    checkpoints: Path
    trigger: str
    cores: int
    spark: dict[str, str]
    sources: dict[str, Source]
    transforms: dict[str, Transform]
    sinks: dict[str, Sink]
    places: dict[tuple[str, ...], int]

    def error(self, path: tuple[str, ...], text: str) -> PipelineFileError:
        """Return an error that names file, line and key."""
        return PipelineFileError(f"{self.file}:{line_of(self.places, path)}: {'.'.join(path)}: {text}")

    def resolve(self, path: str) -> Path:
        """Return a path of the file, relative to the file's folder."""
        return (self.file.parent / Path(path).expanduser()).absolute()

    def feeders(self, name: str) -> dict[str, Source]:
        """Return the sources that a source or transform reads, directly or through other transforms."""
        if name in self.sources:
            return {name: self.sources[name]}
        return {
            source: self.sources[source]
            for used in self.used_by(name)
            for source in self.feeders(used)
        }  # fmt: skip

    def used_by(self, name: str) -> list[str]:
        """Return the views that a transform names, of the sources and of the transforms above it."""
        transform = self.transforms[name]
        if transform.python:
            return transform.inputs
        known = [*self.sources, *list(self.transforms)[: list(self.transforms).index(name)]]
        words = words_of_sql(transform.sql)
        return [view for view in known if view.lower() in words]


def words_of_sql(sql: str) -> set[str]:
    """Return the words of a statement in lower case, without those of its comments and strings."""
    bare = re.sub(r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", " ", sql, flags=re.DOTALL)
    return set(re.findall(r"\w+", bare.lower()))


def streams(source: Source) -> bool:
    """Return whether a source is a stream."""
    return not getattr(source, "snapshot", False)


def without_password(url: str) -> str:
    """Return a URL as it may be shown."""
    return SECRET.sub(r"//\1:***@", url)


def load(file: Path, environment: Mapping[str, str] | None = None) -> Pipeline:
    """Read and check a pipeline file. ``${NAME}`` in a text is the variable of the environment.

    Raises :class:`PipelineFileError`.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineFileError(f"{file}: cannot be read: {error}; give a TOML file in UTF-8") from error
    try:
        places = lines_of(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"at line (\d+)", str(error))
        line = found[1] if found else str(text.count("\n") + 1)
        raise PipelineFileError(f"{file}:{line}: not TOML: {error}") from error
    return _Reader(file, tomllib.loads(text), places, os.environ if environment is None else environment).read()


class _Reader:
    def __init__(
        self, file: Path, document: dict[str, Any], places: dict[tuple[str, ...], int], environment: Mapping[str, str]
    ) -> None:
        self._file = file
        self._document = document
        self._places = places
        self._environment = environment

    def read(self) -> Pipeline:
        known = ("pipeline", "sources", "transforms", "sinks")
        for name in self._document:
            if name not in known:
                raise self._error((name,), f"unknown table{_nearest(name, known)}")
        head = self._convert(("pipeline",), self._document.get("pipeline", {}), PipelineSection)
        name = head.name or self._file.stem
        pipeline = Pipeline(
            file=self._file,
            name=name,
            checkpoints=(self._file.parent / (head.checkpoints or f"checkpoints/{name}")).absolute(),
            trigger=head.trigger,
            cores=head.cores,
            spark=head.spark,
            sources=self._typed("sources", SOURCES),
            transforms=self._transforms(),
            sinks=self._typed("sinks", SINKS),
            places=self._places,
        )
        _Checks(pipeline).check()
        return pipeline

    def _typed(self, table: str, kinds: Mapping[str, type[Section]]) -> dict[str, Any]:
        sections = {}
        for name, value in self._tables(table):
            given = dict(value)
            kind = given.pop("type", None)
            if kind not in kinds:
                found = "is missing" if kind is None else f"{kind!r} is unknown"
                raise self._error((table, name, "type"), f"{found}; choose {', '.join(kinds)}")
            sections[name] = self._convert((table, name), given, kinds[kind])
        if not sections:
            raise self._error((table,), f"a pipeline needs at least one; add [{table}.NAME]")
        return sections

    def _transforms(self) -> dict[str, Transform]:
        return {
            name: self._convert(("transforms", name), value, Transform) for name, value in self._tables("transforms")
        }

    def _tables(self, table: str) -> Iterable[tuple[str, dict[str, Any]]]:
        tables = self._document.get(table, {})
        if not isinstance(tables, dict):
            raise self._error((table,), f"is not a table of tables; write [{table}.NAME]")
        for name, value in tables.items():
            if not isinstance(value, dict):
                raise self._error((table, name), f"is not a table; write [{table}.{name}]")
            if not IDENTIFIER.fullmatch(name):
                raise self._error(
                    (table, name), f"{name!r} is no name of an SQL view; use letters, digits and underscores"
                )
            yield name, value

    def _convert(self, path: tuple[str, ...], value: dict[str, Any], kind: type[T]) -> T:
        names = [field.encode_name for field in msgspec.structs.fields(kind)]
        for name in value:
            if name not in names:
                raise self._error((*path, name), f"unknown key{_nearest(name, names)}")
        try:
            section = msgspec.convert(self._with_variables(path, value), kind)
        except msgspec.ValidationError as error:
            text, _, place = str(error).partition(" - at `$.")
            key = tuple(part for part in re.split(r"[.\[]", place.rstrip("`")) if part)
            missing = re.search(r"required field `(\w+)`", text)
            remedy = f"; add {missing[1]} = ..." if missing else ""
            raise self._error((*path, *key), f"{text[:1].lower()}{text[1:]}{remedy}") from error
        for name in names:
            number = getattr(section, name)
            wrong = why_no_path(number) if name in PATHS else ""
            if wrong:
                raise self._error((*path, name), wrong)
            if name in RANGES and not RANGES[name][0] <= number <= RANGES[name][1]:
                least, most = RANGES[name]
                raise self._error((*path, name), f"{number} is out of range; give {least} to {most}")
        return section

    def _with_variables(self, path: tuple[str, ...], value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._with_variables((*path, name), member) for name, member in value.items()}
        if isinstance(value, list):
            return [self._with_variables(path, member) for member in value]
        if not isinstance(value, str):
            return value

        def variable(match: re.Match[str]) -> str:
            if match[1] not in self._environment:
                raise self._error(path, f"the environment has no variable {match[1]}; export it before the run")
            return self._environment[match[1]]

        return VARIABLE.sub(variable, value)

    def _error(self, path: tuple[str, ...], text: str) -> PipelineFileError:
        return PipelineFileError(f"{self._file}:{line_of(self._places, path)}: {'.'.join(path)}: {text}")


class _Checks:
    """The rules between the tables of a file."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    def check(self) -> None:
        pipeline = self._pipeline
        if not is_trigger(pipeline.trigger):
            raise pipeline.error(
                ("pipeline", "trigger"), f'{pipeline.trigger!r} is unknown; give "{AVAILABLE_NOW}" or "5 seconds"'
            )
        self._check_transforms()
        self._check_sinks()
        self._check_queues()

    def _check_transforms(self) -> None:
        pipeline = self._pipeline
        above = list(pipeline.sources)
        for name, transform in pipeline.transforms.items():
            path = ("transforms", name)
            if name in pipeline.sources:
                raise pipeline.error(path, "a source has the same name; rename one")
            if bool(transform.sql) == bool(transform.python):
                raise pipeline.error(path, 'give either sql = "SELECT ..." or python = "module:function"')
            if transform.sql and (transform.inputs or transform.options):
                raise pipeline.error(path, "inputs and options belong to python; SQL names its views itself")
            if transform.python and not re.fullmatch(r"[\w.]+:\w+", transform.python):
                raise pipeline.error((*path, "python"), f'{transform.python!r} is not "module:function"')
            for view in transform.inputs:
                if view not in above:
                    raise pipeline.error((*path, "inputs"), f"no source or transform {view!r}{_nearest(view, above)}")
            if not pipeline.used_by(name):
                raise pipeline.error(path, f"reads nothing from above it; known there: {', '.join(above)}")
            above.append(name)

    def _check_sinks(self) -> None:
        pipeline = self._pipeline
        views = [*pipeline.sources, *pipeline.transforms]
        modes: dict[str, str] = {}
        folders: dict[tuple[str, Path], str] = {}
        for name, sink in pipeline.sinks.items():
            path = ("sinks", name)
            if isinstance(sink, ParquetSink):
                # The folder's log accepts a batch of a query once: with two sinks it would drop the rows of the second.
                folder = pipeline.resolve(sink.path).resolve()
                other = folders.setdefault((sink.input, folder), name)
                if other != name:
                    raise pipeline.error(
                        (*path, "path"), f"sink {other!r} writes {sink.input!r} into this folder too; give each its own"
                    )
            if sink.input not in views:
                raise pipeline.error(
                    (*path, "input"), f"no source or transform {sink.input!r}{_nearest(sink.input, views)}"
                )
            if not any(streams(source) for source in pipeline.feeders(sink.input).values()):
                raise pipeline.error(
                    (*path, "input"), f"nothing streams into {sink.input!r}; set snapshot = false at one of its sources"
                )
            if modes.setdefault(sink.input, sink.mode) != sink.mode:
                raise pipeline.error(
                    (*path, "mode"), f"sinks with the same input share one query, and another has {modes[sink.input]!r}"
                )

    def _check_queues(self) -> None:
        """A queue gives each message to one query: two would share its messages, which is hardly ever intended."""
        pipeline = self._pipeline
        takers: dict[tuple[str, str], tuple[str, str]] = {}
        for name, sink in pipeline.sinks.items():
            for source, section in pipeline.feeders(sink.input).items():
                if not isinstance(section, QueueSource) or section.snapshot or section.non_destructive:
                    continue
                first, taker = takers.setdefault((section.url, section.queue), (source, sink.input))
                if (first, taker) != (source, sink.input):
                    raise pipeline.error(
                        ("sinks", name, "input"),
                        f"queue {section.queue!r} already streams into {taker!r}, and gives each message to one query "
                        f"only; use input = {taker!r} with sql = ... for what differs, or bind a second queue",
                    )


def _nearest(name: str, known: Iterable[str]) -> str:
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known here: {', '.join(names)}"
