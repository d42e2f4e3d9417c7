from __future__ import annotations

from annulet.spark.remembered_shards import RememberedShards


def test_the_shards_used_longest_ago_are_forgotten() -> None:
    remembered = RememberedShards[str](2)
    for name in ("a", "b"):
        remembered.keep(name, f"token {name}", name)
    remembered.keep("a", *remembered.take("a"))
    remembered.keep("c", "token c", "c")
    assert (len(remembered), remembered.take("b")) == (2, ("", None))
    assert remembered.take("a") == ("token a", "a")


def test_a_shard_that_was_taken_is_forgotten_until_it_is_kept() -> None:
    remembered = RememberedShards[str](2)
    remembered.keep("a", "1", "shard")
    assert remembered.take("a") == ("1", "shard")
    assert remembered.take("a") == ("", None)
    remembered.keep("a", "2", "shard")
    remembered.forget()
    assert len(remembered) == 0
