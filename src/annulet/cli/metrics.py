"""``annulet metrics``: prints the dashboard and the alert rules of the package."""

from __future__ import annotations

from importlib.resources import files

import click

DASHBOARD = "dashboard.json"
ALERTS = "alerts.yml"


def text_of(name: str) -> str:
    """Return the text of a file of ``annulet.admin.monitoring``."""
    return files("annulet.admin.monitoring").joinpath(name).read_text("utf-8")


@click.group()
def metrics() -> None:
    """Print what Grafana and Prometheus need for /metrics."""


@metrics.command()
def dashboard() -> None:
    """Print the dashboard as JSON, for Grafana's import."""
    click.echo(text_of(DASHBOARD), nl=False)


@metrics.command()
def alerts() -> None:
    """Print the alert rules as YAML, for rule_files of Prometheus."""
    click.echo(text_of(ALERTS), nl=False)
