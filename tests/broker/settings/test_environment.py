"""Settings from the environment."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from annulet.broker.settings.configuration import ConfigurationError, ConfigurationFile, Endpoint, FirstUser, load
from annulet.broker.settings.environment import VALUE_BYTES_MAX, Variables, variable_of


def _variables(**given: str) -> Variables:
    return Variables({f"ANNULET_{name}": value for name, value in given.items()}, ConfigurationFile)


def test_values_have_the_types_of_their_settings(tmp_path: Path) -> None:
    configuration = load(
        None,
        None,
        {
            "ANNULET_DATA": str(tmp_path),
            "ANNULET_MEMORY_LIMIT": "512MiB",
            "ANNULET_HEARTBEAT": "15",
            "ANNULET_HANDSHAKE_TIMEOUT": "2.5",
            "ANNULET_LEDGER_QUEUE": "true",
            "ANNULET_LISTENERS_AMQP": "5699",
            "ANNULET_LISTENERS_HTTP": "off",
            "ANNULET_LOG_FORMAT": "json",
            "ANNULET_LIMITS_MAX_CONNECTIONS": "77",
            "ANNULET_LOOPBACK_USERS": "guest, ops",
            "ANNULET_EVENT_QUEUES": '["orders.#"]',
            "ANNULET_QUEUES": '[{"name": "orders"}]',
            "PATH": "/bin",
        },
    )
    assert configuration.data_directory == tmp_path
    assert (configuration.memory_limit_bytes, configuration.heartbeat) == (512 * 1024 * 1024, 15)
    assert (configuration.handshake_timeout, configuration.ledger_queue) == (2.5, True)
    assert (configuration.amqp, configuration.http) == (Endpoint("127.0.0.1", 5699), None)
    assert (configuration.log_format, configuration.limits.max_connections) == ("json", 77)
    assert configuration.loopback_users == ("guest", "ops")
    assert configuration.event_queues == ("orders.#",)
    assert [queue.name for queue in configuration.definitions.queues] == ["orders"]
    assert configuration.origins["heartbeat"] == "environment ANNULET_HEARTBEAT"
    assert configuration.origins["listeners.amqp"] == "environment ANNULET_LISTENERS_AMQP"


def test_the_command_line_comes_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "annulet.toml"
    file.write_text('heartbeat = 1\nframe_max = 8192\nchannel_max = 9\ndata = "there"\n')
    environment = {"ANNULET_HEARTBEAT": "2", "ANNULET_FRAME_MAX": "9000", "ANNULET_MEMORY": "1"}
    configuration = load(file, {"heartbeat": 3}, environment)
    assert (configuration.heartbeat, configuration.frame_max, configuration.channel_max) == (3, 9000, 9)
    assert configuration.data_directory is None
    assert configuration.origins["heartbeat"] == "command line"
    assert configuration.origins["frame_max"] == "environment ANNULET_FRAME_MAX"
    assert configuration.origins["channel_max"] == f"file {file}"
    assert load(file, {"data": "here"}, environment).data_directory == Path("here")


def test_paths_are_relative_to_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "etc"
    folder.mkdir()
    (folder / "annulet.toml").write_text('[listeners]\namqps = "5671"\n')
    monkeypatch.chdir(tmp_path)
    environment = {"ANNULET_DATA": "d", "ANNULET_TLS_CERTIFICATE": "c.pem", "ANNULET_TLS_KEY": "/k.pem"}
    configuration = load(folder / "annulet.toml", None, environment)
    assert configuration.data_directory == Path("d")
    assert configuration.tls["amqps"].certificate == tmp_path / "c.pem"
    assert configuration.tls["amqps"].key == Path("/k.pem")


def test_the_issuers_authority_is_relative_to_the_working_directory_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    document = Variables({"ANNULET_OIDC_CA_FILE": "ca.pem"}, ConfigurationFile).document
    assert document == {"oidc": {"ca_file": str(tmp_path / "ca.pem")}}


def test_a_value_may_be_in_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("s3cret word\n")
    environment = {"ANNULET_DEFAULT_USER": "ops", "ANNULET_DEFAULT_PASSWORD_FILE": str(secret)}
    configuration = load(None, None, environment)
    assert configuration.first_user == FirstUser("ops", "s3cret word")
    assert "s3cret" not in repr(configuration)


def test_a_file_may_be_as_large_as_the_bound_and_no_larger(tmp_path: Path) -> None:
    file = tmp_path / "value"
    file.write_text("x" * VALUE_BYTES_MAX)
    assert len(_variables(DATA_FILE=str(file)).document["data"]) == VALUE_BYTES_MAX
    file.write_text("x" * (VALUE_BYTES_MAX + 1))
    with pytest.raises(ConfigurationError, match=r"ANNULET_DATA_FILE: .* has more than 1048576 characters"):
        _variables(DATA_FILE=str(file))


def test_variables_of_tools_and_of_kubernetes_are_no_settings() -> None:
    given = {
        "URL": "http://x",
        "PASSWORD": "p",
        "PURE": "1",
        "SERVICE_HOST": "10.0.0.1",
        "SERVICE_PORT_AMQP": "5672",
        "PORT": "tcp://10.0.0.1:5672",
        "PORT_5672_TCP_ADDR": "10.0.0.1",
        "HTTP_SERVICE_HOST": "10.0.0.1",
        "HTTP_PORT_8161_TCP": "tcp://10.0.0.1:8161",
    }
    assert _variables(**given).document == {}


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("ANNULET_HARTBEAT", "5", "environment: unknown setting 'ANNULET_HARTBEAT'; did you mean 'ANNULET_HEARTBEAT'?"),
        ("ANNULET_ZZZ", "5", "environment: unknown setting 'ANNULET_ZZZ'; settings are listed in docs/operation.md"),
        ("ANNULET_HEARTBEAT", "five", "environment: ANNULET_HEARTBEAT='five' is not an integer"),
        ("ANNULET_MEMORY", "perhaps", "environment: ANNULET_MEMORY='perhaps' is not true or false"),
        ("ANNULET_HEARTBEAT", "70000", "environment ANNULET_HEARTBEAT: 70000 is not within 0 to 65535 seconds"),
        ("ANNULET_LISTENERS_AMQP", "0.0.22", "environment ANNULET_LISTENERS_AMQP: '0.0.22': host '0.0.22' is no "),
        ("ANNULET_QUEUES", "[oops]", "environment: ANNULET_QUEUES: not JSON: "),
        ("ANNULET_QUEUES", '[{"name": 5}]', "environment ANNULET_QUEUES: queues[0].name: expected `str`, got `int`"),
        ("ANNULET_QUEUES", '[{"nam": "q"}]', "environment: unknown setting 'queues[0].nam'; did you mean 'name'?"),
        ("ANNULET_LOG_LEVEL", "loud", "environment ANNULET_LOG_LEVEL: invalid enum value 'loud'; known here: "),
        ("ANNULET_DATA_FILE", "/nowhere/x", "environment: ANNULET_DATA_FILE: cannot read '/nowhere/x': No such file"),
        ("ANNULET_DEFAULT_USER", "ops", "default_password: empty or left out; default_user needs it beside it"),
        ("ANNULET_DEFAULT_PASSWORD", "x", "default_user: empty or left out; default_password needs it beside it"),
    ],
)
def test_errors_name_the_variable_the_value_and_the_remedy(name: str, value: str, text: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        load(None, None, {name: value})
    assert str(raised.value).startswith(text)


def test_a_variable_and_its_file_exclude_each_other(tmp_path: Path) -> None:
    file = tmp_path / "value"
    file.write_text("5")
    with pytest.raises(ConfigurationError, match="ANNULET_HEARTBEAT and ANNULET_HEARTBEAT_FILE exclude each other"):
        _variables(HEARTBEAT="5", HEARTBEAT_FILE=str(file))


def test_every_setting_has_a_variable_of_its_own() -> None:
    fields = [field.encode_name for field in msgspec.structs.fields(ConfigurationFile)]
    known = {variable_of(name) for name in fields}
    assert len(known) == len(fields)
    nested = Variables({"ANNULET_TLS_AMQPS_VERIFY": "none", "ANNULET_TLS_VERIFY": "optional"}, ConfigurationFile)
    assert nested.document == {"tls": {"verify": "optional", "amqps": {"verify": "none"}}}
