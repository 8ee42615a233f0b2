"""`app.open("ws://...", local=folder)`: what was not decided survives the program, and reads need no server."""

from __future__ import annotations

import asyncio
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import headwater as hw
from headwater.client import server_link as links
from headwater.client.client_folder import ClientFolder
from headwater.client.remote_storage import RemoteStorage
from headwater.client.server_link import ServerLink
from headwater.errors import (
    AccessError,
    CorruptError,
    OfflineError,
    RejectedError,
    SpaceHeldError,
    UnavailableError,
    UserCodeError,
)
from headwater.sync.frame_limits import OFFLINE_MAX
from tests.client.world import Behind, Counter, Program, behind, state_is, storage_of
from tests.server.running import DEADLINE_S, settle_in, until

CLIENT = """
import sys, time
import headwater as hw
url, token, folder, count = sys.argv[1:]
app = hw.App("counter")
cell = app.cell("count", 0)
space = app.open(url, token=token, actor="ann", local=folder)
print("open", cell.value, flush=True)
sys.stdin.readline()
for _ in range(int(count)):
    cell.value += 1
folder = space._opening._lease.storage._folder
folder.flush()
print("kept", cell.value, flush=True)
time.sleep(600)
"""

WRITER = """
import sys
import headwater as hw
url, token, folder = sys.argv[1:]
app = hw.App("killed")
entries = app.cell("entries", list[int]())
with app.open(url, token=token, actor="ann", local=folder) as space:
    folder = space._opening._lease.storage._folder
    number = len(entries.value)
    print(number, flush=True)
    while True:
        entries.append(number)
        folder.flush()
        print(number, flush=True)
        number += 1
"""


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Behind]:
    settle_in(tmp_path, monkeypatch)
    with behind(tmp_path / "store") as world:
        yield world


@pytest.mark.parametrize("is_heard", [True, False])
def test_commits_of_a_killed_program_are_decided_once_by_the_next(
    at: Behind, tmp_path: Path, *, is_heard: bool
) -> None:
    folder = tmp_path / "local"
    program = Program(CLIENT, at.url, at.token, str(folder), "25")
    assert program.line() == "open 0"
    # What it sends is on its way when it ends; or the server has it, and its answers are.
    at.proxy.freeze(not is_heard)
    program.say()
    assert program.line() == "kept 25"
    program.kill()
    at.proxy.freeze(False)
    counter = Counter()
    with counter.open(at, local=folder) as space:
        assert counter.shown == [25]
        assert space.connection.pending == space.connection.refused == 0
        counter.count.value += 1
        space.sync()
    other = Counter()
    with other.app.open(at.straight, actor="bob"):
        assert other.count.value == 26


@pytest.mark.slow
def test_a_program_that_is_killed_again_and_again_loses_nothing_that_was_kept(at: Behind, tmp_path: Path) -> None:
    app = hw.App("killed")
    entries = app.cell("entries", list[int]())
    kept = -1
    for turn in range(4):
        program = Program(WRITER, at.url, at.token, str(tmp_path / "local"))
        begin = int(program.line())
        assert begin > kept
        for _ in range(3 + turn):
            kept = int(program.line())
        if turn % 2:
            at.proxy.cut()
        program.kill()
    with app.open(at.straight, actor="bob"):
        entries.value  # noqa: B018  # it is fetched
    with app.open(at.url, token=at.token, actor="ann", local=tmp_path / "local") as space:
        assert space.connection.refused == 0
        assert entries.value == list(range(len(entries.value)))
        assert len(entries.value) > kept


