from __future__ import annotations

import importlib.util
from typing import Any

import pytest
import structlog

import annulet.testing
from annulet.admin.service import AdminService
from annulet.application import build_broker, listener_urls
from annulet.broker.settings.configuration import LOOPBACK, BrokerConfiguration, Endpoint, StartError
from annulet.broker.settings.oidc_settings import OidcSettings
from annulet.broker.settings.otlp_settings import OtlpSettings

FREE = Endpoint(LOOPBACK, 0)


def test_listeners_that_are_off_are_not_built() -> None:
    assert build_broker(BrokerConfiguration(data_directory=None, stomp=None, http=None, bulk=None)).services == []
    services = build_broker(BrokerConfiguration(data_directory=None, stomp=None, http=FREE, bulk=None)).services
    assert [type(service) for service in services] == [AdminService]


def test_bulk_is_built_where_pyarrow_is() -> None:
    pytest.importorskip("pyarrow")
    services = build_broker(BrokerConfiguration(data_directory=None, stomp=None, http=None, bulk=FREE)).services
    assert [type(service).__name__ for service in services] == ["BulkService"]


def test_without_pyarrow_the_default_bulk_listener_is_left_out_and_a_wanted_one_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with structlog.testing.capture_logs() as logs:
        assert build_broker(BrokerConfiguration(data_directory=None, stomp=None, http=None, bulk=FREE)).services == []
    assert "pip install 'annulet[spark]'" in logs[0]["remedy"]
    with pytest.raises(StartError, match=r"pip install 'annulet\[spark\]'"):
        build_broker(BrokerConfiguration(data_directory=None, stomp=None, http=None, bulk=FREE, bulk_required=True))


@pytest.mark.parametrize(
    ("settings", "extra", "section"),
    [
        ({"oidc": OidcSettings(issuer="https://issuer.example", audience="annulet")}, "oidc", "[oidc]"),
        ({"otlp": OtlpSettings(endpoint="http://localhost:4318")}, "otlp", "[otlp]"),
    ],
)
def test_without_its_extra_a_configured_section_is_refused_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], extra: str, section: str
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(StartError) as raised:
        build_broker(BrokerConfiguration(data_directory=None, stomp=None, http=None, bulk=None, **settings))
    text = str(raised.value)
    assert f"pip install 'annulet[{extra}]'" in text
    assert f"leave the section {section} out" in text
    assert "\n" not in text


async def test_urls_name_every_listener_with_its_real_port() -> None:
    pytest.importorskip("pyarrow")
    async with annulet.testing.broker(bulk=True) as running:
        urls = listener_urls(running.broker)
        assert urls["amqp"] == running.amqp_url.replace("guest:guest@", "")
        assert urls["http"] == running.http_url
        assert urls["bulk"] == running.bulk_url.replace("guest:guest@", "").rstrip("/")
        assert not any(url.endswith(":0") for url in urls.values())
    async with annulet.testing.broker(http=False) as running:
        assert set(listener_urls(running.broker)) == {"amqp"}
