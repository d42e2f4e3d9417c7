"""What operators set at run time: in effect at once, there after a restart, behind the configuration file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from annulet.admin.resources.health import warnings
from annulet.broker.broker import Broker
from annulet.broker.operation.operator_settings import describe_pattern, describe_policy
from annulet.broker.settings.static_definitions import PolicyDefinition, StaticDefinitions
from annulet.core.base.errors import InvalidArgument, NotFound
from annulet.core.message.message import PropertyValue
from annulet.core.queue.queue import Queue
from annulet.store.database.catalogue import OPERATOR_ADDRESS_SETTINGS, OPERATOR_POLICY, OPERATOR_QUEUE
from annulet.store.files.errors import CatalogueError
from annulet.testing import broker
from tests.broker.restarts import queue_of

FILE = StaticDefinitions(
    address_settings=[{"match": "filed.#", "message-ttl": 1000}],
    policies=[PolicyDefinition("filed", "^q", {"max-length": 7})],
)


def declared(running: Broker, name: str = "q", *, durable: bool = True, **arguments: Any) -> Queue:
    given = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    queue_id = running.catalogue.add_queue("/", name, False, given) if durable else 0
    return running.hosts["/"].declare_queue(
        name, now=running.clock(), durable=durable, queue_id=queue_id, arguments=given
    )


def change(running: Broker, queue: Queue, **changes: Any) -> bool:
    given = {key.replace("_", "-"): value for key, value in changes.items()}
    return running.operator_settings.change_queue(running.hosts["/"], queue, given, running.clock())


async def test_changes_of_a_durable_queue_are_there_after_a_restart(tmp_path: Path) -> None:
    async with broker(data_dir=tmp_path, http=False) as running:
        queue = declared(running.broker, ring_size=10)
        assert change(running.broker, queue, x_ring_size=20, message_ttl=500)
        assert change(running.broker, queue, ring_size=30)
        assert running.broker.catalogue.operator_settings(OPERATOR_QUEUE, "/") == {
            "q": {"message-ttl": 500, "ring-size": 30}
        }
    async with broker(data_dir=tmp_path, http=False) as running:
        queue = queue_of(running.broker)
        assert (queue.settings.ring_size, queue.settings.message_ttl) == (30, 500)
        assert queue.origins["ring_size"] == "operator"
        again = running.broker.hosts["/"].declare_queue("q", now=1, durable=True, arguments={"x-ring-size": 10})
        assert again is queue  # who declares it as before need not know


async def test_a_transient_queue_is_changed_for_as_long_as_it_lives() -> None:
    async with broker(http=False) as running:
        queue = declared(running.broker, durable=False)
        assert change(running.broker, queue, ring_size=2) is False
        assert queue.settings.ring_size == 2
        assert running.broker.catalogue.operator_settings(OPERATOR_QUEUE, "/") == {}


async def test_what_is_refused_changes_nothing() -> None:
    async with broker(http=False) as running:
        host, settings, catalogue = (
            running.broker.hosts["/"],
            running.broker.operator_settings,
            running.broker.catalogue,
        )
        queue = declared(running.broker, ring_size=10)
        for changes in ({"priorities": 5}, {"ring_size": "many"}, {"ring_sise": 1}):
            with pytest.raises(InvalidArgument):
                change(running.broker, queue, **changes)
        with pytest.raises(InvalidArgument, match="did you mean 'message-ttl'"):
            settings.set_address_settings(host, "a.#", {"mesage-ttl": 5})
        with pytest.raises(InvalidArgument, match="is no regular expression"):
            settings.set_policy(host, "p", "(", {"max-length": 5}, 0)
        with pytest.raises(NotFound, match="no policy 'p'"):
            settings.remove_policy(host, "p")
        with pytest.raises(NotFound, match="no address settings"):
            settings.remove_address_settings(host, "a.#")
        assert queue.settings.ring_size == 10
        kinds = (OPERATOR_QUEUE, OPERATOR_POLICY, OPERATOR_ADDRESS_SETTINGS)
        assert [catalogue.operator_settings(kind, "/") for kind in kinds] == [{}, {}, {}]
        assert (host.address_settings.patterns(), host.policies.all()) == ([], [])


async def test_a_catalogue_that_refuses_leaves_everything_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    async with broker(http=False) as running:
        queue = declared(running.broker, ring_size=10)

        def refuse(*values: object) -> None:
            raise CatalogueError("the disk is full")

        monkeypatch.setattr(running.broker.catalogue, "set_operator_setting", refuse)
        with pytest.raises(CatalogueError):
            change(running.broker, queue, ring_size=5)
        with pytest.raises(CatalogueError):
            running.broker.operator_settings.set_policy(running.broker.hosts["/"], "p", "q", {"message-ttl": 5}, 0)
        assert (queue.settings.ring_size, queue.settings.message_ttl) == (10, -1)


async def test_address_settings_and_policies_are_there_after_a_restart(tmp_path: Path) -> None:
    async with broker(data_dir=tmp_path, http=False) as running:
        host, settings = running.broker.hosts["/"], running.broker.operator_settings
        queue = declared(running.broker, "q.a")
        assert settings.set_address_settings(host, "q.#", {"message-ttl": 300})
        assert settings.set_policy(host, "p", "^q", {"max-length": 4}, 2)
        assert (queue.settings.message_ttl, queue.settings.max_length) == (300, 4)
        assert settings.set_policy(host, "gone", "x", {"max-length": 4}, 9)
        assert settings.remove_policy(host, "gone")
    async with broker(data_dir=tmp_path, http=False) as running:
        host = running.broker.hosts["/"]
        assert describe_pattern(host, "q.#") == {"message-ttl": 300}
        assert describe_pattern(host, "q.a") is None
        (policy,) = host.policies.all()
        assert describe_policy(policy) == {
            "name": "p", "pattern": "^q", "definition": {"max-length": 4}, "priority": 2
        }  # fmt: skip
        queue = queue_of(running.broker, "q.a")
        assert (queue.settings.message_ttl, queue.settings.max_length) == (300, 4)


async def test_the_configuration_file_holds_at_every_start(tmp_path: Path) -> None:
    async with broker(data_dir=tmp_path, http=False, definitions=FILE) as running:
        host, settings = running.broker.hosts["/"], running.broker.operator_settings
        assert settings.set_address_settings(host, "filed.#", {"message-ttl": 5}) is False
        assert settings.set_policy(host, "filed", "^q", {"max-length": 1}, 0) is False
        assert settings.remove_policy(host, "filed") is False
        assert describe_pattern(host, "filed.#") == {"message-ttl": 5}
    async with broker(data_dir=tmp_path, http=False, definitions=FILE) as running:
        host = running.broker.hosts["/"]
        assert describe_pattern(host, "filed.#") == {"message-ttl": 1000}
        assert [policy.definition for policy in host.policies.all()] == [{"max-length": 7}]


async def test_what_this_version_does_not_allow_is_left_out_and_said(tmp_path: Path) -> None:
    async with broker(data_dir=tmp_path, http=False) as running:
        declared(running.broker)
        catalogue = running.broker.catalogue
        catalogue.set_operator_setting(OPERATOR_QUEUE, "/", "q", {"x-of-tomorrow": 1})
        catalogue.set_operator_setting(OPERATOR_ADDRESS_SETTINGS, "/", "#", {"of-tomorrow": 1})
        catalogue.set_operator_setting(
            OPERATOR_POLICY, "/", "p", {"pattern": "p", "priority": 0, "definition": {"x": 1}}
        )
    with capture_logs() as lines:
        async with broker(data_dir=tmp_path, http=False) as running:
            assert queue_of(running.broker).settings.ring_size == -1
    assert [line["event"] for line in lines].count("the operator's value is not restored") == 3


async def test_patterns_of_an_earlier_version_that_are_refused_now_match_nothing_and_are_named(tmp_path: Path) -> None:
    """A8: they were Python's, whose search may take seconds; a start goes on without them."""
    async with broker(data_dir=tmp_path, http=False) as running:
        declared(running.broker)
        catalogue = running.broker.catalogue
        policy: dict[str, PropertyValue] = {"pattern": "q(?=)", "priority": 0, "definition": {"max-length": 7}}
        catalogue.set_operator_setting(OPERATOR_POLICY, "/", "old", policy)
        catalogue.access.set_permission("guest", "/", "q(?=)", ".*", ".*")
    with capture_logs() as lines:
        async with broker(data_dir=tmp_path, http=False) as running:
            found = running.broker
            assert queue_of(found).settings.max_length == -1
            kinds = ("configure", "write")
            assert [found.authenticator.allowed("guest", "/", kind, "q") for kind in kinds] == [False, True]
            (warning,) = warnings(found)
            assert warning.startswith(
                "2 patterns of an earlier version match nothing, as policy 'old' in virtual host '/'"
            )
    events = [line["event"] for line in lines]
    assert (events.count("policy matches nothing"), events.count("permission matches nothing")) == (1, 1)
    assert "looking ahead" in str(lines)