def test_a_commit_is_visible_at_once_and_leaves_only_when_it_is_kept(
    at: Behind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = Counter()
    with counter.open(at, local=tmp_path / "local") as space:
        folder, session = storage_of(space)._folder, storage_of(space).link.session
        assert folder is not None
        folder.flush()
        write, release = folder._write_down, threading.Event()

        def slow(batch: Any) -> None:
            assert release.wait(DEADLINE_S)
            write(batch)

        monkeypatch.setattr(folder, "_write_down", slow)
        for _ in range(3):
            counter.count.value += 1
        assert counter.shown == [0, 1, 2, 3]
        assert session.pending == 0
        assert space.connection.pending == 3
        release.set()
        space.sync()
        assert space.connection.pending == 0


def test_a_full_disk_takes_back_what_cannot_be_kept_and_the_next_write_goes_on(
    at: Behind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = Counter()
    with counter.open(at, local=tmp_path / "local") as space:
        folder = storage_of(space)._folder
        assert folder is not None
        write = folder._write_down
        with monkeypatch.context() as full:

            def no_room(_: object) -> None:
                raise apsw.FullError("no room")

            full.setattr(folder, "_write_down", no_room)
            counter.count.value = 1
            with pytest.raises(RejectedError, match="no room"):
                space.sync()
        assert folder._write_down == write
        assert counter.shown == [0, 1, 0]
        counter.count.value = 2
        space.sync()
        assert counter.shown == [0, 1, 0, 2]
    with counter.open(at, local=tmp_path / "local"):
        assert counter.shown[-1] == 2


def test_commits_that_never_left_are_sent_by_the_next_program_and_only_then_does_it_start(
    at: Behind, tmp_path: Path
) -> None:
    folder = tmp_path / "local"
    counter = Counter()
    space = counter.open(at, local=folder)
    at.go_away()
    state_is(space, "offline")
    for _ in range(10):
        counter.count.value += 1
    space._opening.abandon()
    at.come_back()
    again = Counter()
    with again.open(at, local=folder) as opened:
        assert again.shown == [10]
        assert opened.connection.pending == 0
        assert opened.connection.refused == 0
    other = Counter()
    with other.app.open(at.straight, actor="bob"):
        assert other.count.value == 10


def test_a_program_is_opened_while_the_server_is_away_and_goes_on_when_it_is_back(at: Behind, tmp_path: Path) -> None:
    folder = tmp_path / "local"
    counter = Counter()
    with counter.open(at, local=folder) as space:
        counter.count.value = 7
        space.sync()
    at.go_away()
    again = Counter()
    with again.open(at, local=folder) as space:
        assert space.connection.state == "offline"
        assert again.count.value == 7
        again.count.value += 1
        assert hw.status(again.count) == "pending"
        assert again.shown == [7, 8]
        # Somebody else writes meanwhile, elsewhere.
        at.come_back()
        state_is(space, "live")
        space.sync()
        assert hw.status(again.count) == "confirmed"
        assert again.shown == [7, 8]


def test_a_server_that_takes_the_connection_and_says_nothing_is_not_waited_for_for_ever(
    at: Behind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "local"
    counter = Counter()
    with counter.open(at, local=folder) as space:
        counter.count.value = 7
        space.sync()
    at.proxy.freeze(True)
    monkeypatch.setattr(links, "CONNECT_S", 0.2)
    again = Counter()
    with again.open(at, local=folder) as space:
        assert space.connection.state == "connecting"
        assert not space.connection
        assert again.shown == [7]
        again.count.value += 1
        assert again.shown == [7, 8]
        at.proxy.freeze(False)
        state_is(space, "live")
        space.sync()
        assert space.connection.pending == 0


def test_what_was_written_while_it_was_away_and_before_it_was_closed_is_shown_and_sent_later(
    at: Behind, tmp_path: Path
) -> None:
    folder = tmp_path / "local"
    counter = Counter()
    with counter.open(at, local=folder) as space:
        counter.count.value = 7
        space.sync()
    at.go_away()
    for expected in (8, 9):
        again = Counter()
        opened = again.open(at, local=folder)
        assert again.shown == [expected - 1]
        again.count.value += 1
        opened._opening.abandon()
    at.come_back()
    last = Counter()
    with last.open(at, local=folder) as space:
        assert last.shown == [9]
        assert space.connection.pending == 0


def test_without_anything_kept_an_opening_says_that_nobody_answers(at: Behind, tmp_path: Path) -> None:
    at.go_away()
    with pytest.raises(OfflineError, match="no server answers"):
        Counter().open(at, local=tmp_path / "local")


def test_what_is_refused_when_it_is_sent_again_is_told_once(at: Behind, tmp_path: Path) -> None:
    folder = tmp_path / "local"
    counter = Counter()
    space = counter.open(at, local=folder)
    counter.count.value = 1
    space.sync()
    at.go_away()
    state_is(space, "offline")
    with space.transaction():
        counter.count.value += 10
    space._opening.abandon()
    other = Counter()
    with other.app.open(at.straight, actor="bob"):
        other.count.value = 5
    at.come_back()
    told: list[UserCodeError] = []
    again = Counter()
    with again.open(at, local=folder, on_error=told.append) as opened:
        assert again.shown == [5]
        assert opened.connection.refused == 1
        assert len(told) == 1
        assert "counter.count" in str(told[0])
    once_more = Counter()
    with once_more.open(at, local=folder, on_error=told.append) as opened:
        assert opened.connection.refused == 0
    assert len(told) == 1


def test_what_is_refused_after_it_was_shown_is_told_once_and_taken_back(at: Behind, tmp_path: Path) -> None:
    folder = tmp_path / "local"
    counter = Counter()
    space = counter.open(at, local=folder)
    counter.count.value = 1
    space.sync()
    at.go_away()
    state_is(space, "offline")
    with space.transaction():
        counter.count.value += 10
    space._opening.abandon()
    other = Counter()
    with other.app.open(at.straight, actor="bob"):
        other.count.value = 5
    told: list[UserCodeError] = []
    again = Counter()
    with again.open(at, local=folder, on_error=told.append) as opened:
        assert again.shown == [11]
        assert hw.status(again.count) == "pending"
        with opened.transaction():
            again.count.value += 100
        at.come_back()
        state_is(opened, "live")
        # What was written on top of it, and nobody waits for, is told where everything is that this program wrote.
        with pytest.raises(RejectedError):
            opened.sync()
        opened.sync()
        assert again.shown == [11, 111, 5]
        assert opened.connection.refused == len(told) == 1


def test_a_session_that_the_server_does_not_know_is_told_and_another_is_begun(at: Behind, tmp_path: Path) -> None:
    folder = tmp_path / "local"
    counter = Counter()
    space = counter.open(at, local=folder)
    at.go_away()
    state_is(space, "offline")
    counter.count.value = 3
    space._opening.abandon()
    assert at.server.spaces is not None
    at.server.spaces.proofs._secret = bytes(32)
    at.come_back()
    told: list[UserCodeError] = []
    again = Counter()
    with again.open(at, local=folder, on_error=told.append) as opened:
        assert again.shown == [0]
        assert opened.connection.refused == len(told) == 1
        again.count.value = 4
        opened.sync()
    once_more = Counter()
    with once_more.open(at, local=folder):
        assert once_more.shown == [4]


def test_commits_on_their_way_to_the_folder_count_once(
    at: Behind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = Counter()
    space = counter.open(at, local=tmp_path / "local")
    storage = storage_of(space)
    storage.link.session._offline_max = 5
    folder = storage._folder
    assert folder is not None
    at.go_away()
    state_is(space, "offline")
    folder.flush()
    write, release = folder._write_down, threading.Event()

    def slow(batch: Any) -> None:
        assert release.wait(DEADLINE_S)
        write(batch)

    monkeypatch.setattr(folder, "_write_down", slow)
    for number in range(5):
        counter.count.value += 1
        # Some are being written, others wait for that.
        assert space.connection.pending == number + 1
    for is_released in (False, True):
        with pytest.raises(OfflineError, match=r"HW405: 5 commits wait") as caught:
            counter.count.value += 1
        assert caught.value.facts["waiting"] == space.connection.pending == 5
        if not is_released:
            release.set()
            until(lambda: storage.link.session.pending == 5, "they are kept")
    space.close()


def test_who_is_not_let_in_keeps_what_is_kept(at: Behind, tmp_path: Path) -> None:
    folder = tmp_path / "local"
    counter = Counter()
    space = counter.open(at, local=folder)
    at.go_away()
    state_is(space, "offline")
    counter.count.value = 3
    space._opening.abandon()
    at.come_back()
    with pytest.raises(AccessError):
        Counter().app.open(at.url, token=f"hw_{'x' * 43}", actor="ann", local=folder)
    again = Counter()
    with again.open(at, local=folder) as opened:
        assert again.shown == [3]
        assert opened.connection.refused == 0


def test_an_opening_that_has_nothing_to_send_waits_for_nothing_but_the_server(
    at: Behind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Counter().open(at, local=tmp_path / "local"):
        pass
    monkeypatch.setattr(links, "PATIENCE_S", 600.0)
    monkeypatch.setattr(links, "LOOK_S", 600.0)
    with Counter().open(at, local=tmp_path / "local") as space:
        assert space.connection


def test_two_openings_of_one_folder_are_refused(at: Behind, tmp_path: Path) -> None:
    folder = tmp_path / "local"
    program = Program(CLIENT, at.url, at.token, str(folder), "1")
    assert program.line() == "open 0"
    program.say()
    assert program.line() == "kept 1"
    try:
        with pytest.raises(SpaceHeldError, match=rf"process {program.pid}"):
            Counter().open(at, local=folder)
    finally:
        program.kill()
    with Counter().open(at, local=folder), pytest.raises(SpaceHeldError, match="of this process"):
        Counter().open(at, local=folder)
    with Counter().open(at, local=folder):
        pass


def test_what_is_no_folder_is_told(at: Behind, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UnavailableError, match="cannot be a folder"):
        Counter().open(at, local=tmp_path / "file")
    folder = tmp_path / "local"
    with Counter().open(at, local=folder):
        (path,) = folder.glob("*.replica")
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(CorruptError):
        Counter().open(at, local=folder)


def test_a_folder_that_cannot_be_written_when_it_is_opened_is_told_and_can_be_opened_later(
    at: Behind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "local"
    with Counter().open(at, local=folder):
        pass
    configure = ClientFolder._configure

    def read_only(self: ClientFolder, db: apsw.Connection) -> None:
        configure(self, db)
        db.execute("pragma query_only = 1")

    with monkeypatch.context() as patched:
        patched.setattr(ClientFolder, "_configure", read_only)
        with pytest.raises(UnavailableError, match="cannot write"):
            Counter().open(at, local=folder)
    with Counter().open(at, local=folder) as space:
        assert space.connection


def test_in_an_event_loop_it_is_the_same(at: Behind, tmp_path: Path) -> None:
    async def count(expected: list[int], *, away: bool) -> None:
        counter = Counter()
        opening = counter.app.aopen(at.url, token=at.token, actor="ann", local=tmp_path / "local")
        space = await opening.__aenter__()
        assert counter.shown == expected[:1]
        counter.count.value += 1
        await space.idle()
        if away:
            # As if it were killed.
            await asyncio.to_thread(space._opening.abandon)
        else:
            await space.close()
        assert counter.shown == expected

    asyncio.run(count([0, 1], away=False))
    at.go_away()
    asyncio.run(count([1, 2], away=True))
    at.come_back()
    asyncio.run(count([2, 3], away=False))


def test_an_event_loop_that_ends_while_the_server_is_away_does_not_ask_again_and_again(
    at: Behind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[None] = []
    wait = RemoteStorage.wait

    def counted(self: RemoteStorage, timeout: float | None = None) -> None:
        asked.append(None)
        wait(self, timeout)

    async def main() -> None:
        counter = Counter()
        async with counter.app.aopen(at.url, token=at.token, actor="ann", local=tmp_path / "local") as space:
            at.go_away()
            while space.connection:  # noqa: ASYNC110  # there is no event for it
                await asyncio.sleep(0.01)
            counter.add.send(1)
            await space.idle()
            monkeypatch.setattr(RemoteStorage, "wait", counted)

    asyncio.run(main())
    assert len(asked) < 10


def test_other_actors_apps_and_spaces_have_files_of_their_own(at: Behind, tmp_path: Path) -> None:
    folder = tmp_path / "local"
    with (
        Counter().open(at, local=folder),
        Counter().app.open(at.url, token=at.token, actor="bob", local=folder),
        hw.App("other").open(at.url, token=at.token, actor="ann", local=folder),
    ):
        files = sorted(folder.glob("*.replica"))
        assert len(files) == 3
        assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)


def test_the_outbox_is_bounded_and_says_so(at: Behind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[ServerLink] = []
    init = ServerLink.__init__

    def small(self: ServerLink, *args: object, **options: object) -> None:
        init(self, *args, **options)  # type: ignore[arg-type]
        self.session._offline_max = 5
        made.append(self)

    monkeypatch.setattr(ServerLink, "__init__", small)
    counter = Counter()
    space = counter.open(at, local=tmp_path / "local")
    at.go_away()
    state_is(space, "offline")
    for _ in range(5):
        counter.count.value += 1
    until(lambda: made[-1].session.pending == 5, "they are kept")
    with pytest.raises(OfflineError, match="5 commits wait"):
        counter.count.value += 1
    assert counter.count.value == 5
    at.come_back()
    state_is(space, "live")
    counter.count.value += 1
    space.close()
    assert OFFLINE_MAX > 5


def test_who_writes_faster_than_a_connected_server_decides_waits_for_it(at: Behind) -> None:
    counter = Counter()
    with counter.open(at) as space:
        session = storage_of(space).link.session
        session._offline_max = 5
        for _ in range(100):
            counter.count.value += 1
            assert session.pending <= 5
        space.sync()
        assert counter.shown == list(range(101))


def test_a_commit_leaves_the_file_together_with_what_it_came_to(at: Behind, tmp_path: Path) -> None:
    folder = tmp_path / "local"
    counter = Counter()
    with counter.open(at, local=folder) as space:
        counter.count.value = 1
        kept = storage_of(space)._folder
        assert kept is not None
        kept.flush()
        rows = kept._db.execute("select count(*) from outbox").get
        value = kept._db.execute("select value from docs where doc like '%count'").get
        # Taken in or not: never neither.
        assert (rows, value is not None) in {(1, False), (0, True)}
        space.sync()
        kept.flush()
        assert kept._db.execute("select count(*) from outbox").get == 0
        path = kept.path
    assert path.exists()
    again = ClientFolder(folder, "shop", f"ws://127.0.0.1:{at.proxy.port}", "main", "counter", "ann")
    try:
        found = again.load()
        assert not found.outbox
        assert found.docs
        assert found.last == 1
    finally:
        again.close()
