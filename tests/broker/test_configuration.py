from __future__ import annotations

from pathlib import Path

import pytest

from annulet.broker.configuration import (
    FRAME_MAX_LEAST,
    FRAME_MAX_MOST,
    BrokerConfiguration,
    ConfigurationError,
    Endpoint,
    load,
    machine_memory_bytes,
    parse_endpoint,
    parse_memory,
)

HASH = "$argon2id$v=19$m=12288,t=3,p=1$c2FsdHNhbHRzYWx0$aGFzaA"


def write(folder: Path, text: str) -> Path:
    file = folder / "annulet.toml"
    file.write_text(text)
    return file


def test_defaults_are_those_of_the_command_page() -> None:
    configuration = load()
    assert configuration == BrokerConfiguration()
    assert str(configuration.amqp) == "127.0.0.1:5672"
    assert str(configuration.stomp) == "127.0.0.1:61613"
    assert str(configuration.http) == "127.0.0.1:8161"
    assert str(configuration.bulk) == "127.0.0.1:8815"
    assert configuration.data_directory == Path("annulet-data")
    assert configuration.memory_limit_bytes == int(machine_memory_bytes() * 0.4)


def test_file_sets_everything(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        f"""
        data = "/var/lib/annulet"
        memory_limit = "512MiB"
        heartbeat = 0
        frame_max = 65536
        channel_max = 10
        handshake_timeout = 3
        loopback_users = []
        ledger_queue = true
        [listeners]
        amqp = "0.0.0.0:5673"
        stomp = "off"
        http = "off"
        bulk = "[::1]:9000"
        [log]
        format = "json"
        level = "debug"
        [users.alice]
        password_hash = "{HASH}"
        tags = ["administrator"]
        permissions."/" = {{ configure = "^a", write = ".*" }}
        """,
    )
    configuration = load(file)
    assert configuration.data_directory == Path("/var/lib/annulet")
    assert configuration.memory_limit_bytes == 512 * 1024 * 1024
    assert (configuration.heartbeat, configuration.frame_max, configuration.channel_max) == (0, 65536, 10)
    assert configuration.handshake_timeout == 3
    assert configuration.loopback_users == ()
    assert configuration.ledger_queue
    assert configuration.amqp == Endpoint("0.0.0.0", 5673)
    assert configuration.stomp is None
    assert configuration.http is None
    assert configuration.bulk == Endpoint("::1", 9000)
    assert str(configuration.bulk) == "[::1]:9000"
    assert configuration.bulk_required
    assert (configuration.log_format, configuration.log_level) == ("json", "debug")
    alice = configuration.users["alice"]
    assert alice.password_hash == HASH
    assert alice.tags == ("administrator",)
    assert alice.permissions["/"].configure == "^a"
    assert alice.permissions["/"].read == ""


def test_command_line_beats_file_beats_default(tmp_path: Path) -> None:
    file = write(tmp_path, 'heartbeat = 5\n[listeners]\namqp = ":1000"\nhttp = ":2000"\n')
    configuration = load(file, {"listeners": {"http": ":3000"}})
    assert configuration.heartbeat == 5
    assert configuration.amqp.port == 1000
    assert configuration.http == Endpoint("127.0.0.1", 3000)
    assert configuration.channel_max == 2047


def test_memory_on_the_command_line_beats_data_in_the_file_and_the_other_way_round(tmp_path: Path) -> None:
    assert load(write(tmp_path, 'data = "x"'), {"memory": True}).data_directory is None
    assert load(write(tmp_path, "memory = true"), {"data": "x"}).data_directory == Path("x")


