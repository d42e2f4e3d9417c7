"""Our house rules that no linter knows, as tests over the source tree. Every finding names file, line and remedy."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "annulet"

FILE_LINES_MAX = 700  # a cohesive class may have it; a file is split by responsibility, not by length
FUNCTION_LINES_MAX = 60
FOLDER_MODULES_MAX = 25  # more do not tell where a rule lives; part them into rooms that import in one direction
LISTED_MODULES_MAX = 40  # the list below is for exceptions; a longer one would be the rule

ABBREVIATIONS = {
    "addr": "address", "arg": "argument", "args": "arguments", "attr": "attribute", "buf": "buffer", "cb": "callback",
    "cfg": "configuration", "cmd": "command", "conf": "configuration", "conn": "connection", "ctx": "context",
    "cur": "current", "dest": "destination", "dst": "destination", "elem": "element", "err": "error", "evt": "event",
    "ex": "exchange or error", "exc": "error", "fn": "function", "func": "function", "hdr": "header", "idx": "index",
    "impl": "implementation", "kwargs": "options", "len_": "length", "mgr": "manager", "mod": "module",
    "msg": "message", "msgs": "messages", "num": "count", "obj": "what it is", "params": "parameters",
    "pos": "position",
    "prev": "previous", "proc": "process", "prop": "property",
    "props": "properties", "ptr": "pointer", "pub": "publish",
    "qty": "count", "recv": "receive", "ref": "reference", "req": "request", "res": "result", "resp": "response",
    "ret": "result", "seq": "sequence", "sess": "session", "srv": "server", "src": "source", "str_": "text",
    "sub": "subscription", "sz": "size", "tmp": "what it holds", "val": "value", "var": "variable",
}  # fmt: skip

TOP_LEVEL = {
    ".ci", ".gitignore", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "NOTICE",
    "README.md", "SECURITY.md", "benchmarks", "docs", "examples", "packaging", "pyproject.toml", "requirements",
    "scripts", "src", "tests",
}  # fmt: skip
"""What the root of the repository may hold. What a run leaves there belongs into .gitignore, not into a commit."""

WITHOUT_OWN_TEST: dict[str, str] = {
    "__init__.py": "its only statement is exercised by tests/test_build.py in processes of their own",
    "core/management/keeping.py": "an interface; the undo window implements and tests it",
    "core/message/message.py": "plain records; every core and wire test builds them",
    "core/message/neutral_content.py": "a plain record; every converter's tests build it",
    "core/model/effects.py": "an interface; its implementations are tested",
    "core/model/queue_area.py": "an interface; the pages of residency are tested",
    "core/model/queue_bodies.py": "an interface; the bodies of residency are tested",
    "core/model/queue_listeners.py": "an interface; address accounts and copies are tested",
    "core/routing/node_effects.py": "an interface; its implementations are tested",
    "wire/amqp10/connection/handler.py": "an interface; the engine's tests implement it",
}
"""Source modules without a test module of their own, each with the reason."""

LARGE_FOLDERS: dict[str, int] = {

}  # fmt: skip
"""Folders with more modules than allowed, each with their count. A new module goes elsewhere; the counts only fall."""

# Put together from pieces so that this file does not contain what it forbids.
FORBIDDEN_TEXT = [
    "/wo" + "rk/", "/." + "library", "pypi" + ".org", "python" + "hosted.org", "npm" + "js.org", "deb." + "debian.org",
    "file:///" + "opt", "/root/" + ".pyenv",
]  # fmt: skip
TEXT_SUFFIXES = {".py", ".md", ".toml", ".txt", ".json", ".sh", ".js", ".cfg", ".yml", ".yaml", ".c", ""}
MARKERS = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
PAGES_WITHOUT_INTERACTIONS = {"index.md", "README.md", "glossary.md"}
ARCHITECTURE_BYTES_MAX = 16 << 10  # what a newcomer reads in a quarter of an hour
ARCHITECTURE_LINE_MAX = 200
FOLDERS_WITHOUT_INTERACTIONS = {"decisions", "internals"}
"""Folders of pages for contributors, which describe the code and no feature."""


def source_files() -> list[Path]:
    """Return every Python file of the package."""
    return sorted(SOURCE.rglob("*.py"))


def own_files() -> list[Path]:
    """Return every Python file we wrote: package, tests, scripts, benchmarks."""
    folders = (SOURCE, ROOT / "tests", ROOT / "scripts", ROOT / "benchmarks")
    return sorted(path for folder in folders for path in folder.rglob("*.py") if "node_modules" not in path.parts)


@lru_cache(maxsize=1)
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


@lru_cache(maxsize=1)
def nodes_of(path: Path) -> list[ast.AST]:
    return list(ast.walk(tree_of(path)))


def place(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in nodes_of(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def long_files(path: Path) -> Iterator[str]:
    lines = len(path.read_text().splitlines())
    if lines > FILE_LINES_MAX:
        yield f"{place(path, lines)}: {lines} lines, at most {FILE_LINES_MAX}; split the file by its nouns"


def long_functions(path: Path) -> Iterator[str]:
    for node in functions(path):
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if lines > FUNCTION_LINES_MAX:
            yield f"{place(path, node.lineno)}: {node.name} has {lines} lines, at most {FUNCTION_LINES_MAX}"


def unfinished_work(path: Path) -> Iterator[str]:
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if MARKERS.search(line):
            yield f"{place(path, number)}: a note of unfinished work; finish it or file an issue"


def silent_handlers(path: Path) -> Iterator[str]:
    for node in nodes_of(path):
        if not isinstance(node, ast.ExceptHandler):
            continue
        if node.type is None:
            yield f"{place(path, node.lineno)}: except without a type; name what is expected"
        if all(isinstance(item, ast.Pass) or is_ellipsis(item) for item in node.body):
            yield f"{place(path, node.lineno)}: an error is swallowed; handle it, or contextlib.suppress with a comment"


def is_ellipsis(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node.value.value is ...


def stray_prints(path: Path) -> Iterator[str]:
    if SOURCE / "cli" in path.parents:
        return
    for node in nodes_of(path):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield f"{place(path, node.lineno)}: print outside cli/; use the structured log"


def bound_names(path: Path) -> Iterator[tuple[str, int]]:
    """Yield each name our code gives: variables, parameters, functions, classes, assigned attributes."""
    for node in nodes_of(path):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name, node.lineno
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, node.lineno


def words_of(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", name)]


def abbreviated_names(path: Path) -> Iterator[str]:
    for name, line in bound_names(path):
        for word in words_of(name):
            if word in ABBREVIATIONS:
                yield f"{place(path, line)}: {name}: write {ABBREVIATIONS[word]} for {word}"


def missing_module_docstrings(path: Path) -> Iterator[str]:
    if not ast.get_docstring(tree_of(path)):
        yield f"{place(path, 1)}: no module docstring; say what the module promises"


def public_definitions(body: list[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Yield public functions and classes, with the members of public classes; nested functions are private."""
    for node in body:
        if isinstance(node, ast.If):
            yield from public_definitions(node.body + node.orelse)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public_definitions(node.body)


