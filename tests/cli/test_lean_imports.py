from __future__ import annotations

import gc
import importlib
import importlib.util
import subprocess
import sys

import pytest

from annulet.cli.lean_imports import hidden, uncollected

UNNEEDED = {
    *("annulet.admin.resources.metrics", "annulet.bulk", "annulet.cli.remote", "annulet.demo", "annulet.spark"),
    *("annulet.testing", "attr", "concurrent.futures.process", "cryptography", "doctest", "grpc", "jsonschema", "jwt"),
    *("numpy", "opentelemetry", "pandas", "pdb", "prometheus_client", "pyarrow", "pygments", "pyspark", "rich"),
    *("unittest", "xml.etree", "yaml"),
}
"""What a broker with every listener but bulk transfer has no use for until somebody asks for it."""


def test_a_hidden_package_is_not_found_until_the_end() -> None:
    assert "this" not in sys.modules
    with hidden("this"), pytest.raises(ModuleNotFoundError):
        importlib.import_module("this")
    assert importlib.util.find_spec("this") is not None


def test_a_package_that_is_already_imported_stays() -> None:
    with hidden("pytest"):
        assert importlib.import_module("pytest") is pytest


def test_serve_imports_nothing_that_its_listeners_do_not_need() -> None:
    program = (
        "import sys, click; from annulet.cli.main import main\n"
        "main.get_command(click.Context(main), 'serve'); import annulet.admin.service\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    imported = set(done.stdout.split())
    assert {"annulet.broker.broker", "annulet.admin.application", "structlog"} <= imported
    assert imported & UNNEEDED == set()


def test_cycles_are_looked_for_again_after_an_import_that_fails() -> None:
    with pytest.raises(ModuleNotFoundError), uncollected():
        importlib.import_module("annulet.no_such_module")
    assert gc.isenabled()


def test_a_program_without_a_collector_gets_none() -> None:
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_serve_is_imported_without_collections() -> None:
    program = (
        "import gc, click; from annulet.cli.main import main\n"
        "begun = []; gc.callbacks.append(lambda phase, info: phase == 'stop' or begun.append(info))\n"
        "main.get_command(click.Context(main), 'serve')\n"
        "print(len(begun), gc.isenabled())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout in {"0 True\n", "1 True\n"}  # one may be due at the end
