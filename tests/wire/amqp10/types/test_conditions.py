from __future__ import annotations

from annulet.wire.amqp10.types import conditions


def test_conditions_are_those_of_the_standard() -> None:
    named = {name: value for name, value in vars(conditions).items() if name.isupper()}
    by_prefix = {"CONNECTION": "amqp:connection:", "SESSION": "amqp:session:", "LINK": "amqp:link:",
                 "TRANSACTION": "amqp:transaction:"}  # fmt: skip
    for name, value in named.items():
        prefix = by_prefix.get(name.split("_")[0], "amqp:")
        rest = name if prefix == "amqp:" else name.split("_", 1)[1]
        assert value == prefix + rest.lower().replace("_", "-")
    # §2.8.15 has 13, §2.8.16 three, §2.8.17 four, §2.8.18 five, §4.5.8 three
    assert len(named) == len(set(named.values())) == 13 + 3 + 4 + 5 + 3