def missing_docstrings(path: Path) -> Iterator[str]:
    for node in public_definitions(tree_of(path).body):
        overload = any("overload" in ast.dump(item) or "override" in ast.dump(item) for item in node.decorator_list)
        setter = any(isinstance(item, ast.Attribute) and item.attr == "setter" for item in node.decorator_list)
        if not overload and not setter and not ast.get_docstring(node):
            yield f"{place(path, node.lineno)}: {node.name} has no docstring"


RULES: list[Callable[[Path], Iterator[str]]] = [
    silent_handlers, stray_prints, abbreviated_names, missing_module_docstrings, missing_docstrings,
]  # fmt: skip
RULES_FOR_ALL_FILES: list[Callable[[Path], Iterator[str]]] = [long_files, long_functions, unfinished_work]


@cache
def findings() -> dict[str, list[str]]:
    """Return what each rule finds. All rules look at a file before the next one: a gigabyte of trees otherwise."""
    found: dict[str, list[str]] = {rule.__name__: [] for rule in [*RULES, *RULES_FOR_ALL_FILES]}
    package = set(source_files())
    for path in own_files():
        for rule in [*RULES, *RULES_FOR_ALL_FILES] if path in package else RULES_FOR_ALL_FILES:
            found[rule.__name__] += rule(path)
    return found


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_package_keeps_the_rule(rule: Callable[[Path], Iterator[str]]) -> None:
    assert findings()[rule.__name__] == []


@pytest.mark.parametrize("rule", RULES_FOR_ALL_FILES, ids=lambda rule: rule.__name__)
def test_every_file_keeps_the_rule(rule: Callable[[Path], Iterator[str]]) -> None:
    assert findings()[rule.__name__] == []


def test_every_module_has_its_test_module() -> None:
    missing = []
    for path in source_files():
        module = path.relative_to(SOURCE)
        mirror = ROOT / "tests" / module.parent / f"test_{path.stem.strip('_')}.py"
        empty = path.name == "__init__.py" and len(tree_of(path).body) <= 1
        if not empty and not mirror.exists() and str(module) not in WITHOUT_OWN_TEST:
            missing.append(f"{module}: write {mirror.relative_to(ROOT)}, or list the module with a reason")
    assert missing == []


