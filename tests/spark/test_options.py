"""Options of the format: defaults, and errors that name the option, its value and the remedy."""

from __future__ import annotations

import pytest

from annulet.bulk.protocol.schema import COLUMNS
from annulet.spark.options import (
    BYTES_PER_TRIGGER,
    MESSAGES_PER_TRIGGER,
    PARTITIONS,
    PARTITIONS_MAX,
    READ_OPTIONS,
    WRITE_OPTIONS,
    OptionError,
    ReadOptions,
    WriteOptions,
)

URL = "annulet://user:secret@broker:9000/tests"


def read(**options: str) -> ReadOptions:
    return ReadOptions.parse({"url": URL, "queue": "q", **options})


def write(**options: str) -> WriteOptions:
    return WriteOptions.parse({"url": URL, **options})


def test_defaults_of_a_read() -> None:
    options = read()
    assert (options.queue, options.lease, options.on_existing) == ("q", None, "fail")
    assert (options.messages_max, options.bytes_max, options.partitions) == (
        MESSAGES_PER_TRIGGER, BYTES_PER_TRIGGER, PARTITIONS,
    )  # fmt: skip
    assert (options.fail_on_data_loss, options.columns, options.retry_seconds) == (True, COLUMNS, 60.0)
    assert (options.url.user, options.url.host, options.url.port) == ("user", "broker", 9000)


def test_defaults_of_a_write() -> None:
    options = write()
    assert (options.address, options.exchange, options.routing_key, options.write_id) == (None, None, None, None)
    assert (options.persistent, options.mandatory, options.retry_seconds) == (True, True, 60.0)


def test_the_ways_to_split_a_batch() -> None:
    assert (read().by_group, read(partitionBy="position").by_group, read(partitionBy="group").by_group) == (
        False, False, True,
    )  # fmt: skip
    with pytest.raises(OptionError, match="partitionBy: 'key' is unknown; choose position or group"):
        read(partitionBy="key")


def test_the_ways_to_choose_columns() -> None:
    assert set(COLUMNS) - set(read(includeBody="false", includeHeaders="false").columns) == {"body", "properties"}
    assert read(columns="body, position").columns == ("body", "position")
    with pytest.raises(OptionError, match="option columns: column 'bdy' is unknown; did you mean 'body'"):
        read(columns="bdy")
    with pytest.raises(OptionError, match="option columns: columns body, body: one is named twice"):
        read(columns="body,body")
    with pytest.raises(OptionError, match="columns names 'body', which another option leaves out"):
        read(columns="body", includeBody="false")


def test_a_stream_may_take_nothing() -> None:
    assert (read().non_destructive, read(nonDestructive="true").non_destructive) == (False, True)


def test_names_in_any_case_as_spark_hands_them_over() -> None:
    options = read(MAXMESSAGESPERTRIGGER="5", failondataloss="FALSE", OnExistingLease="resume")
    assert (options.messages_max, options.fail_on_data_loss, options.on_existing) == (5, False, "resume")
    assert write(ROUTINGKEY="k").routing_key == "k"


def test_sparks_own_options_pass() -> None:
    read(path="x", queryName="n")
    write(checkpointLocation="/tmp/c", queryName="n", outputMode="append")


@pytest.mark.parametrize(
    ("name", "near"), [("maxMesagesPerTrigger", "maxMessagesPerTrigger"), ("queu", "queue"), ("leases", "lease")]
)
def test_a_misspelt_option_is_answered_with_the_nearest(name: str, near: str) -> None:
    with pytest.raises(OptionError, match=f"'{name.lower()}' is unknown; did you mean '{near}'"):
        read(**{name: "1"})


def test_an_option_like_none_is_answered_with_all() -> None:
    with pytest.raises(OptionError, match=f"is unknown; the options of a write are {', '.join(WRITE_OPTIONS)}"):
        write(zzzzzzzz="1")


