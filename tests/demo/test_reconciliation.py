from __future__ import annotations

import dataclasses
from typing import Any

import pandas as pd
import pytest

from annulet.demo import expected
from annulet.demo.consuming import Taken
from annulet.demo.reconciliation import Observed, account_of, differing_columns, kinds, reconcile
from annulet.demo.topology import ORIGINS, board
from annulet.demo.what_if import AS_IT_IS, BY_DESTINATION, OTHER_RING, Trial

DELAY_MESSAGES = 5


def queue(name: str, added: int, kept: int, **removed: int) -> dict[str, Any]:
    reasons = {reason.replace("_", "-"): count for reason, count in removed.items()}
    return {"name": name, "messages_added": added, "message_count": kept, "delivering_count": 0, "removed": reasons}


@pytest.fixture
def seen(frame: pd.DataFrame) -> Observed:
    """Return what a run without any defect sees."""
    total = len(frame)
    frame["carrier"] = ["AA", "DL", "AA", "UA", "DL", "DL"]
    frame["dep_delay"] = pd.array([61, 15, 180, None, 14, 0], dtype="Int64")
    queues = [
        *[queue(board(origin), *[expected.departures_from(frame, origin)] * 2) for origin in ORIGINS],
        queue("aircraft", total, 4, replaced_key=total - 4),
        queue("archive", total, 0, acknowledged=total),
        queue("statistics", total, 0, acknowledged=total),
        queue("delays", DELAY_MESSAGES, 3, replaced_key=2),
        *[queue(name, count, 0, acknowledged=count) for name, count in {"late": 2, "schedule": 2, "legs": 3}.items()],
    ]
    return Observed(
        confirmed=total,
        accounts={item["name"]: account_of(item, kinds()[item["name"]], 0) for item in queues},
        boards={origin: expected.board_rows(frame, origin) for origin in ORIGINS},
        aircraft=expected.aircraft_rows(frame),
        delays=expected.delays(frame),
        archive=frame.assign(row=range(total)),
        delay_messages=DELAY_MESSAGES,
        losses=4,
        partitions=expected.partition_counts(frame),
        late=[2, 0],
        schedule=[0, 2],
        legs=[Taken(0, 1, "N2"), Taken(1, 5, "N1"), Taken(0, 4, None)],
        trials=[
            *[Trial(board(origin), AS_IT_IS, count, count) for origin, count in {"EWR": 3, "JFK": 2, "LGA": 1}.items()],
            Trial("board.LGA", OTHER_RING, 1, 1),
            Trial("board.LGA", BY_DESTINATION, 1, 1),
        ],
    )


def mismatches(frame: pd.DataFrame, seen: Observed) -> list[str]:
    return [check.subject for check in reconcile(frame, seen) if not check.fits]


def test_a_run_without_defect_fits(frame: pd.DataFrame, seen: Observed) -> None:
    assert mismatches(frame, seen) == []
    assert len(reconcile(frame, seen)) > 70


def test_every_queue_has_its_books(seen: Observed) -> None:
    assert list(seen.accounts) == list(kinds())
    assert all(account.unaccounted == 0 for account in seen.accounts.values())


@pytest.mark.parametrize(
    ("field", "value", "subject"),
    [
        ("confirmed", 5, "publisher: messages confirmed"),
        ("aircraft", [0, 3, 4, 5], "aircraft: the last departure of each aircraft"),
        ("aircraft", [1, 3, 4, 5, 5], "aircraft: the last departure of each aircraft"),
        ("delay_messages", 6, "delays: added"),
        ("losses", 3, "loss ledger: losses recorded"),
        ("delays", {}, "delays: slots"),
        ("partitions", {}, "Parquet: partitions by month and origin"),
        ("late", [0, 2], "late: the longest delayed first, in order"),
        ("schedule", [2, 0], "schedule: by scheduled time, in order"),
        ("legs", [], "legs: aircraft whose flights came in order"),
        (
            "legs",
            [Taken(0, 1, "N2"), Taken(1, 1, "N2"), Taken(1, 5, "N1")],
            "legs: aircraft that had more than one consumer",
        ),
        ("legs", [Taken(0, 1, "N2"), Taken(0, 5, "N1")], "legs: consumers that got flights"),
        ("trials", [], "board.LGA replayed: last of each destination"),
        ("trials", [Trial("board.LGA", OTHER_RING, 1, 0, {"expired": 1})], "board.LGA replayed: ring of 1,000"),
    ],
)
def test_each_defect_is_found(frame: pd.DataFrame, seen: Observed, field: str, value: object, subject: str) -> None:
    setattr(seen, field, value)

    assert subject in mismatches(frame, seen)


def test_a_board_in_another_order_is_found(frame: pd.DataFrame, seen: Observed) -> None:
    seen.boards["EWR"].reverse()

    assert mismatches(frame, seen) == ["board.EWR: exactly the last 3 departures, in order"]


def test_one_lost_message_is_found_in_books_and_files(frame: pd.DataFrame, seen: Observed) -> None:
    archive = seen.accounts["archive"]
    seen.accounts["archive"] = dataclasses.replace(archive, acknowledged=archive.acknowledged - 1)
    seen.archive = seen.archive.iloc[1:]

    found = mismatches(frame, seen)

    assert {"archive: acknowledged", "archive: unaccounted", "Parquet: rows", "Parquet: different messages"} <= set(
        found
    )


def test_one_doubled_message_is_found(frame: pd.DataFrame, seen: Observed) -> None:
    seen.archive = pd.concat([seen.archive.iloc[:-1], seen.archive.iloc[:1]], ignore_index=True)

    assert "Parquet: different messages" in mismatches(frame, seen)


def test_a_missing_queue_is_found(frame: pd.DataFrame, seen: Observed) -> None:
    del seen.accounts["aircraft"]

    assert "aircraft: queue exists" in mismatches(frame, seen)


def test_a_loss_for_another_reason_is_found(frame: pd.DataFrame, seen: Observed) -> None:
    seen.accounts["aircraft"] = dataclasses.replace(seen.accounts["aircraft"], dropped={"expired": 2})

    assert mismatches(frame, seen) == ["aircraft: dropped by reason"]


def test_differing_columns_are_named(frame: pd.DataFrame) -> None:
    archive = frame.assign(row=range(len(frame)))
    archive.loc[2, "dep_delay"] = 21
    archive.loc[4, "tailnum"] = "N9"  # was missing

    assert differing_columns(frame, archive) == ["dep_delay", "tailnum"]


def test_missing_values_equal_missing_values_of_another_kind(frame: pd.DataFrame) -> None:
    archive = frame.assign(
        row=range(len(frame)), tailnum=frame["tailnum"].astype(object).where(frame["tailnum"].notna())
    )
    archive["dep_delay"] = archive["dep_delay"].astype("float64")  # how Spark hands over integers with gaps

    assert differing_columns(frame, archive.sample(frac=1, random_state=1)) == []


def test_a_check_as_json_says_whether_it_fits(frame: pd.DataFrame, seen: Observed) -> None:
    check = reconcile(frame, seen)[0]

    assert check.as_dict() == {
        "subject": "publisher: messages confirmed", "expected": 6, "actual": 6, "detail": "", "of_books": False,
        "fits": True,
    }  # fmt: skip
