"""Death, torn writes, lost unsynced bytes, and errors of the disk at every marked point of a whole broker.

The twin in the ordinary suite dies at the points that matter most. The long test goes through all points that a life
without faults meets, several times each, and lets every operation fail with EIO and ENOSPC, once and for ever.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from annulet.store.files.data_format import BACKUP_FILE, UNFINISHED_BACKUP, check_format
from annulet.store.files.errors import FormatError
from annulet.store.inspection.inspection import ERROR, WARNING, inspect
from tests.bulk.helpers import bench
from tests.crash.mortal_broker import DEFECT, ROUND, STOPPED, Order
from tests.crash.promises import Promises
from tests.crash.volatile_files import KILL, Fault

ROOT = Path(__file__).resolve().parent.parent.parent
KILLED = -9
STEPS = 60
STEPS_OF_TWIN = 26
DEATHS = 60

TWIN = (
    ("sync segment", 9),
    ("rename segment", 3),
    ("rename checkpoint", 1),
    ("history write", 5),
    ("publish mark", 1),
    ("lease range", 1),
)
"""Points the ordinary suite dies at, and at which occurrence."""

TWIN_OF_RECOVERY = (
    Fault("read checkpoint", 1, KILL),
    Fault("read segment", 1, "EIO"),
    Fault("sync unfinished checkpoint", 1, "EIO", for_ever=True),
    Fault("allocate segment", 1, "ENOSPC", for_ever=True),
)
"""What recoveries of the ordinary suite meet."""

TWIN_OF_BACKUP = (
    Fault("sync segment", 20, KILL),
    Fault("rename segment", 1, "EIO", for_ever=True),
    Fault("backup copied", 3, "ENOSPC"),
)
"""What a broker of the ordinary suite meets while a backup is copied."""

KINDS = ((KILL, False), ("EIO", False), ("EIO", True), ("ENOSPC", False), ("ENOSPC", True))
"""What can happen at a point, and whether it goes on."""

MET_LEAST = 0.7
"""Share of the faults of a long test that come at least."""

kinds = pytest.mark.parametrize(
    ("kind", "for_ever"), KINDS, ids=["death", "EIO-once", "EIO-for-ever", "ENOSPC-once", "ENOSPC-for-ever"]
)
BACKUP_ROUND = (*ROUND[:3], "backup_begin", *ROUND[3:], "backup_end")
"""A backup is copied during all of the round but its begin."""


class MortalBrokers:
    """Runs brokers, one at a time, and hears what they promise. ``met``: the faults that came."""

    def __init__(self) -> None:
        self.met: set[Fault] = set()
        source = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.mortal_broker"], cwd=ROOT, text=True,
            env={**os.environ, "PYTHONPATH": source}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def live(self, order: Order, promises: Promises) -> int:
        """Run one broker; return its exit code, ``KILLED`` when it died by the fault."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
        lines = []
        for text in process.stdout:
            line = json.loads(text)
            if line[0] == "exit":  # only now: if one of them is wrong, the next broker's are not behind them
                for each in lines:
                    promises.hear(each)
                return int(line[1])
            if line[0] == "fault":
                self.met.add(Fault(*order.fault))
            else:
                lines.append(line)
        raise AssertionError("the program that runs brokers ended")

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


def round_of(
    brokers: MortalBrokers,
    data: Path,
    fault: Fault,
    seed: int,
    steps: int = STEPS,
    *,
    plan: tuple[str, ...] = ROUND,
    must_die: bool = True,
    promises: Promises | None = None,
    restart: Fault | None = None,
    power: bool = False,
) -> Promises:
    """Let a broker live and meet the fault, start another one on what is left, and check what it finds.

    ``promises`` of rounds before on the same directory hold too. A broker between the two that has nothing to do but to
    recover meets ``restart``; ``points`` are its own then. ``power``: the databases lose what they did not sync, too.
    """
    promises = promises or Promises()
    data.parent.mkdir(exist_ok=True)
    order = Order(str(data), seed, promises.next_number, steps, list(plan), list(fault), promises.clients, power)
    codes, faults = [brokers.live(order, promises)], [fault]
    if restart is not None:
        promises.points.clear()
        codes.append(brokers.live(order._replace(first=promises.next_number, steps=0, fault=list(restart)), promises))
        faults.append(restart)
    log = data.with_name(f"{data.name}.log")
    assert DEFECT not in codes, log.read_text()
    assert set(codes) <= {0, KILLED}
    promises.crashed = any(code == KILLED and each.point != STOPPED for each, code in zip(faults, codes, strict=True))
    promises.forgets = power and promises.crashed
    disk_refused = any(fault.kind != KILL for fault in faults)
    found = inspect(data, int(time.time() * 1000))
    wrong = [finding for finding in found.findings if finding.severity in (ERROR, WARNING)]
    refused = promises.refusals > 0 or disk_refused
    look_at_backups(promises, refused=refused)
    if ["ready"] in promises.ended or promises.next_number:
        assert disk_refused or all(promises.expects(finding.code) for finding in wrong), wrong
        asyncio.run(look(data, promises, refused=refused))
    else:  # it never came so far as to take anything
        asyncio.run(look_at_nothing(data))
    for each, code in zip(faults, codes, strict=True):
        if each.kind == KILL and each.point and must_die:
            assert code == KILLED, f"{each} was not met"
    return promises


