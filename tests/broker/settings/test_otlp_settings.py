"""The section [otlp]."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from annulet.broker.settings.configuration import ConfigurationError, load

DOCS = Path(__file__).parents[3] / "docs"


def read(tmp_path: Path, text: str) -> Any:
    file = tmp_path / "annulet.toml"
    file.write_text(text)
    return load(file).otlp


def test_without_a_section_it_is_off() -> None:
    assert load().otlp is None


def test_defaults_and_all_settings(tmp_path: Path) -> None:
    settings = read(tmp_path, '[otlp]\nendpoint = "http://localhost:4318/"\n')
    assert (settings.endpoint, settings.metrics_seconds, settings.spans) == ("http://localhost:4318", 60, True)
    settings = read(
        tmp_path, '[otlp]\nendpoint = "https://c"\nca_file = "ca.pem"\nmetrics_seconds = 0\nspans = false\n'
    )
    assert (settings.ca_file, settings.metrics_seconds, settings.spans) == (tmp_path / "ca.pem", 0, False)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("spans = false\n", "otlp.endpoint is missing"),
        ('endpoint = "localhost:4318"\n', "no address such as"),
        ('endpoint = "http://me:secret@localhost:4318"\n', "give them as otlp.headers"),
        ('endpoint = "me:secret@localhost:4318"\n', "give them as otlp.headers"),
        ('endpoint = "http://[::1"\n', "no address such as"),
        ('endpoint = "http://c"\nmetrics_seconds = 4\n', "metrics_seconds=4"),
        ('endpoint = "http://c"\nmetrics_seconds = 3601\n', "metrics_seconds=3601"),
        ('endpoint = "http://c"\nmetric_seconds = 5\n', "did you mean 'metrics_seconds'"),
    ],
)
def test_wrong_settings_name_their_remedy(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(reason)):
        read(tmp_path, f"[otlp]\n{text}")


def test_the_example_of_the_documentation(tmp_path: Path) -> None:
    block = re.search(r"```toml\n(.*?)```", (DOCS / "telemetry.md").read_text(), re.DOTALL)
    assert block is not None
    assert read(tmp_path, block[1]).headers == {"authorization": "Bearer SECRET"}


def test_a_password_in_the_address_is_in_no_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(tmp_path, '[otlp]\nendpoint = "http://me:secret@localhost:4318"\n')
    assert "secret" not in str(caught.value)