def test_exceptions_from_the_mirror_are_few_reasoned_and_real() -> None:
    assert len(WITHOUT_OWN_TEST) <= LISTED_MODULES_MAX
    for module, reason in WITHOUT_OWN_TEST.items():
        assert (SOURCE / module).is_file(), f"{module} is listed but does not exist"
        assert len(reason.split()) >= 3, f"{module}: the reason says too little"


def modules_by_folder() -> Counter[str]:
    """Return how many Python files each folder of the package holds."""
    return Counter(str(path.parent.relative_to(SOURCE)) for path in source_files())


def test_no_folder_holds_more_modules_than_a_reader_can_survey() -> None:
    large = {folder: count for folder, count in modules_by_folder().items() if count > FOLDER_MODULES_MAX}
    assert large == LARGE_FOLDERS, (
        f"a folder of the package has at most {FOLDER_MODULES_MAX} modules: put a new one into a smaller folder; "
        "where a listed folder became smaller, lower its count in LARGE_FOLDERS"
    )


def repository_files() -> list[Path]:
    """Return the files git tracks, and those it neither tracks nor ignores, that exist in the working tree."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    return [ROOT / name for name in listed if name and (ROOT / name).is_file()]


def tracked_text_files() -> list[Path]:
    return [path for path in repository_files() if path.suffix in TEXT_SUFFIXES]


def test_the_root_holds_only_what_belongs_there() -> None:
    entries = {path.relative_to(ROOT).parts[0] for path in repository_files()}
    assert sorted(entries - TOP_LEVEL) == [], "delete these entries, or list them in TOP_LEVEL with the reason to keep"


def test_files_name_no_place_outside_the_project() -> None:
    offences = []
    for path in tracked_text_files():
        text = path.read_text(errors="replace")
        offences += [f"{path.relative_to(ROOT)}: contains {word}" for word in FORBIDDEN_TEXT if word in text]
    assert offences == []


def test_feature_pages_say_how_features_interact() -> None:
    pages = [
        page for page in (ROOT / "docs").rglob("*.md")
        if page.name not in PAGES_WITHOUT_INTERACTIONS and page.parent.name not in FOLDERS_WITHOUT_INTERACTIONS
    ]  # fmt: skip
    heading = re.compile(r"^#+ Interactions\b", re.MULTILINE)
    assert [str(page.relative_to(ROOT)) for page in pages if not heading.search(page.read_text())] == []


def test_the_architecture_is_an_overview() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    assert len(text.encode()) <= ARCHITECTURE_BYTES_MAX, "move details to docs/internals, decisions to docs/decisions"
    assert [line for line in text.splitlines() if len(line) > ARCHITECTURE_LINE_MAX] == []


def test_hot_modules_exist_once_each() -> None:
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    hot = document["tool"]["annulet"]["compiled"]
    assert len(hot) == len(set(hot))
    for module in hot:
        assert ROOT.joinpath("src", *module.split(".")).with_suffix(".py").is_file(), f"{module} does not exist"


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (silent_handlers, "try:\n    f()\nexcept:\n    g()\n"),
        (silent_handlers, "try:\n    f()\nexcept ValueError:\n    pass\n"),
        (silent_handlers, "try:\n    f()\nexcept ValueError:\n    ...\n"),
        (stray_prints, "print('x')\n"),
        (abbreviated_names, "def f(msg): return msg\n"),
        (abbreviated_names, "class RabbitCfg: ...\n"),
        (abbreviated_names, "self.read_buf = 1\n"),
        (missing_module_docstrings, "x = 1\n"),
        (missing_docstrings, "class A:\n    '''A.'''\n    def b(self): ...\n"),
        (long_functions, "def f():\n" + "    x = 1\n" * FUNCTION_LINES_MAX),
        (long_files, "\n" * (FILE_LINES_MAX + 1)),
        (unfinished_work, "# TO" + "DO later\n"),
    ],
)
def test_each_rule_finds_its_offence(
    rule: Callable[[Path], Iterator[str]], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "offence.py"
    path.write_text(text)
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    assert len(list(rule(path))) == 1


@pytest.mark.parametrize("rule", [long_functions, long_files], ids=lambda rule: rule.__name__)
def test_limits_allow_exactly_their_size(rule: Callable[[Path], Iterator[str]], tmp_path: Path) -> None:
    path = tmp_path / "limit.py"
    path.write_text(
        "def f():\n" + "    x = 1\n" * (FUNCTION_LINES_MAX - 1) + "\n" * (FILE_LINES_MAX - FUNCTION_LINES_MAX)
    )
    assert list(rule(path)) == []
