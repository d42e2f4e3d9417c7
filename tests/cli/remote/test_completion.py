from __future__ import annotations

import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from annulet.cli.main import main


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_calls_the_program(shell: str) -> None:
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert "_ANNULET_COMPLETE" in result.output


def test_the_program_completes_commands() -> None:
    command = "import sys; sys.argv[0] = 'annulet'; from annulet.cli.main import main; main(prog_name='annulet')"
    environment = {
        **os.environ,
        "_ANNULET_COMPLETE": "bash_complete",
        "COMP_WORDS": "annulet queue ch",
        "COMP_CWORD": "2",
    }
    done = subprocess.run(
        [sys.executable, "-c", command], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout.split() == ["plain,change"]
