"""The compiled build of a small package with two rooms, and of changes to it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from annulet import _build
from scripts import c_build, compile_modules, generate_c
from scripts.build_cache import BuildCache
from scripts.c_build import CompileError

MODULES = ["sample.low.room.base", "sample.low.room.words", "sample.high.room.top"]
BASE = """
class Base:
    def __init__(self, number: int) -> None:
        self.number = number

    def answer(self) -> int:
        return self.number + 1
"""
WORDS = """
def word() -> str:
    return "low"
"""
TOP = """
from sample.low.room.base import Base
from sample.low.room.words import word


class Top(Base):
    def answer(self) -> int:
        return super().answer() * 2


def ask(base: Base) -> str:
    return f"{word()} {base.answer()}"
"""
ASK = """
import sys
from pathlib import Path
from annulet import _build
_build.SOURCE, _build.FOLDER = Path(sys.argv[1]), Path(sys.argv[2])
_build.MANIFEST = _build.FOLDER / "manifest.json"
sys.meta_path[:] = [one for one in sys.meta_path if not isinstance(one, _build.CompiledFinder)]
sys.path.insert(0, sys.argv[1])
_build.activate()
from sample.high.room import top
from sample.low.room import base
print(_build.compiled(), top.__file__.endswith(_build.SUFFIX), top.ask(top.Top(20)), top.ask(base.Base(20)))
"""

compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
pytestmark = pytest.mark.skipif(shutil.which(compiler) is None, reason=f"needs the C compiler {compiler}")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that keeps mypyc's runtime for all tests here."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """mypy's cache of the modules that no test changes: those of the standard library."""
    return tmp_path_factory.mktemp("mypy")


