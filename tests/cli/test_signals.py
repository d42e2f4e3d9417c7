from __future__ import annotations

import signal
import subprocess
import sys

from annulet.cli.signals import EXIT_SIGNAL

PROGRAM = """
import atexit
from annulet.cli.signals import end_at_once
atexit.register(print, "cleaned up", flush=True)
end_at_once(15)
"""


def test_a_second_signal_ends_the_process_without_clean_up() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (EXIT_SIGNAL + signal.SIGTERM, "")
