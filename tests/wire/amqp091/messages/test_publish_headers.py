from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.wire.amqp091.messages.properties import BasicProperties, encode_properties
from annulet.wire.amqp091.messages.publish_headers import NOTHING, TIME_MAX, PublishHeaders, read_publish_headers
from annulet.wire.amqp091.types.errors import ChannelError, RemoteProtocolError
from annulet.wire.amqp091.types.values import Timestamp, encode_table

NAMES = [
    "x-delay", "x-deliver-at", "_AMQ_SCHED_DELIVERY", "x-qpid-not-valid-before", "x-schedule-id", "_AMQ_DUPL_ID",
    "x-duplicate-id", "CC", "BCC", "JMSXGroupSeq", "x-group-sequence",
]  # fmt: skip


def header(headers: dict[str, Any] | None, content_type: str | None = "text/plain") -> bytes:
    properties = BasicProperties()
    properties.content_type = content_type
    properties.headers = headers
    properties.delivery_mode = 2
    return encode_properties(properties)


def read(**headers: Any) -> PublishHeaders:
    return read_publish_headers(header({name.replace("__", "-"): value for name, value in headers.items()}))


def as_dictionary(found: PublishHeaders) -> dict[str, Any]:
    """Return the fields by name; compiled classes have no ``__slots__`` to list them."""
    names = [name for name in dir(found) if not name.startswith("_") and name != "due_at"]
    return {name: getattr(found, name) for name in names}


@pytest.mark.parametrize(
    "headers", [None, {}, {"a": 1}, {"x-other": {"x-delay": 5}}, {"": 1}, {"CCC": [], "x": "x-delay"}]
)
def test_without_any_of_the_names_nothing_is_made(headers: dict[str, Any] | None) -> None:
    assert read_publish_headers(header(headers)) is NOTHING
    assert read_publish_headers(header(headers, None)) is NOTHING


def test_all_names_in_one_pass() -> None:
    found = read(
        before=1, x__delay=500, x__deliver__at=10**12, x__schedule__id="s", x__duplicate__id="d", CC=["a", "b"],
        BCC=["c"], JMSXGroupSeq=-1, x__schedule__cancel=True, x__death=[{"queue": "q"}],
        x__extend__delivery=7, after="z",
    )  # fmt: skip
    assert as_dictionary(found) == {
        "bcc": ("c",), "cancels": True, "cc": ("a", "b"), "delay": 500, "deliver_at": 10**12, "duplicate_id": "d",
        "deaths_given": True, "extends": 7, "group_sequence": -1, "schedule_id": "s",
    }  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_heard_and_leaves_the_others_at_their_defaults(name: str) -> None:
    value: Any = ["k"] if "CC" in name else "id" if "id" in name.lower() and "valid" not in name else 7
    found = as_dictionary(read_publish_headers(header({name: value})))
    defaults = as_dictionary(NOTHING)
    changed = {field for field in found if found[field] != defaults[field]}
    assert len(changed) == 1


@pytest.mark.parametrize("name", ["_AMQ_SCHED_DELIVERY", "x-qpid-not-valid-before", "x-deliver-at"])
def test_a_timestamp_counts_in_seconds(name: str) -> None:
    assert read_publish_headers(header({name: Timestamp(1_700_000_000)})).deliver_at == 1_700_000_000_000


@pytest.mark.parametrize(
    ("value", "expected"), [("1500", 1500), (1500.0, 1500), (-5, 0), ("-5", 0), (0, 0), (2**40, 2**40)]
)
def test_delays_as_clients_write_them(value: Any, expected: int) -> None:
    assert read(x__delay=value).delay == expected


def test_the_latest_of_several_times_counts() -> None:
    assert read(x__deliver__at=5, _AMQ_SCHED_DELIVERY=9, x__qpid__not__valid__before=7).deliver_at == 9
    found = read(x__deliver__at=1000, x__delay=50)
    assert [found.due_at(accepted) for accepted in (0, 950, 951, 2000)] == [1000, 1000, 1001, 2050]
    assert NOTHING.due_at(123) == 0


def test_of_names_that_mean_the_same_the_first_counts() -> None:
    assert read(_AMQ_DUPL_ID="first", x__duplicate__id="second").duplicate_id == "first"
    assert read(x__duplicate__id="first", _AMQ_DUPL_ID="second").duplicate_id == "first"
    fields = encode_table({"x-delay": 1})[4:] + encode_table({"x-delay": 2})[4:]
    doubled = b"\x20\x00" + len(fields).to_bytes(4, "big") + fields
    assert read_publish_headers(doubled).delay == 1


def test_a_cancellation_names_what_it_cancels() -> None:
    assert read(x__schedule__cancel=True, x__schedule__id="s").cancels
    assert not read(x__schedule__cancel=False, x__schedule__id="s").cancels
    assert not read(x__schedule__cancel=False).cancels
    for headers in ({"x-schedule-cancel": True}, {"x-schedule-cancel": True, "x-schedule-id": ""}):
        with pytest.raises(
            ChannelError, match="invalid header 'x-schedule-cancel': True; give the name of the message"
        ):
            read_publish_headers(header(headers))