def look_at_backups(promises: Promises, *, refused: bool) -> None:
    """A finished backup keeps what was promised when it was taken; one that died is refused, or is whole."""
    for name, promised in promises.backups.items():
        directory = Path(name)
        if promised is not None:
            found = inspect(directory, int(time.time() * 1000))
            assert found.sound, found.findings
            asyncio.run(look(directory, promised, refused=refused))
        elif (directory / UNFINISHED_BACKUP).exists():
            with pytest.raises(FormatError, match="not finished"):
                check_format(directory)
        elif directory.exists():
            assert not any(directory.iterdir()) or check_format(directory) is not None
    promises.backups, promises.instants = {}, {}


async def look(data: Path, promises: Promises, *, refused: bool) -> None:
    async with bench(data, **promises.settings()) as here:
        await promises.verify(here, refused=refused)
        assert here.broker.log.report.corrupt_records == 0
        assert here.broker.log.report.lost_records == 0
        await promises.settle_accounts(here)


async def look_at_nothing(data: Path) -> None:
    async with bench(data) as here:
        assert all(queue.order.count == 0 for queue in here.host.queues.values())


@pytest.mark.parametrize(("point", "occurrence"), TWIN, ids=[point.replace(" ", "-") for point, _ in TWIN])
def test_every_promise_is_kept_after_death_at(
    brokers: MortalBrokers, tmp_path: Path, moments: random.Random, point: str, occurrence: int
) -> None:
    round_of(brokers, tmp_path / "data", Fault(point, occurrence), moments.getrandbits(32), STEPS_OF_TWIN)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_every_promise_is_kept_after_death_at_every_marked_point(
    brokers: MortalBrokers, tmp_path: Path, moments: random.Random
) -> None:
    census = round_of(brokers, tmp_path / "census", Fault(), 7)
    assert len(census.points) > 25, census.points
    for point in census.points:
        for occurrence in (1, 2, 3, moments.randint(4, 30)):
            data = tmp_path / f"{point.replace(' ', '-')}-{occurrence}"
            seed = moments.getrandbits(32)
            print(f"{point} {occurrence} seed {seed}")
            fault = Fault(point, occurrence)
            round_of(brokers, data, fault, seed, must_die=False)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("for_ever", [False, True], ids=["once", "for-ever"])
@pytest.mark.parametrize("kind", ["EIO", "ENOSPC"])
def test_every_promise_is_kept_when_the_disk_refuses(
    brokers: MortalBrokers, tmp_path: Path, moments: random.Random, kind: str, for_ever: bool
) -> None:
    points = round_of(brokers, tmp_path / "census", Fault(), 7).points
    assert len(points_for(points, kind)) > 20, points
    for most in (1, 12):
        folder = tmp_path / str(most)
        for fault, seed, data in faults_at(brokers, points, kind, most, moments, folder, for_ever=for_ever):
            round_of(brokers, data, fault, seed)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_many_deaths_of_one_directory(brokers: MortalBrokers, tmp_path: Path, moments: random.Random) -> None:
    """Each start recovers what the one before left of its own recovery."""
    points = list(round_of(brokers, tmp_path / "census", Fault(), 7).points)
    promises = Promises()
    for _ in range(DEATHS):
        fault, seed = Fault(moments.choice(points), moments.randint(1, 12)), moments.getrandbits(32)
        print(f"{fault.point} {fault.occurrence} seed {seed}")
        round_of(brokers, tmp_path / "data", fault, seed, must_die=False, promises=promises)


DATABASE_POINTS = {"catalogue change", "publish mark", "lease range", "history write", "stage written", "stage dropped"}
OPERATIONS = {"create", "open", "read", "write", "sync", "allocate", "truncate", "rename", "remove", "list", "backup"}


def points_for(points: Iterable[str], kind: str) -> list[str]:
    """Return where a disk can refuse: a broker dies anywhere, but no operation of its own begins or ends a window."""
    return [point for point in points if kind == KILL or point.split()[0] in OPERATIONS or point in DATABASE_POINTS]


