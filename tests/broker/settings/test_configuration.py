from __future__ import annotations

from pathlib import Path

import pytest

from annulet.broker.settings.configuration import (
    FRAME_MAX_LEAST,
    FRAME_MAX_MOST,
    BrokerConfiguration,
    ConfigurationError,
    Endpoint,
    load,
    machine_memory_bytes,
)
from annulet.broker.settings.limits import RANGES, Limits
from annulet.broker.settings.scram_verifiers import derive_verifier

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
    assert configuration.body_budget_bytes == min(256 * 1024 * 1024, configuration.memory_limit_bytes // 2)
    assert configuration.spill_limit_bytes is None
    assert configuration.search_process
    assert configuration.unknown_arguments == "warn"
    assert configuration.consumer_timeout == 0


def test_the_body_budget_leaves_half_of_a_small_memory_limit_to_others() -> None:
    for limit, budget in ((512, 256), (511, 255.5), (100, 50)):
        assert load(command_line={"memory_limit": f"{limit}MiB"}).body_budget_bytes == budget * 1024 * 1024
    both = load(command_line={"memory_limit": "100MiB", "body_budget": "90MiB"})
    assert both.body_budget_bytes == 90 * 1024 * 1024


def test_file_sets_everything(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        f"""
        data = "/var/lib/annulet"
        memory_limit = "512MiB"
        body_budget = "64MiB"
        spill_limit = "1GB"
        search_process = false
        unknown_arguments = "refuse"
        consumer_timeout = 1800000
        heartbeat = 0
        frame_max = 65536
        channel_max = 10
        handshake_timeout = 3
        loopback_users = []
        ledger_queue = true
        event_queues = ["orders.#"]
        event_queue_bytes = "2MiB"
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
    assert configuration.body_budget_bytes == 64 * 1024 * 1024
    assert configuration.spill_limit_bytes == 10**9
    assert not configuration.search_process
    assert configuration.unknown_arguments == "refuse"
    assert configuration.consumer_timeout == 1_800_000
    assert (configuration.heartbeat, configuration.frame_max, configuration.channel_max) == (0, 65536, 10)
    assert configuration.handshake_timeout == 3
    assert configuration.loopback_users == ()
    assert configuration.ledger_queue
    assert configuration.event_queues == ("orders.#",)
    assert configuration.event_queue_bytes == 2 * 1024 * 1024
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
        ("consumer_timeout = -1", "consumer_timeout: -1 is not within 0 to 315360000000 milliseconds"),
        ('unknown_arguments = "take"', "unknown_arguments"),
        ("handshake_timeout = 0", "handshake_timeout: 0.0 is not within"),
        ('memory_limit = "much"', "memory_limit: 'much' is not an amount of memory"),
        ("memory_limit = 1", "memory_limit: 1 is not within"),
        ('body_budget = "all"', "body_budget: 'all' is not an amount of memory"),
        ("spill_limit = -1", "spill_limit: -1 is not within 0"),
        ("body_budget = 1000000", "body_budget: 1000000 is not within 1048576"),
        ('[listeners]\namqp = "off"', "listeners.amqp: the AMQP listener cannot be switched off"),
        ('[listeners]\nhttp = "h:x"', "listeners.http: 'h:x': port 'x' is not a number"),
        ('[users.a]\npassword_hash = "guest"', "users.a: password_hash is not an Argon2 hash"),
        (
            f'[users.a]\npassword_hash = "{HASH}"\npermissions."/" = {{ read = "(" }}',
            "users.a.permissions./.read: not a regular expression",
        ),
        (
            f'[users.a]\npassword_hash = "{HASH}"\npermissions."/" = {{ write = "a{{99999999999}}" }}',
            "users.a.permissions./.write: not a regular expression",
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


def test_definitions_are_read_with_their_source(tmp_path: Path) -> None:
    file = write(tmp_path, '[[queues]]\nname = "q"\narguments = { ring-size = 3 }\n[[addresses]]\nname = "a"')
    definitions = load(file).definitions
    assert definitions.source == str(file)
    assert [queue.arguments for queue in definitions.queues] == [{"ring-size": 3}]
    assert [address.name for address in definitions.addresses] == ["a"]


# ---------------------------------------------------------------------- TLS, limits, mechanisms


def test_tls_listeners_are_off_unless_asked_for_and_take_what_tls_says(tmp_path: Path) -> None:
    assert [getattr(load(), name) for name in ("amqps", "stomps", "https", "bulks")] == [None] * 4
    file = write(
        tmp_path,
        """
        [listeners]
        amqps = "0.0.0.0"
        https = ":0"
        [tls]
        certificate = "server.pem"
        key = "server.key"
        [tls.amqps]
        client_ca = "clients.pem"
        verify = "required"
        """,
    )
    configuration = load(file, {"listeners": {"stomps": "[::1]:7"}})
    assert str(configuration.amqps) == "0.0.0.0:5671"
    assert str(configuration.https) == "127.0.0.1:0"
    assert str(configuration.stomps) == "[::1]:7"
    assert configuration.bulks is None
    assert sorted(configuration.tls) == ["amqps", "https", "stomps"]
    assert configuration.tls["amqps"].verify == "required"
    assert configuration.tls["https"].verify == "none"


def test_a_tls_listener_without_certificate_names_the_setting(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"--amqps: the listener amqps needs tls.certificate: a PEM file"):
        load(None, {"listeners": {"amqps": ":0"}})
    file = write(tmp_path, '[listeners]\nhttps = ":1"\n[tls]\ncertificate = "c"\nkey = "k"\nverify = "optional"')
    with pytest.raises(ConfigurationError, match=r"listeners.https: the listener https verifies .* tls.client_ca"):
        load(file)
    file = write(tmp_path, '[tls]\nverify = "always"')
    with pytest.raises(ConfigurationError, match=r"tls.verify: .*known here: none, optional, required"):
        load(file)
    file = write(tmp_path, '[tls.amqps]\nminimum_versions = "x"')
    with pytest.raises(
        ConfigurationError, match=r"unknown setting 'tls.amqps.minimum_versions'; did you mean 'minimum_version'"
    ):
        load(file)


@pytest.mark.parametrize("name", RANGES)
def test_limits_are_checked_at_both_ends(tmp_path: Path, name: str) -> None:
    allowed = RANGES[name]
    kind = type(getattr(Limits(), name))
    others = "login_delay_first = 0\nlogin_delay_most = 60\n".replace(f"{name} = 0\n", "").replace(f"{name} = 60\n", "")
    for value in (kind(allowed.least), kind(allowed.most)):
        limits = load(write(tmp_path, f"[limits]\n{others}{name} = {value}")).limits
        assert getattr(limits, name) == value
    for value in (kind(allowed.least - 1), kind(allowed.most + 1)):
        with pytest.raises(ConfigurationError, match=rf"limits.{name}: {value} is not within .* {allowed.unit}"):
            load(write(tmp_path, f"[limits]\n{others}{name} = {value}"))


def test_every_limit_has_a_range() -> None:
    assert set(RANGES) == set(Limits.__struct_fields__)
    defaults = Limits()
    for name, allowed in RANGES.items():
        assert allowed.least <= getattr(defaults, name) <= allowed.most


def test_delays_in_the_wrong_order_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"login_delay_most: 1.0 is below login_delay_first, 2.0 seconds"):
        load(write(tmp_path, "[limits]\nlogin_delay_first = 2\nlogin_delay_most = 1"))


def test_mechanisms_are_known_names(tmp_path: Path) -> None:
    assert load(write(tmp_path, 'sasl_mechanisms = ["PLAIN"]')).sasl_mechanisms == ("PLAIN",)
    with pytest.raises(ConfigurationError, match="unknown mechanism 'PLAN'; did you mean 'PLAIN'"):
        load(write(tmp_path, 'sasl_mechanisms = ["PLAN"]'))
    with pytest.raises(ConfigurationError, match="sasl_mechanisms: empty; no client could log in"):
        load(write(tmp_path, "sasl_mechanisms = []"))


def test_scram_verifiers_of_users(tmp_path: Path) -> None:
    verifier = str(derive_verifier("SCRAM-SHA-256", "secret", iterations=4096))
    head = f'[users.alice]\npassword_hash = "{HASH}"\n'
    assert load(write(tmp_path, f'{head}scram_sha_256 = "{verifier}"')).users["alice"].scram == (verifier,)
    with pytest.raises(ConfigurationError, match=r"users.alice.scram_sha_512: the verifier is for SCRAM-SHA-256"):
        load(write(tmp_path, f'{head}scram_sha_512 = "{verifier}"'))
    with pytest.raises(ConfigurationError, match=r"users.alice.scram_sha_256: not MECHANISM.*annulet password-hash"):
        load(write(tmp_path, f'{head}scram_sha_256 = "secret"'))