def test_octets_of_a_duplicate_id_are_hexadecimal_digits() -> None:
    assert read(_AMQ_DUPL_ID=b"\x00\xff").duplicate_id == "00ff"


WRONG = [
    ("x-delay", "soon"), ("x-delay", True), ("x-delay", None), ("x-delay", 1.5), ("x-delay", float("nan")),
    ("x-delay", float("inf")), ("x-delay", [1]), ("x-delay", TIME_MAX + 1), ("x-delay", ""), ("x-delay", "9" * 20),
    ("x-delay", "\u0663"), ("x-deliver-at", -1), ("x-deliver-at", TIME_MAX + 1), ("_AMQ_SCHED_DELIVERY", "tomorrow"),
    ("x-deliver-at", Timestamp(2**63)), ("x-qpid-not-valid-before", {}), ("x-schedule-id", 5),
    ("x-schedule-id", b"\xff"), ("x-schedule-cancel", "true"), ("x-schedule-cancel", 1), ("x-schedule-cancel", None),
    ("x-schedule-id", "\u00e9" * 128), ("_AMQ_DUPL_ID", 5), ("x-duplicate-id", "d" * 256),
    ("_AMQ_DUPL_ID", b"\xff" * 256), ("CC", "key"), ("CC", ["a", 1]), ("BCC", {"a": "b"}), ("BCC", ["k" * 256]),
    ("JMSXGroupSeq", "first"), ("JMSXGroupSeq", 2**31), ("x-group-sequence", False),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), WRONG, ids=repr)
def test_wrong_values_are_refused_by_name_value_and_remedy(name: str, value: Any) -> None:
    with pytest.raises(ChannelError) as caught:
        read_publish_headers(header({"x-schedule-id": "kept", name: value} if "sched" not in name else {name: value}))
    assert caught.value.code == 406
    assert f"'{name}'" in caught.value.text
    assert ascii(value)[:20] in caught.value.text
    assert "; give " in caught.value.text
    assert len(caught.value.text) < 256


@pytest.mark.parametrize(("name", "value"), WRONG, ids=repr)
def test_what_is_in_the_broker_already_is_read_without_them(name: str, value: Any) -> None:
    encoded = header({name: value, "BCC" if name != "BCC" else "CC": ["k"]})
    found = as_dictionary(read_publish_headers(encoded, strict=False))
    assert found.pop("bcc" if name != "BCC" else "cc") == ("k",)
    assert not any(found.values())


@pytest.mark.parametrize(
    ("name", "value"),
    [("x-delay", TIME_MAX), ("x-deliver-at", TIME_MAX), ("x-schedule-id", "s" * 255), ("_AMQ_DUPL_ID", b"d" * 255),
     ("CC", ["k" * 255]), ("JMSXGroupSeq", 2**31 - 1), ("JMSXGroupSeq", -(2**31))],
)  # fmt: skip
def test_limits_allow_exactly_their_size(name: str, value: Any) -> None:
    assert read_publish_headers(header({name: value})) is not NOTHING


def test_every_cut_is_a_syntax_error_and_every_changed_octet_a_protocol_error_or_a_value() -> None:
    encoded = header({"a": 1, "x-delay": 5, "CC": ["k"], "_AMQ_DUPL_ID": "d"})
    table_end = len(encoded) - 1  # delivery mode stands behind it
    for size in range(table_end):
        with pytest.raises(RemoteProtocolError) as caught:
            read_publish_headers(encoded[:size])
        assert caught.value.code == 502
    for place in range(len(encoded)):
        for octet in (0x00, 0x01, 0x53, 0x7F, 0x80, 0xFF):
            changed = encoded[:place] + bytes([octet]) + encoded[place + 1 :]
            try:
                read_publish_headers(changed)
            except RemoteProtocolError as error:
                assert error.code in {406, 502}  # noqa: PT017 - any other exception fails the test


@given(
    st.binary(max_size=60).map(lambda fields: b"\x20\x00" + len(fields).to_bytes(4, "big") + fields)
    | st.binary(max_size=60)
)
def test_no_octets_make_it_fail_otherwise(data: bytes) -> None:
    for strict in (True, False):
        try:
            read_publish_headers(data, strict=strict)
        except RemoteProtocolError as error:
            assert error.code in ({406, 502} if strict else {502})  # noqa: PT017 - as above


@given(
    st.dictionaries(
        st.text(max_size=9).filter(lambda name: name not in NAMES) | st.sampled_from(NAMES[4:7]),
        st.text(max_size=9),
        max_size=5,
    )
)
def test_it_finds_what_decoding_everything_finds(headers: dict[str, str]) -> None:
    found = read_publish_headers(header(headers))
    assert found.schedule_id == headers.get("x-schedule-id", "")
    expected = [value for name, value in headers.items() if name in NAMES[5:7]]
    assert found.duplicate_id == (expected[0] if expected else "")