@pytest.mark.parametrize("name", sorted(set(WRITE_OPTIONS) - set(READ_OPTIONS)))
def test_options_of_a_write_do_not_belong_to_a_read(name: str) -> None:
    with pytest.raises(OptionError, match=f"'{name.lower()}' does not belong to a read"):
        read(**{name: "true"})


@pytest.mark.parametrize("name", sorted(set(READ_OPTIONS) - set(WRITE_OPTIONS)))
def test_options_of_a_read_do_not_belong_to_a_write(name: str) -> None:
    with pytest.raises(OptionError, match=f"'{name.lower()}' does not belong to a write"):
        write(**{name: "true"})


@pytest.mark.parametrize(
    ("name", "least"), [("maxMessagesPerTrigger", 1), ("maxBytesPerTrigger", 1), ("retrySeconds", 0)]
)
def test_numbers_have_a_least(name: str, least: int) -> None:
    read(**{name: str(least)})
    with pytest.raises(OptionError, match=f"option {name}: {least - 1} is out of range; give at least {least}"):
        read(**{name: str(least - 1)})
    for text in ("many", "1.5", "1 000"):
        with pytest.raises(OptionError, match=f"option {name}: {text!r} is not a whole number"):
            read(**{name: text})


@pytest.mark.parametrize("number", [0, PARTITIONS_MAX + 1])
def test_partitions_have_a_range(number: int) -> None:
    assert [read(partitions=str(count)).partitions for count in (1, PARTITIONS_MAX)] == [1, PARTITIONS_MAX]
    with pytest.raises(OptionError, match=f"option partitions: {number} is out of range; give 1 to {PARTITIONS_MAX}"):
        read(partitions=str(number))


@pytest.mark.parametrize("name", ["failOnDataLoss", "includeBody"])
def test_flags_are_true_or_false(name: str) -> None:
    with pytest.raises(OptionError, match=f"option {name}: 'yes' is neither true nor false"):
        read(**{name: "yes"})


def test_missing_and_empty_options() -> None:
    with pytest.raises(OptionError, match=r"option url is missing: the broker's address, annulet://"):
        ReadOptions.parse({"queue": "q"})
    with pytest.raises(OptionError, match=r'option queue is missing.*\.option\("queue", \.\.\.\)'):
        ReadOptions.parse({"url": URL})
    for name in ("queue", "lease"):
        with pytest.raises(OptionError, match=f"option {name}: the value is empty; leave the option out instead"):
            read(**{name: ""})


def test_an_unknown_way_to_treat_an_existing_lease_is_answered_with_the_known_ones() -> None:
    with pytest.raises(OptionError, match="option onExistingLease: 'steal' is unknown; choose fail, resume, release"):
        read(onExistingLease="steal")


def test_batches_of_a_write_are_numbered_under_its_id() -> None:
    assert (write(address="a").write_batch, write(address="a", writeId="w", writeBatch="7").write_batch) == (0, 7)
    with pytest.raises(OptionError, match="option writeBatch numbers the batches of a writeId, which is missing"):
        write(address="a", writeBatch="7")
    with pytest.raises(OptionError, match="option writeBatch: -1 is out of range; give at least 0"):
        write(address="a", writeId="w", writeBatch="-1")


def test_address_and_exchange_exclude_each_other_and_may_be_the_default_exchange() -> None:
    options = write(exchange="", routingKey="")
    assert (options.exchange, options.routing_key) == ("", "")
    with pytest.raises(OptionError, match="options address and exchange exclude each other"):
        write(address="a", exchange="")


@pytest.mark.parametrize("name", ["asyncProgressTrackingEnabled", "asyncprogresstrackingenabled"])
def test_asynchronous_progress_is_refused_because_it_is_not_exactly_once(name: str) -> None:
    write(**{name: "false"})
    with pytest.raises(OptionError, match=r"asyncProgressTrackingEnabled: .*exactly once"):
        write(**{name: "true"})


def test_options_never_show_the_password() -> None:
    assert "secret" not in repr(read())
    assert "secret" not in repr(write())