@pytest.fixture
def package(tmp_path: Path, shared: Path, checked: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the package's sources; the build of it goes beside it."""
    source = tmp_path / "src"
    texts = dict(zip(MODULES, (BASE, WORDS, TOP), strict=True))
    for module, text in texts.items():
        path = source.joinpath(*module.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for folder in (path.parent, *path.parent.parents[: len(module.split(".")) - 2]):
            (folder / "__init__.py").touch()
    monkeypatch.setattr(_build, "SOURCE", source)
    monkeypatch.setattr(_build, "FOLDER", tmp_path / "compiled")
    monkeypatch.setattr(_build, "MANIFEST", tmp_path / "compiled" / "manifest.json")
    monkeypatch.setattr(compile_modules, "WORK", tmp_path / "mypyc")
    monkeypatch.setattr(compile_modules, "hot_modules", lambda: MODULES)
    monkeypatch.setenv("ANNULET_BUILD_CACHE", str(shared))
    monkeypatch.setenv("CFLAGS", "-O0")  # how fast the programs run is not asked here
    compile_modules.WORK.mkdir()
    (compile_modules.WORK / "cache").symlink_to(checked)
    return source


def edit(package: Path, module: str, old: str, new: str) -> None:
    path = package.joinpath(*module.split(".")).with_suffix(".py")
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def libraries() -> dict[str, str]:
    found = _build.manifest()
    assert found is not None
    return found["libraries"]


def ask(package: Path, *, pure: bool = False) -> str:
    environment = {
        **os.environ,
        "ANNULET_PURE": str(int(pure)),
        "PYTHONPATH": str(Path(c_build.__file__).parents[1] / "src"),
    }
    finished = subprocess.run(
        [sys.executable, "-c", ASK, str(package), str(_build.FOLDER)],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return finished.stdout.strip()


def test_a_change_of_a_function_rebuilds_the_library_of_its_room(package: Path, shared: Path) -> None:
    cache = BuildCache(shared)
    compile_modules.build(MODULES, cache)
    assert ask(package) == "True True low 42 low 21"
    assert ask(package, pure=True) == "False False low 42 low 21"
    before = libraries()
    assert sorted(before) == ["sample_high_room", "sample_low_room"]

    edit(package, MODULES[0], "self.number + 1", "self.number + 2")
    assert ask(package) == "False False low 44 low 22"  # a changed source is never shadowed by its old machine code
    assert compile_modules.build(MODULES, cache) == 1
    assert ask(package) == "True True low 44 low 22"
    after = libraries()
    assert after["sample_low_room"] != before["sample_low_room"]
    assert after["sample_high_room"] == before["sample_high_room"]
    assert (_build.FOLDER / before["sample_low_room"]).is_file()  # a process that runs on it may load it yet

    edit(package, MODULES[2], "* 2", "* 3")
    assert compile_modules.build(MODULES, cache) == 1
    assert ask(package) == "True True low 66 low 22"
    assert not (_build.FOLDER / before["sample_low_room"]).exists()


def test_another_checkout_compiles_nothing_anew(
    package: Path, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_modules.build(MODULES, BuildCache(shared))  # mypyc's runtime, most of the work, unless it is there
    shutil.copytree(shared, tmp_path / "cache")
    kept = {path.name for path in shared.iterdir()}
    edit(package, MODULES[1], "low", "lower")
    cache = BuildCache(tmp_path / "cache")
    assert compile_modules.build(MODULES, cache) > 0
    first = libraries()
    other = tmp_path / "other"
    shutil.copytree(package, other / "src")
    monkeypatch.setattr(_build, "SOURCE", other / "src")
    monkeypatch.setattr(_build, "FOLDER", other / "compiled")
    monkeypatch.setattr(_build, "MANIFEST", other / "compiled" / "manifest.json")
    monkeypatch.setattr(compile_modules, "WORK", other / "mypyc")
    assert compile_modules.build(MODULES, cache) == 0
    assert libraries() == first
    assert ask(other / "src") == "True True lower 42 lower 21"

    made = [path for path in (tmp_path / "cache").iterdir() if path.name not in kept]
    assert made
    for path in made:
        path.write_bytes(b"damaged")
    assert compile_modules.build(MODULES, cache) > 0
    assert ask(other / "src") == "True True lower 42 lower 21"


def test_a_method_that_a_new_subclass_overrides_is_not_called_directly(package: Path, shared: Path) -> None:
    """What mypyc knows of all modules may change the code of a module that did not change."""
    cache = BuildCache(shared)
    edit(package, MODULES[2], "    def answer(self) -> int:\n        return super().answer() * 2\n", "    pass\n")
    compile_modules.build(MODULES, cache)
    assert ask(package) == "True True low 21 low 21"
    edit(package, MODULES[2], "    pass\n", "    def answer(self) -> int:\n        return 7\n")
    compile_modules.build(MODULES, cache)
    assert ask(package) == "True True low 7 low 21"


def test_headers_that_are_compiled_once_give_the_same_program(
    package: Path, monkeypatch: pytest.MonkeyPatch, shared: Path
) -> None:
    compile_modules.build(MODULES, BuildCache(shared))
    before = libraries()
    monkeypatch.setattr(c_build, "PRECOMPILED_FILES_MIN", 1)
    assert compile_modules.build(MODULES, BuildCache(None)) > len(MODULES)
    assert libraries() == before
    assert ask(package) == "True True low 42 low 21"


def test_an_error_of_types_leaves_the_pure_build_with_one_line(
    package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(package, MODULES[1], '"low"', "1")
    compile_modules.main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert "the hot modules run as pure Python" in lines[1]
    report = tmp_path / "compile.log"
    assert str(report) in lines[1]
    assert "words.py:3: error" in report.read_text()
    assert not _build.usable()
    assert ask(package).startswith("False False")


def test_a_compiler_that_fails_leaves_the_pure_build_with_one_line(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CFLAGS", "-DPy_PYTHON_H -include no-such-file.h")
    compile_modules.main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert "the hot modules run as pure Python" in lines[1]
    assert "no-such-file.h" in (tmp_path / "compile.log").read_text()


def test_a_second_setup_does_nothing(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compile_modules.main()
    assert "compiled" in capsys.readouterr().out
    compile_modules.main()
    assert capsys.readouterr().out == ""


def test_a_library_of_the_same_name_is_not_overwritten(package: Path, tmp_path: Path) -> None:
    """A broker that runs on it has its pages mapped, and would crash: ``make setup`` did that to it."""
    built = tmp_path / "built"
    built.mkdir()
    library = built / "sample.so"
    for content in (b"first", b"second"):
        library.write_bytes(content)
        compile_modules.install({"sample": library}, {}, {})
        if content == b"first":
            mapped = (_build.FOLDER / library.name).open("rb")
    with mapped:
        assert mapped.read() == b"first"
    assert (_build.FOLDER / library.name).read_bytes() == b"second"
    assert sorted(path.name for path in _build.FOLDER.iterdir()) == ["manifest.json", "sample.so"]


def test_a_listed_module_without_a_source_is_named(package: Path) -> None:
    assert compile_modules.missing([*MODULES, "sample.low.room.gone"]) == ["sample.low.room.gone"]


def test_modules_of_a_room_are_a_group() -> None:
    found = compile_modules.groups_of(
        [
            "annulet.wire.input_buffer",
            "annulet.wire.stomp.view",
            "annulet.wire.amqp10.types.fields",
            "annulet.wire.amqp10.frames.sasl",
        ]
    )
    assert found == {
        "annulet_wire": ["annulet.wire.input_buffer"],
        "annulet_wire_stomp": ["annulet.wire.stomp.view"],
        "annulet_wire_amqp10": ["annulet.wire.amqp10.frames.sasl", "annulet.wire.amqp10.types.fields"],
    }


def test_a_compiler_without_the_tuned_options_gets_the_plain_ones(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = Path(generate_c.build.include_dir())
    assert c_build.Compiler(runtime).optimization in {c_build.TUNED, c_build.PLAIN}
    monkeypatch.setattr(c_build, "TUNED", ("-O1", "-fno-such-option"))
    assert c_build.Compiler(runtime).optimization == c_build.PLAIN


def test_an_object_depends_on_headers_that_its_headers_include(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    folder.mkdir()
    (folder / "one.c").write_text('#include "one.h"\nint a = B;\n')
    (folder / "one.h").write_text("#include <two.h>\n")
    (folder / "two.h").write_text("#define B 1\n")
    runtime = Path(generate_c.build.include_dir())
    plan = {"runtime": [], "groups": {"sample": {"modules": [], "files": ["one.c", "one.h", "two.h"]}}}

    def keys() -> set[str]:
        scratch = tmp_path / "scratch"
        scratch.mkdir(exist_ok=True)
        made = c_build.CBuild(folder, runtime, scratch, BuildCache(None)).libraries(plan, ".so")
        return {key for _, key in made.values()}

    first = keys()
    assert keys() == first
    (folder / "two.h").write_text("#define B 2\n")
    assert keys() != first


def test_output_of_a_failing_command_is_in_the_error() -> None:
    with pytest.raises(CompileError, match="no such thing"):
        c_build.run([sys.executable, "-c", "import sys; sys.exit('no such thing')"])


def test_the_plan_names_modules_and_files(package: Path, shared: Path) -> None:
    compile_modules.build(MODULES, BuildCache(shared))
    plan = json.loads((compile_modules.WORK / "c" / generate_c.PLAN).read_text())
    assert plan["groups"]["sample_low_room"]["modules"] == MODULES[:2]
    written = {path.name for path in (compile_modules.WORK / "c").iterdir()} - {generate_c.PLAN}
    assert written == {file for group in plan["groups"].values() for file in group["files"]}
