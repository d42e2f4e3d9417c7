"""``make test`` runs in parts (scripts/test): each test is in exactly one of those with the build that is there."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
AGAIN = {"pure", "compiled"}
"""Parts that repeat tests in the other mode."""
LEAVE_OUT = "--ignore="


def parts() -> dict[str, list[str]]:
    """Return what each part gives to pytest."""
    listed = subprocess.run(
        ["/bin/sh", ROOT / "scripts" / "test", "--list"], capture_output=True, text=True, check=True
    ).stdout
    return {part: arguments.split() for part, arguments in (line.split(": ", 1) for line in listed.splitlines())}


def is_in(path: str, arguments: list[str]) -> bool:
    """Return whether pytest collects a file with these arguments."""
    taken = [word for word in arguments if not word.startswith(LEAVE_OUT)]
    left_out = [word.removeprefix(LEAVE_OUT) for word in arguments if word.startswith(LEAVE_OUT)]

    def below(places: list[str]) -> bool:
        return any(path == place or path.startswith(f"{place}/") for place in places)

    return below(taken) and not below(left_out)


def test_each_file_of_tests_is_in_one_part() -> None:
    found = parts()
    files = [
        str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py") if "node_modules" not in path.parts
    ]
    assert len(files) > 500
    places = {file: [part for part in found if part not in AGAIN and is_in(file, found[part])] for file in files}
    assert {file: held for file, held in places.items() if len(held) != 1} == {}
    assert {part for held in places.values() for part in held} == found.keys() - AGAIN, "a part has no tests"


def test_the_paths_of_parts_exist() -> None:
    for arguments in parts().values():
        for word in arguments:
            assert (ROOT / word.removeprefix(LEAVE_OUT)).exists(), word


def test_make_test_runs_each_part() -> None:
    script = (ROOT / "scripts" / "test").read_text()
    (run,) = (line.partition('"')[2].rstrip('"') for line in script.splitlines() if line.startswith('parts="'))
    assert set(run.split()) == parts().keys() - AGAIN