def faults_at(
    brokers: MortalBrokers,
    points: Mapping[str, int],
    kind: str,
    most: int,
    moments: random.Random,
    tmp_path: Path,
    *,
    for_ever: bool,
) -> Iterator[tuple[Fault, int, Path]]:
    """Yield for each of the points that fit a fault, the first to ``most`` times it is met, a seed, and a folder.

    ``points`` says how often a life meets each. Another life meets some less often, but if less than ``MET_LEAST`` of
    the faults came, little was tested. Of what went well nothing is left on the disk.
    """
    tmp_path.mkdir(exist_ok=True)
    faults = [
        Fault(point, moments.randint(1, max(1, min(most, points[point] // 2))), kind, for_ever)
        for point in points_for(points, kind)
    ]
    brokers.met.clear()
    for fault in faults:
        seed = moments.getrandbits(32)
        print(f"{fault} seed {seed}")
        folder = tmp_path / fault.point.replace(" ", "-")
        yield fault, seed, folder
        for used in (folder, tmp_path / "attic"):
            shutil.rmtree(used, ignore_errors=True)
    met = sum(fault in brokers.met for fault in faults)
    print(f"{met} of {len(faults)} faults came")
    assert met >= MET_LEAST * len(faults), [fault for fault in faults if fault not in brokers.met]


def test_a_broker_that_dies_while_it_copies_itself(
    brokers: MortalBrokers, tmp_path: Path, moments: random.Random
) -> None:
    """The first backup is whole and the second one dies in the middle: neither costs the broker a promise."""
    plan = ("publish", "lease", "ring", "settle", "staged", "move", "later", "backup")
    files = 6  # of a backup at least: two databases, the log, its marker
    fault = Fault("backup copied", files + moments.randint(4, 8))
    round_of(brokers, tmp_path / "data", fault, moments.getrandbits(32), STEPS_OF_TWIN, plan=plan)
    assert len(list(tmp_path.glob(f"backup-*/{BACKUP_FILE}"))) >= 1


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_backups_under_death_and_refusal(brokers: MortalBrokers, tmp_path: Path, moments: random.Random) -> None:
    plan = (*ROUND[:6], "backup", *ROUND[6:])
    for number in range(DEATHS):
        kind = moments.choice([KILL, KILL, "EIO", "ENOSPC"])
        fault = Fault(moments.choice(["backup copied", "backup linked"]), moments.randint(1, 30), kind)
        seed = moments.getrandbits(32)
        print(f"{fault} seed {seed}")
        round_of(brokers, tmp_path / str(number) / "data", fault, seed, plan=plan, must_die=False)


@pytest.mark.parametrize("fault", TWIN_OF_BACKUP, ids=lambda fault: fault.point.replace(" ", "-"))
def test_every_promise_is_kept_when_it_goes_wrong_during_a_backup(
    brokers: MortalBrokers, tmp_path: Path, moments: random.Random, fault: Fault
) -> None:
    seed = moments.getrandbits(32)
    round_of(brokers, tmp_path / "data", fault, seed, STEPS_OF_TWIN, plan=BACKUP_ROUND)
    assert fault in brokers.met


@pytest.mark.soak
@pytest.mark.timeout(3600)
@kinds
def test_every_marked_point_during_a_backup(
    brokers: MortalBrokers, tmp_path: Path, moments: random.Random, kind: str, for_ever: bool
) -> None:
    census = round_of(brokers, tmp_path / "census" / "data", Fault(), 7, plan=BACKUP_ROUND)
    assert len(list((tmp_path / "census").glob(f"backup-*/{BACKUP_FILE}"))) > 2
    for fault, seed, folder in faults_at(brokers, census.points, kind, 12, moments, tmp_path, for_ever=for_ever):
        round_of(brokers, folder / "data", fault, seed, plan=BACKUP_ROUND, must_die=False)


@pytest.mark.parametrize("fault", TWIN_OF_RECOVERY, ids=lambda fault: fault.point.replace(" ", "-"))
def test_every_promise_is_kept_when_a_recovery_goes_wrong(
    brokers: MortalBrokers, tmp_path: Path, moments: random.Random, fault: Fault
) -> None:
    death = Fault("sync segment", 12)
    round_of(brokers, tmp_path / "data", death, moments.getrandbits(32), STEPS_OF_TWIN, restart=fault)
    assert fault in brokers.met


@pytest.mark.soak
@pytest.mark.timeout(3600)
@kinds
def test_every_marked_point_of_a_recovery(
    brokers: MortalBrokers, tmp_path: Path, moments: random.Random, kind: str, for_ever: bool
) -> None:
    """A recovery leaves what the next one can go on from, whatever it died of."""
    deaths = (Fault("sync segment", 25), Fault("remove segment", 2), Fault("rename checkpoint", 3))
    points: dict[str, int] = {}
    before: dict[str, Fault] = {}
    for number, death in enumerate(deaths):
        census = round_of(brokers, tmp_path / f"census-{number}", death, 7, restart=Fault(), must_die=False)
        for point, times in census.points.items():
            if point not in points or moments.random() < 0.5:
                points[point], before[point] = times, death
    assert len(points) > 25, points
    for fault, seed, folder in faults_at(brokers, points, kind, 3, moments, tmp_path, for_ever=for_ever):
        death = before[fault.point]
        print(f"after {death}")
        round_of(brokers, folder, death, seed, restart=fault, must_die=False)


def test_every_promise_is_kept_when_a_sync_fails(
    brokers: MortalBrokers, tmp_path: Path, moments: random.Random
) -> None:
    promises = round_of(brokers, tmp_path / "data", Fault("sync segment", 6, "EIO"), moments.getrandbits(32))
    assert promises.failures == 1, "after a failed sync only a restart knows what is on disk"
