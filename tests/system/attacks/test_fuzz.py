"""Frames by the hundred thousand that are none. HEADWATER_FUZZ=1000000 has more of them, HEADWATER_SEED others.

In one process through the server's side of a connection, and over sockets against a server in a process of its own.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from headwater.access.access_control import AccessControl
from headwater.access.rights import Right
from headwater.errors import AccessError
from headwater.host.system_clock import SystemClock
from headwater.store.collection_record import CollectionRecord, Index, user_prefix
from headwater.store.commit import Commit, Committed, NewObservation, SetDoc, encode_operations
from headwater.store.index_field import IndexField
from headwater.sync.frames import (
    FromServer,
    Open,
    Ping,
    Pong,
    Pull,
    SpaceOpened,
    Unwatch,
    Watch,
    WatchSpan,
    encode_frame,
)
from headwater.sync.server_port import Question, ServerPort
from headwater.sync.server_session import Close, ServerSession, ServerState
from headwater.sync.span_watches import WatchedSpan
from headwater.values.ids import MAIN, DocKey, Seq, SessionId
from tests.server.running import ServeProcess, settle_in
from tests.support.halves import examples
from tests.system.attacks.mutants import HELLO, mutants, odd_websocket
from tests.system.attacks.raw import ClosedError, Raw
from tests.system.attacks.served import doc

COUNT = int(os.environ.get("HEADWATER_FUZZ", "200000"))
IN_FULL = COUNT >= 1_000_000
OVER_SOCKETS, WARM_UP, GROWTH_MAX = (50_000, 75_000, 1.05) if IN_FULL else (8_000, 8_000, 1.1)
"""Frames, those before memory is looked at, and by how much it may grow then: an allocator needs a while to settle."""
SEED = int(os.environ.get("HEADWATER_SEED", "1"))
OWN = ("space/", "user:ann/", "session:ann:s/")
RECORDS = {
    "order": CollectionRecord("order", indexes=(Index((IndexField("state"),)),)),
    "draft": CollectionRecord("draft", "user"),
}
CODES = {Close.PROTOCOL, Close.FORBIDDEN, 1000}


class FuzzDesk:
    """Takes everything, and looks at whether it may have been asked for."""

    head = Seq(5)

    def __init__(self) -> None:
        self.code = 0
        self.sent = 0
        self.talk = ServerSession(self._typed(), server="s", audience="a", nonce=bytes(32), limits={})
        self.submitted = 0

    def _typed(self) -> ServerPort:
        return self

    def send(self, frame: FromServer) -> None:
        self.sent += 1
        encode_frame(frame)

    def close(self, code: int, reason: str) -> None:
        assert len(reason.encode()) <= 120
        self.code = code

    @property
    def knows_rights(self) -> bool:
        return True

    has_rules = False
    has_roles = False

    def may_read(self, kind: str) -> bool:  # noqa: ARG002
        return True

    def may_change(self, kind: str) -> bool:  # noqa: ARG002
        return True

    def may(self, right: str) -> bool:
        return right in ("read", "write")

    def open(self, asked: Open) -> None:
        # As if whatever was shown was good: what comes after that is the point here.
        self.talk.opened(SpaceOpened(asked.space, SessionId("s"), b"", self.head, "ann", "write"), MAIN)

    def submit(self, commit: Commit, notes: tuple[NewObservation, ...], *, force: bool) -> None:  # noqa: ARG002
        self.submitted += 1
        encode_operations(commit.operations)
        assert commit.session == "s"
        assert commit.local_seq > 0
        assert all(operation.doc.startswith(OWN) for operation in commit.operations)
        assert all(note.doc.startswith(OWN) for note in notes)
        self.talk.judged(1)

    def note(self, notes: tuple[NewObservation, ...], gone: tuple[DocKey, ...]) -> None:
        assert all(each.startswith(OWN) for each in (*gone, *(note.doc for note in notes)))

    def collection(self, kind: str) -> CollectionRecord | None:
        return RECORDS.get(kind)

    def unspan(self, numbers: tuple[int, ...]) -> None:
        for number in numbers:
            self.talk.spans.pop(number, None)

    def look(self, asked: Question) -> None:
        if isinstance(asked, WatchSpan):
            assert asked.lo < asked.hi
            assert asked.index.startswith("order#") or asked.lo.startswith(user_prefix("ann"))
            self.talk.spans[asked.number] = WatchedSpan(asked.number, asked.index, asked.lo, asked.hi, asked.docs > 0)
        if isinstance(asked, Watch | Pull):
            assert all((each if isinstance(each, str) else each[0]).startswith(OWN) for each in asked.docs)
            assert all(prefix.startswith(OWN) for prefix in asked.prefixes)
        self.talk.answered()

    def unwatch(self, asked: Unwatch) -> None:
        pass

    def denied(self, asked: str, error: AccessError) -> None:
        asking = ("transact", "watch", "pull", "span", "kept?", "changed?")
        assert (asked, error.code) in {(each, "HW403") for each in asking}

    def left(self) -> None:
        pass


OPEN = encode_frame(Open("home", actor="ann"))


def fresh(rng: random.Random) -> FuzzDesk:
    """Mostly in a space; some have not come that far."""
    desk = FuzzDesk()
    far = rng.randrange(10)
    if far:
        desk.talk.receive(HELLO)
    if far > 1:
        desk.talk.receive(OPEN)
        assert desk.talk.state is ServerState.OPEN
    return desk


@pytest.mark.property
def test_whatever_comes_is_answered_or_ends_the_connection() -> None:
    seed, count = SEED, examples(COUNT)
    rng = random.Random(seed)
    desk, sessions, submitted = fresh(rng), 0, 0
    for number, frame in zip(range(count), mutants(rng), strict=False):
        try:
            desk.talk.receive(frame)
        except Exception as error:  # noqa: BLE001  # whatever it is
            pytest.fail(f"HEADWATER_SEED={seed}, frame {number}, {frame!r} in {desk.talk.state}: {error!r}")
        if desk.talk.state is ServerState.OVER:
            assert desk.code in CODES, f"HEADWATER_SEED={seed}, frame {number}, {frame!r}: closed with {desk.code}"
            assert desk.sent, "it is said why"
            submitted += desk.submitted
            desk = fresh(rng)
            sessions += 1
        else:
            assert not desk.code
    # The generator is not blind: much is refused, and some is taken.
    assert sessions > count // 3
    assert submitted + desk.submitted > count // 100


# --- over sockets ---------------------------------------------------------------------------------------------


def rss_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


def storm(port: int, token: str, rng: random.Random, count: int) -> None:
    """So many frames, some dozens on each connection."""
    making = mutants(rng)
    while count > 0:
        try:
            raw = Raw.into(port, token, "home")
        except ClosedError:
            continue
        size = rng.randint(10, 60)
        count -= size
        with raw:
            data = b"".join(odd_websocket(rng, next(making)) for _ in range(size))
            try:
                raw.line.sendall(data)
                if rng.random() < 0.5:
                    raw.line.settimeout(0.2)
                    raw.closed()
            except (OSError, AssertionError):
                continue


@pytest.mark.slow
def test_a_server_outlives_whatever_comes_and_serves_others_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle_in(tmp_path, monkeypatch)
    store = tmp_path / "store"
    store.mkdir(mode=0o700)
    access = AccessControl(store, SystemClock())
    token, _ = access.create(space="home", can=Right.OWN, actor="ann")
    honest, _ = access.create(space="home", can=Right.OWN, actor="bob")
    rng = random.Random(SEED)
    with ServeProcess(store) as server:
        with Raw.into(server.port, honest, "home") as other:
            storm(server.port, token, rng, WARM_UP)
            before = rss_kib(server.pid)
            for number in range(1, 11):
                storm(server.port, token, rng, OVER_SOCKETS // 10)
                assert isinstance(other.write(number, SetDoc(doc("mine", "user:bob"), number)), Committed)
            other.say(Ping(1))
            other.expect(Pong)
            after = rss_kib(server.pid)
        assert after < before * GROWTH_MAX, f"HEADWATER_SEED={SEED}: {before:,} KiB became {after:,}"
        with Raw.into(server.port, token, "home") as again:
            again.say(Ping(2))
            again.expect(Pong)
        server.end()
        assert server.wait() == 0
    assert not [line for line in server.lines if "Traceback" in line], "\n".join(server.lines)


def test_a_seed_has_the_same_frames_each_time() -> None:
    one, other = (list(zip(range(100), mutants(random.Random(SEED)), strict=False)) for _ in range(2))
    assert one == other