def test_data_and_memory_together_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="data and memory exclude each other"):
        load(write(tmp_path, 'data = "x"\nmemory = true'))
    with pytest.raises(ConfigurationError, match="command line: data and memory"):
        load(None, {"data": "x", "memory": True})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hartbeat = 5", "unknown setting 'hartbeat'; did you mean 'heartbeat'"),
        ('[listeners]\nampq = ":1"', "unknown setting 'listeners.ampq'; did you mean 'amqp'"),
        ("[zzz]\n", "unknown setting 'zzz'; known here: address_settings, addresses,"),
        ('[[queues]]\nname = "q"\ndurabel = true', "unknown setting 'queues[0].durabel'; did you mean 'durable'"),
        (
            '[[queues]]\nname = "q"\nbindings = [{ exchnge = "e" }]',
            "unknown setting 'queues[0].bindings[0].exchnge'; did you mean 'exchange'",
        ),
        ("[[queues]]\ndurable = true", "annulet.toml: queues[0]: object missing required field `name`"),
        ('[[queues]]\nname = "q"\narguments = { ring-sise = 1 }', "[[queues]] 'q': unknown queue argument 'ring-sise'"),
        (f'[users.a]\npassword_hash = "{HASH}"\ntag = []', "unknown setting 'users.a.tag'; did you mean 'tags'"),
        ('heartbeat = "often"', "annulet.toml: heartbeat: expected `int`, got `str`"),
        ('[log]\nformat = "xml"', "log.format: invalid enum value 'xml'; known here: console, json"),
        ('[users.a.permissions."/"]\nread = 5', "permissions[...].read: expected `str`, got `int`"),
        ("heartbeat = 65536", "heartbeat: 65536 is not within 0 to 65535 seconds"),
        ("handshake_timeout = 0", "handshake_timeout: 0.0 is not within"),
        ('memory_limit = "much"', "memory_limit: 'much' is not an amount of memory"),
        ("memory_limit = 1", "memory_limit: 1 is not within"),
        ('[listeners]\namqp = "off"', "listeners.amqp: the AMQP listener cannot be switched off"),
        ('[listeners]\nhttp = "h:x"', "listeners.http: 'h:x': port 'x' is not a number"),
        ('[users.a]\npassword_hash = "guest"', "users.a: password_hash is not an Argon2 hash"),
        (
            f'[users.a]\npassword_hash = "{HASH}"\npermissions."/" = {{ read = "(" }}',
            "users.a.permissions./.read: not a regular expression",
        ),
        ("heartbeat = ", "annulet.toml: not TOML"),
    ],
)
def test_bad_files_are_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(write(tmp_path, text))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "accepted"),
    [
        (FRAME_MAX_LEAST - 1, False),
        (FRAME_MAX_LEAST, True),
        (FRAME_MAX_MOST, True),
        (FRAME_MAX_MOST + 1, False),
    ],
)
def test_frame_max_bounds(value: int, accepted: bool) -> None:
    if accepted:
        assert load(None, {"frame_max": value}).frame_max == value
    else:
        with pytest.raises(ConfigurationError, match="frame_max"):
            load(None, {"frame_max": value})


def test_errors_of_the_command_line_name_the_option() -> None:
    with pytest.raises(ConfigurationError, match=r"^--http: '1:2:3': port '2:3' is not a number"):
        load(None, {"listeners": {"http": "1:2:3"}})
    with pytest.raises(ConfigurationError, match=r"^--heartbeat: -1 is not within"):
        load(None, {"heartbeat": -1})


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot read the configuration file .*: No such file"):
        load(tmp_path / "absent.toml")
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        load(binary)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost:1", Endpoint("localhost", 1)),
        ("localhost", Endpoint("localhost", 7)),
        (":0", Endpoint("127.0.0.1", 0)),
        ("[::1]:65535", Endpoint("::1", 65535)),
        ("[::]", Endpoint("::", 7)),
        (" host:2 ", Endpoint("host", 2)),
    ],
)
def test_endpoints(text: str, expected: Endpoint) -> None:
    assert parse_endpoint(text, 7) == expected


@pytest.mark.parametrize("text", ["", " ", "::1", "a:b", "a:65536", "a:-1", "a:", "[::1", "a b:1", "a:1:2"])
def test_bad_endpoints(text: str) -> None:
    with pytest.raises(ConfigurationError):
        parse_endpoint(text, 7)


def test_amounts_of_memory() -> None:
    assert parse_memory(5) == 5
    assert parse_memory("5") == 5
    assert parse_memory("5 B") == 5
    assert parse_memory("1.5KiB") == 1536
    assert parse_memory("2GB") == 2_000_000_000
    assert parse_memory("50%") == machine_memory_bytes() // 2
    for text in ("-1", "101%", "5 XB", ""):
        with pytest.raises(ConfigurationError):
            parse_memory(text)


def test_a_container_limit_counts_when_it_is_lower(tmp_path: Path) -> None:
    machine = machine_memory_bytes(tmp_path / "absent")
    limit = tmp_path / "memory.max"
    limit.write_text("1000000\n")
    assert machine_memory_bytes(limit) == 1_000_000
    limit.write_text("max\n")
    assert machine_memory_bytes(limit) == machine


def test_definitions_are_read_with_their_source(tmp_path: Path) -> None:
    file = write(tmp_path, '[[queues]]\nname = "q"\narguments = { ring-size = 3 }\n[[addresses]]\nname = "a"')
    definitions = load(file).definitions
    assert definitions.source == str(file)
    assert [queue.arguments for queue in definitions.queues] == [{"ring-size": 3}]
    assert [address.name for address in definitions.addresses] == ["a"]
