from __future__ import annotations

import importlib.util

import pytest
import structlog

from annulet.admin.service import AdminService
from annulet.application import build_broker
from annulet.broker.configuration import LOOPBACK, BrokerConfiguration, Endpoint, StartError

FREE = Endpoint(LOOPBACK, 0)


def test_listeners_that_are_off_are_not_built() -> None:
    assert build_broker(BrokerConfiguration(data_directory=None, http=None, bulk=None)).services == []
    services = build_broker(BrokerConfiguration(data_directory=None, http=FREE, bulk=None)).services
    assert [type(service) for service in services] == [AdminService]


def test_bulk_is_built_where_pyarrow_is() -> None:
    pytest.importorskip("pyarrow")
    services = build_broker(BrokerConfiguration(data_directory=None, http=None, bulk=FREE)).services
    assert [type(service).__name__ for service in services] == ["BulkService"]


def test_without_pyarrow_the_default_bulk_listener_is_left_out_and_a_wanted_one_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with structlog.testing.capture_logs() as logs:
        assert build_broker(BrokerConfiguration(data_directory=None, http=None, bulk=FREE)).services == []
    assert "pip install 'annulet[spark]'" in logs[0]["remedy"]
    with pytest.raises(StartError, match=r"pip install 'annulet\[spark\]'"):
        build_broker(BrokerConfiguration(data_directory=None, http=None, bulk=FREE, bulk_required=True))
