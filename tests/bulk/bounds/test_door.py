"""The door of bulk transfer: who comes in, how many, and how they leave. Rows pass it in the tests of the server."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import resource
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from annulet.broker.network.unfinished import Unfinished
from annulet.broker.security.authentication import User
from annulet.broker.settings.configuration import LOOPBACK, Endpoint
from annulet.broker.settings.limits import Limits
from annulet.bulk.bounds import door
from annulet.bulk.bounds.arriving import TOLD_BYTES
from annulet.bulk.bounds.door import Door, Watcher
from annulet.bulk.bounds.http2_frames import DATA, END_STREAM, GOAWAY, HEADERS, PREFACE
from annulet.bulk.bounds.message_meter import COPIES, STRANGER_STREAMS_MAX, STREAMS_MAX
from annulet.bulk.protocol import protocol
from annulet.bulk.protocol.errors import OverLimitError, UnavailableError
from tests.bulk.bounds.test_http2_frames import frame
from tests.bulk.helpers import bench, bulk_client


class Scene:
    """A door with a server behind it that keeps what comes, and what the broker would be told."""

    def __init__(self, **limits: int) -> None:
        self.limits: list[str] = []
        self.refused: list[str] = []
        self.timed_out: list[str] = []
        self.received = bytearray()
        self.writers: list[asyncio.StreamWriter] = []
        self.held: dict[str, int] = {}
        watcher = Watcher(
            self.limits.append, self.refused.append, lambda peer, _: self.timed_out.append(peer), self.hold
        )
        self.door = Door(Limits(**limits), 30.0, watcher)
        self.port = 0

    def hold(self, figures: dict[Unfinished, int], taken: Callable[[], None]) -> None:
        self.held |= {connection.name: held for connection, held in figures.items()}
        taken()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65_536):
                self.received += data
        writer.close()

    async def until(self, count: int) -> None:
        while len(self.received) < count:  # noqa: ASYNC110 - told by another thread
            await asyncio.sleep(0.001)

    def name(self) -> str:
        """What Flight would call the newest connection."""
        return f"unix:{self.writers[-1].get_extra_info('peername')}"


@contextlib.asynccontextmanager
async def scene(**limits: int) -> AsyncIterator[Scene]:
    made = Scene(**limits)
    server = await asyncio.start_unix_server(made.serve, made.door.server_path)
    try:
        made.port = await made.door.listen(Endpoint(LOOPBACK, 0), "bulk", "--bulk", None)
        async with asyncio.timeout(30):
            yield made
    finally:
        await made.door.close()
        for writer in made.writers:  # the door has ended its side, and the end may not have been read yet
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
        server.close()


async def connect(made: Scene) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(LOOPBACK, made.port)


async def gone(made: Scene) -> None:
    """Return when every connection has ended at both sides."""
    while made.door.admission.connections:  # noqa: ASYNC110 - told by another thread
        await asyncio.sleep(0.001)
    for writer in made.writers:
        await writer.wait_closed()


async def test_only_so_much_passes_before_the_login_and_all_after_it() -> None:
    async with scene(max_unauthenticated_bytes=4096) as made:
        kept = await connect(made)  # a reader that is let go of ends its connection
        writer = kept[1]
        sent = PREFACE + frame(HEADERS, bytes(10_000))
        writer.write(sent)
        await made.until(4096)
        await asyncio.sleep(0.02)
        assert len(made.received) == 4096
        peer = made.door.peer_of(made.name())
        assert peer is not None
        assert peer.is_loopback
        assert peer.port == writer.get_extra_info("sockname")[1]
        made.door.logged_in(made.name(), User("ann"))
        made.door.logged_in("unix:/nobody", User("ann"))
        await made.until(len(sent))
        writer.write(frame(HEADERS, bytes(100_000), stream=3))
        await made.until(len(sent) + 100_009)
        assert bytes(made.received[: len(sent)]) == sent
        assert made.door.peer_of("unix:/nobody") is None
        writer.close()


async def test_only_so_many_calls_pass_before_the_login_and_all_after_it() -> None:
    async with scene() as made:
        kept = await connect(made)  # a reader that is let go of ends its connection
        writer = kept[1]
        first = PREFACE + b"".join(frame(HEADERS, b"h", stream=2 * one + 1) for one in range(STRANGER_STREAMS_MAX))
        sent = first + b"".join(frame(HEADERS, b"more", stream=2 * one + 1) for one in range(STRANGER_STREAMS_MAX, 200))
        writer.write(sent)
        await made.until(len(first) + 9)
        await asyncio.sleep(0.02)
        assert len(made.received) == len(first) + 9
        made.door.logged_in(made.name(), User("ann"))
        await made.until(len(sent))
        assert bytes(made.received) == sent
        writer.close()
        await gone(made)


async def test_running_calls_are_bounded_until_their_handlers_end() -> None:
    async with scene() as made:
        kept = await connect(made)  # a reader that is let go of ends its connection
        kept[1].write(PREFACE)
        await made.until(len(PREFACE))
        with contextlib.ExitStack() as calls:
            for _ in range(STREAMS_MAX):
                calls.enter_context(made.door.running(made.name()))
            with pytest.raises(OverLimitError, match="more than 256 calls") as caught, made.door.running(made.name()):
                pass
            assert caught.value.limit == "bulk_streams_max"
        with made.door.running(made.name()):
            pass
        with pytest.raises(UnavailableError, match="has ended"), made.door.running("unix:/gone"):
            pass
        kept[1].close()
        await gone(made)


async def test_a_refused_client_is_told_why() -> None:
    async with scene() as made:
        reader, writer = await connect(made)
        writer.write(b"GET / HTTP/1.1\r\n\r\n" + bytes(100_000))
        answer = await reader.readexactly(9 + 9 + 8 + 10)
        assert answer[9 + 3] == GOAWAY
        assert (await reader.read()).endswith(b"which Arrow Flight uses")
        writer.close()
        assert made.limits == ["bulk_frames"]
        assert made.received == b""


async def test_connections_are_bounded_and_counted() -> None:
    async with scene(max_connections=2, max_connections_per_user=1) as made:
        writers, readers = [], []  # a reader that is let go of ends its connection
        for _ in range(2):
            reader, writer = await connect(made)
            writer.write(PREFACE)
            await made.until(len(PREFACE) * (len(writers) + 1))
            made.door.logged_in(made.name(), User(f"user {len(writers)}"))
            writers.append(writer)
            readers.append(reader)
        reader, writer = await connect(made)
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        assert made.refused == ["max_connections"]
        writers.pop().close()
        while made.door.admission.connections > 1:  # noqa: ASYNC110 - told by another thread
            await asyncio.sleep(0.001)
        reader, writer = await connect(made)
        writer.write(PREFACE)
        await made.until(3 * len(PREFACE))
        made.door.logged_in(made.name(), User("user 0"))
        assert b"max_connections_per_user" in await reader.read()
        assert made.refused == ["max_connections", "max_connections_per_user"]
        for one in (writer, *writers):
            one.close()
        while made.door.admission.connections:  # noqa: ASYNC110 - told by another thread
            await asyncio.sleep(0.001)
        assert made.door.admission.handshakes == 0


async def test_what_is_in_hand_is_told_until_the_server_answers() -> None:
    async with scene() as made:
        reader, writer = await connect(made)
        writer.write(PREFACE + frame(HEADERS, b"h"))
        await made.until(len(PREFACE) + 10)
        made.door.logged_in(made.name(), User("ann"))
        size = 4 * TOLD_BYTES
        rows = bytes((0,)) + size.to_bytes(4, "big") + b"\xc2\x3e\xfb\xff\xff\x01" + bytes(size - 6)
        for place in range(0, len(rows), 16_384):
            writer.write(frame(DATA, rows[place : place + 16_384]))
        name = "{}:{}".format(*writer.get_extra_info("sockname"))
        while made.held.get(name, 0) <= COPIES * size - TOLD_BYTES:  # noqa: ASYNC110 - told by another thread
            await asyncio.sleep(0.001)
        assert made.held[name] <= COPIES * size
        made.writers[-1].write(frame(HEADERS, b"answer", END_STREAM))
        await reader.readexactly(9 + 6)
        while made.held[name]:  # noqa: ASYNC110 - told by another thread
            await asyncio.sleep(0.001)
        writer.close()


async def test_the_connection_that_the_account_refuses_is_told_why() -> None:
    async with scene() as made:
        reader, writer = await connect(made)
        writer.write(PREFACE)
        await made.until(len(PREFACE))
        (relay,) = made.door.relays()
        relay.refuse_unfinished("too much is unfinished (max_unfinished_bytes)")
        assert (await reader.read()).endswith(b"too much is unfinished (max_unfinished_bytes)")
        assert made.limits == ["max_unfinished_bytes"]
        writer.close()


async def test_what_ends_at_one_side_ends_at_the_other() -> None:
    async with scene() as made:
        reader, writer = await connect(made)
        writer.write(PREFACE)
        await made.until(len(PREFACE))
        made.writers[-1].write(frame(HEADERS, b"answer"))
        made.writers[-1].close()
        assert await reader.read() == frame(HEADERS, b"answer")
        writer.close()
        await made.door.close_listeners()
        with pytest.raises(ConnectionError):
            await connect(made)


async def test_a_reader_that_is_slow_holds_the_server_up() -> None:
    async with scene() as made:
        reader, writer = await connect(made)
        writer.write(PREFACE)
        await made.until(len(PREFACE))
        answer = frame(HEADERS, bytes(2**23))
        server = made.writers[-1]
        server.write(answer)
        await asyncio.sleep(0.05)
        assert server.transport.get_write_buffer_size() > 0, "the door does not keep it all"
        assert await reader.readexactly(len(answer)) == answer
        writer.close()


async def test_a_server_that_is_slow_holds_the_client_up() -> None:
    async with scene() as made:
        blocked = asyncio.Event()

        async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            made.writers.append(writer)
            await blocked.wait()
            made.received += await reader.readexactly(len(PREFACE) + 9 + 2**23)
            writer.close()

        made.serve = slow  # type: ignore[method-assign]
        Path(made.door.server_path).unlink()  # noqa: ASYNC240 - in a test
        server = await asyncio.start_unix_server(slow, made.door.server_path)
        kept = await connect(made)
        writer = kept[1]
        while not made.writers:  # noqa: ASYNC110 - told by another thread
            await asyncio.sleep(0.001)
        made.door.logged_in(made.name(), User("ann"))
        sent = PREFACE + frame(HEADERS, bytes(2**23))
        writer.write(sent)
        await asyncio.sleep(0.05)
        assert writer.transport.get_write_buffer_size() > 0, "the door does not keep it all"
        blocked.set()
        await made.until(len(sent))
        assert bytes(made.received) == sent
        writer.close()
        server.close()


async def test_nothing_is_left_of_a_door() -> None:
    async with scene() as made:
        directory = Path(made.door.server_path).parent
        assert directory.stat().st_mode & 0o077 == 0, "for this user only"
        kept = await connect(made)  # a reader that is let go of ends its connection
        writer = kept[1]
        writer.write(PREFACE)
        await made.until(len(PREFACE))
        assert [path.name for path in directory.iterdir()] == ["flight"], "names of connections leave no file"
    writer.close()
    assert not directory.exists()


@pytest.mark.parametrize(
    ("soft", "most"), [(1024, 64), (16_000, 1000), (1 << 20, 1000), (resource.RLIM_INFINITY, 1000)]
)
def test_fewer_connections_where_few_files_may_be_open(soft: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, soft))
    assert door.connections_max() == most


async def test_calls_come_from_the_clients_address(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        here.declare("q")
        client = bulk_client(here)
        await asyncio.to_thread(client.act, protocol.OpenBrowse(queue="q"))
        relays = here.service._door.relays()
        assert [(relay.user, relay.opened, relay.peer.address) for relay in relays] == [("guest", True, LOOPBACK)]
        client.close()


async def test_a_connection_leaves_no_reference_cycle() -> None:
    """A9: asyncio's transports hold a bound method of themselves; both of each connection stayed until a collection."""
    async with scene() as made:
        gc.collect()
        gc.disable()
        try:
            for number in range(10):
                reader, writer = await asyncio.open_connection(LOOPBACK, made.port)
                writer.write(PREFACE if number % 2 else b"nonsense")
                if number % 2:
                    await made.until((number // 2 + 1) * len(PREFACE))
                else:
                    await reader.read(1)
                writer.close()
            while made.door.admission.connections or len(made.writers) < 5:  # noqa: ASYNC110 - told by another thread
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.1)
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            ours = (LOOPBACK, made.port), made.door.server_path  # else they are the test's own
            left = [
                thing
                for thing in gc.garbage
                if isinstance(thing, asyncio.Transport)
                and (thing.get_extra_info("sockname") == ours[0] or thing.get_extra_info("peername") == ours[1])
            ]
            kinds = {type(thing).__name__ for thing in gc.garbage} & {"Relay", "_ServerSide"}
        finally:
            gc.set_debug(0)
            gc.enable()
            gc.garbage.clear()
    assert not left
    assert not kinds
