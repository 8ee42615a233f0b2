"""One byte of a file flipped, anywhere: what is read is what was written, or an error; never a default instead.

The write-ahead log likewise: what was acknowledged is there, or the space is refused.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from random import Random
from shutil import copyfile

import apsw
import pytest

from headwater.errors import CorruptError, PoisonedError
from headwater.store import portable
from headwater.store.backends import sqlite_schema
from headwater.store.backends.checksums import sum_of
from headwater.store.backends.sqlite import SqliteBackend
from headwater.store.backends.sqlite_file import FORMAT, explain
from headwater.store.branching import fork
from headwater.store.commit import Commit, SetDoc
from headwater.store.engine import Engine
from headwater.testing import SimClock
from headwater.values.address import doc_key
from headwater.values.ids import MAIN, BranchId, DocKey, LocalSeq, Seq, SessionId
from headwater.values.tree import freeze
from tests.store.test_formats import FIXTURES, SPACES
from tests.support.spaces import Space, admit, drop, edit, increment, put

KEYS = tuple(doc_key(f"bank.{name}") for name in ("balance", "other", "third", "gone", "few", *map(str, range(40))))


def lived_in(folder: Path) -> Path:
    """Documents that were set, patched, deleted and snapshotted; a branch; several sessions."""
    space = Space("sqlite", folder)
    ann, bob = space.writer("ann"), space.writer("bob")
    for number in range(40):
        ann.accept(put(f"bank.{number}", {"n": number, "text": "x" * 40}))
    ann.accept(put("bank.balance", {"n": 0}), put("bank.gone", 1))
    for number in range(60):
        ann.accept(edit("bank.balance", increment("n")))
        bob.accept(put("bank.other", number))
    bob.accept(drop("bank.gone"))
    ann.accept(put("bank.few", {"n": 0}))
    for _ in range(6):
        # So few that they are all read whenever the document is.
        ann.accept(edit("bank.few", increment("n")))
    space.engine.fold()
    fork(space.engine, space.clock, "draft")
    space.writer("cyd", "draft").accept(put("bank.third", 3))
    ann.accept(edit("bank.balance", increment("n")))
    space.engine.fold()
    space.close()
    return space.path


def seen(path: Path) -> dict[str, object]:
    """Everything that programs read: each document by its key, now and then, on both branches; and the listings."""
    backend = SqliteBackend(str(path), create=False)
    try:
        engine = Engine(backend, SimClock())
        found: dict[str, object] = {"head": engine.head}
        for branch in (MAIN, BranchId("draft")):
            for at in (Seq(166), engine.head):
                for key in KEYS:
                    value = engine.documents.at(branch, key, at).value
                    found[f"{branch} {at} {key}"] = repr(value)
            found[f"{branch} listed"] = [row.doc for row in backend.heads(branch, "space/bank.1", DocKey(""), 100)]
            found[f"{branch} exported"] = list(portable.export_documents(engine, "x", branch))
        for name in ("ann", "bob", "cyd"):
            last = backend.last_local(name)  # type: ignore[arg-type]
            found[name] = [last, [backend.replayed(name, number) for number in range(1, last + 1)]]  # type: ignore[arg-type]
        return found
    finally:
        backend.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lived_in(tmp_path_factory.mktemp("whole"))


@cache
def expected(path: Path) -> dict[str, object]:
    return seen(path)


def flipped(path: Path, folder: Path, offset: int, bit: int) -> Path:
    """A copy with one bit changed."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 1 << bit
    copy = folder / f"{offset}.db"
    copy.write_bytes(data)
    return copy


def check_flip(path: Path, folder: Path, offset: int, bit: int) -> str:
    """What comes of it; reads the same, or raises an error of ours."""
    copy = flipped(path, folder, offset, bit)
    try:
        assert seen(copy) == expected(path), f"bit {bit} of byte {offset} changes what is read"
    except CorruptError:
        return "refused"
    finally:
        copy.unlink()
    return "same"


def test_flipped_byte_anywhere_is_noticed_or_harmless(whole: Path, tmp_path: Path) -> None:
    random = Random(17)
    size = whole.stat().st_size
    outcomes = [check_flip(whole, tmp_path, random.randrange(size), random.randrange(8)) for _ in range(60)]
    assert set(outcomes) == {"refused", "same"}


def places_of(path: Path, text: bytes) -> list[int]:
    data = path.read_bytes()
    found, start = [], 0
    while (start := data.find(text, start)) >= 0:
        found.append(start)
        start += 1
    return found


@pytest.mark.parametrize("key", [b"space/bank.balance", b"space/bank.17", b"main", b"ann", b"folded", b"horizon"])
def test_flipped_byte_of_a_key_is_noticed_or_harmless(whole: Path, tmp_path: Path, key: bytes) -> None:
    places = places_of(whole, key)
    # Of the many in the log, a few.
    outcomes = [check_flip(whole, tmp_path, at + len(key) - 1, 0) for at in (*places[:4], *places[-6:])]
    assert "refused" in outcomes


TAMPERED = {
    "the key of a document": "update doc set key = 'space/bank.fev' where key = 'space/bank.few'",
    "the number of a document's head": "update head set doc = 9999 where doc = {doc}",
    "the branch of a head": "update head set branch = 77 where doc = {doc}",
    "the place of a head": "update head set seq = seq - 1 where doc = {doc}",
    "a revision in the middle": "delete from revision where doc = {doc} and seq = 166",
    "the newest revision": "delete from revision where doc = {doc} and seq = 169",
    "the number of a revision": "update revision set doc = 9999 where doc = {doc} and seq = 166",
    "the name of a branch": "update branch set name = 'maim' where name = 'main'",
    "how far the caches reach": "update meta set value = '3' where key = 'folded'",
    "whether it is known how far": "delete from meta where key = 'folded'",
}


@pytest.mark.parametrize("what", TAMPERED)
def test_damage_is_noticed_when_the_document_is_read(whole: Path, tmp_path: Path, what: str) -> None:
    copy = tmp_path / "space.db"
    copyfile(whole, copy)
    with apsw.Connection(str(copy)) as db:
        doc = db.execute("select id from doc where key = 'space/bank.few'").get
        db.execute(TAMPERED[what].format(doc=doc))
    db.close()
    with pytest.raises(CorruptError):
        read_few(copy)


@pytest.mark.parametrize(
    "change",
    [TAMPERED["the key of a document"], "update doc set sum = 17 where key = 'space/bank.few'"],
)
def test_damaged_key_is_not_taken_for_a_document_that_was_never_written(
    whole: Path, tmp_path: Path, change: str
) -> None:
    copy = tmp_path / "space.db"
    copyfile(whole, copy)
    with apsw.Connection(str(copy)) as db:
        db.execute(change)
    db.close()
    backend = SqliteBackend(str(copy), create=False)
    with pytest.raises(CorruptError):
        backend.never_written([doc_key("bank.new"), doc_key("bank.few")])
    backend.close()


def read_few(path: Path) -> object:
    backend = SqliteBackend(str(path), create=False)
    try:
        return Engine(backend, SimClock()).documents.at(MAIN, doc_key("bank.few"), Seq(2**63 - 1)).value
    finally:
        backend.close()


# --- the write-ahead log ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A space as a killed process leaves it: 40 transactions in the log, of several frames each."""
    folder = tmp_path_factory.mktemp("killed")
    backend = SqliteBackend(str(folder / "open.db"))
    engine = Engine(backend, SimClock())
    for number in range(1, 41):
        operation = SetDoc(doc_key("bank.balance"), freeze({"n": number, "text": "x" * 3000}))
        admit(engine, Commit(SessionId("ann"), LocalSeq(number), (operation,)))
    for suffix in ("", "-wal"):
        copyfile(f"{folder / 'open.db'}{suffix}", f"{folder / 'killed.db'}{suffix}")
    # Without the room behind the frames: the tests below find the end of the log by its size.
    log = folder / "killed.db-wal"
    log.write_bytes(log.read_bytes()[: 32 + backend._wal_pages * 4120])
    backend.close()
    return folder / "killed.db"


def opened_head(path: Path) -> int:
    backend = SqliteBackend(str(path), create=False)
    try:
        return Engine(backend, SimClock()).head
    finally:
        backend.close()


def copy_of(killed: Path, folder: Path) -> tuple[Path, Path]:
    copy, log = folder / "copy.db", folder / "copy.db-wal"
    copyfile(killed, copy)
    copyfile(f"{killed}-wal", log)
    return copy, log


def test_log_of_a_killed_space_is_read_to_its_end(killed: Path, tmp_path: Path) -> None:
    copy, _ = copy_of(killed, tmp_path)
    assert opened_head(copy) == 40


def test_flipped_byte_of_the_write_ahead_log_loses_no_acknowledged_commit_in_silence(
    killed: Path, tmp_path: Path
) -> None:
    random = Random(30)
    size = Path(f"{killed}-wal").stat().st_size
    last = last_transaction(Path(f"{killed}-wal"))
    refused = 0
    for offset in (*range(0, 32, 3), *sorted(random.randrange(32, size) for _ in range(40))):
        copy, log = copy_of(killed, tmp_path)
        data = bytearray(log.read_bytes())
        data[offset] ^= 1 << random.randrange(8)
        log.write_bytes(data)
        if offset >= last:
            # It may as well have been cut off by a power cut, before it was acknowledged.
            assert opened_head(copy) >= 39
            continue
        with pytest.raises(CorruptError, match="transactions after that were committed") as caught:
            opened_head(copy)
        # Nothing was changed by looking, and the message says how to go on without them.
        assert log.read_bytes() == data
        os.truncate(log, int(str(caught.value.facts["offset"])))
        assert opened_head(copy) < 40
        refused += 1
    assert refused > 30


def last_transaction(log: Path) -> int:
    """Where the last transaction of a log begins."""
    data = log.read_bytes()
    ends = [at for at in range(32, len(data), 4120) if data[at + 4 : at + 8] != bytes(4)]
    return ends[-2] + 4120


def test_transaction_that_was_cut_off_by_a_power_cut_is_no_damage(killed: Path, tmp_path: Path) -> None:
    """Its end is on the disk, and what comes before that is not: so it was not acknowledged."""
    copy, log = copy_of(killed, tmp_path)
    at = last_transaction(log)
    data = bytearray(log.read_bytes())
    assert len(data) - at >= 2 * 4120
    data[at : at + 4120] = bytes(4120)
    log.write_bytes(data)
    assert opened_head(copy) == 39


def write_and_cut(path: Path, begin: int, text: str, into: Path) -> int:
    """Copy a space after one more transaction and a power cut that lost its first frame. Returns where it ends."""
    backend = SqliteBackend(str(path), create=False)
    engine = Engine(backend, SimClock())
    operation = SetDoc(doc_key("bank.balance"), freeze({"text": text}))
    admit(engine, Commit(SessionId("ann"), LocalSeq(engine.head + 1), (operation,)))
    data = bytearray(Path(f"{path}-wal").read_bytes())
    copyfile(path, into)
    backend.close()
    data[begin : begin + 4120] = bytes(4120)
    Path(f"{into}-wal").write_bytes(data)
    return next(at for at in range(begin, len(data), 4120) if data[at + 4 : at + 8] != bytes(4))


def test_transactions_that_two_power_cuts_in_a_row_have_cut_off_are_no_damage(killed: Path, tmp_path: Path) -> None:
    """The second one begins where the first one did, and is shorter: the end of the first one must not be found."""
    copy, log = copy_of(killed, tmp_path)
    begin = log.stat().st_size
    once, twice = tmp_path / "once.db", tmp_path / "twice.db"
    first = write_and_cut(copy, begin, "x" * 20_000, once)
    second = write_and_cut(once, begin, "x" * 3000, twice)
    assert begin < second < first
    assert opened_head(twice) == 40


def test_log_whose_last_page_was_cut_off_after_a_damaged_transaction_is_opened(killed: Path, tmp_path: Path) -> None:
    """As by a full disk: whether that page follows the transaction cannot be seen."""
    copy, log = copy_of(killed, tmp_path)
    at = last_transaction(log)
    data = bytearray(log.read_bytes())[: at + 2004]
    ends = [end for end in range(32, at, 4120) if data[end + 4 : end + 8] != bytes(4)]
    data[ends[-2] + 4120 + 24] ^= 1
    log.write_bytes(data)
    assert opened_head(copy) == 38


def test_transaction_without_room_and_the_next_one_that_a_power_cut_has_cut_off_are_no_damage(
    killed: Path, tmp_path: Path
) -> None:
    """The next one is smaller and begins at the same place, so that the end of the first one is still there."""
    copy, log = copy_of(killed, tmp_path)
    at = last_transaction(log)
    data = bytearray(log.read_bytes())
    assert data[-4120 + 4 : -4120 + 8] != bytes(4)
    # The disk was full in the middle of its last page.
    del data[-2000:]
    # The end of the next one, whose page is lost.
    data[at : at + 24] = data[at - 4120 : at - 4120 + 24]
    log.write_bytes(data)
    assert opened_head(copy) == 39


def test_log_without_a_sync_for_each_commit_may_have_holes(killed: Path, tmp_path: Path) -> None:
    """So it was asked for with `durability="normal"`, and the file knows it."""
    copy, log = copy_of(killed, tmp_path)
    log.unlink()
    SqliteBackend(str(copy), durability="normal").close()
    backend = SqliteBackend(str(copy), durability="normal")
    engine = Engine(backend, SimClock())
    for number in range(1, 21):
        admit(engine, Commit(SessionId("bob"), LocalSeq(number), (put("bank.other", "x" * 3000),)))
    holed = tmp_path / "holed.db"
    copyfile(copy, holed)
    data = bytearray(log.read_bytes())
    data[32 + 4120 * 10 + 100] ^= 1
    Path(f"{holed}-wal").write_bytes(data)
    backend.close()
    assert 0 < opened_head(holed) < 20


@pytest.mark.parametrize(("code", "verb"), [(apsw.SQLITE_IOERR_READ, "reading"), (apsw.SQLITE_IOERR_FSYNC, "writing")])
def test_error_of_a_failed_disk_says_whether_it_read_or_wrote(code: int, verb: str, tmp_path: Path) -> None:
    told = explain(apsw.exception_for(code), str(tmp_path / "a.db"))
    assert isinstance(told, PoisonedError)
    assert f"the disk failed while {verb} {tmp_path}" in told.message


# --- a log that was copied to the file ----------------------------------------------------------------------------


def copied(folder: Path, *, restarts: bool) -> tuple[Path, Path]:
    """A space killed before a checkpoint, and the same one after it. The last transaction folds ten commits.

    Args:
        folder: For the files.
        restarts: Whether there was a checkpoint before that transaction, so that the log has no other.
    """
    backend = SqliteBackend(str(folder / "open.db"))
    engine = Engine(backend, SimClock())
    for number in range(1, 11):
        admit(engine, Commit(SessionId("ann"), LocalSeq(number), (put(f"bank.{number % 3}", number),)))
        if number in (3, 6):
            engine.fold()
    if restarts:
        backend._read("pragma wal_checkpoint(passive)")
    engine.fold()
    found = []
    for name in ("before.db", "after.db"):
        found.append(folder / name)
        for suffix in ("", "-wal"):
            copyfile(f"{folder / 'open.db'}{suffix}", f"{folder / name}{suffix}")
        backend._read("pragma wal_checkpoint(passive)")
    backend.close()
    return found[0], found[1]


def values(path: Path) -> list[object]:
    backend = SqliteBackend(str(path), create=False)
    try:
        engine = Engine(backend, SimClock())
        engine.fold()
        found: list[object] = [engine.head]
        for number in range(3):
            found += [engine.documents.at(MAIN, doc_key(f"bank.{number}"), Seq(at)).value for at in (5, 10)]
        return [*found, [row.doc for row in backend.heads(MAIN, "", DocKey(""), 100)]]
    finally:
        backend.close()


@pytest.mark.parametrize("restarts", [False, True])
def test_damaged_transaction_that_was_copied_to_the_file_is_noticed_or_harmless(
    tmp_path: Path, *, restarts: bool
) -> None:
    """SQLite does not read it from the log. Pages of it are in the file: next to older ones, that is no space."""
    before, after = copied(tmp_path, restarts=restarts)
    log = Path(f"{after}-wal").read_bytes()
    last = last_transaction(Path(f"{after}-wal")) if not restarts else 32
    end = max(at for at in range(32, len(log), 4120) if log[at + 8 : at + 16] == log[16:24]) + 4120
    old, new = before.read_bytes(), after.read_bytes()
    pages = sorted(at for at in range(0, len(new), 4096) if old[at : at + 4096] != new[at : at + 4096])
    expected, refused, kept = values(copy_of(after, tmp_path)[0]), 0, 0
    for count in range(len(pages) + 1):
        # A checkpoint copies pages in their order. It was interrupted after this one, or has ended.
        partly = bytearray(old)
        for at in pages[:count]:
            partly[at : at + 4096] = new[at : at + 4096]
        for offset in range(last, end, 1511):
            copy, copy_log = copy_of(after, tmp_path)
            copy.write_bytes(partly)
            damaged = bytearray(log)
            damaged[offset] ^= 16
            copy_log.write_bytes(damaged)
            try:
                assert values(copy) == expected
                kept += 1
            except CorruptError as error:
                # Nothing was changed by looking.
                assert copy_log.read_bytes() == damaged
                # Only without a copy, the rest can be cut off.
                assert count or "truncate -s" in str(error)  # noqa: PT017  # either is right
                refused += 1
    assert refused > 10
    assert kept > 10


# --- after a migration ------------------------------------------------------------------------------------------

EARLIER = tuple(name for name in SPACES if not name.startswith(f"format-{FORMAT}"))


def test_damaged_log_of_a_space_that_was_just_migrated_is_noticed(tmp_path: Path) -> None:
    """The file itself is of this format by then: else the damaged log would hide that commits were stored after it."""
    for name in EARLIER:
        path = tmp_path / f"{name}.db"
        copyfile(FIXTURES / f"{name}.db", path)
        assert_flipped_bits_are_noticed(path, tmp_path)


def test_damaged_log_is_noticed_although_a_kill_interrupted_the_migration(tmp_path: Path) -> None:
    """It was on disk, and not yet in the file itself."""
    for name in EARLIER:
        path = tmp_path / f"{name}.db"
        migrated_in_the_log(FIXTURES / f"{name}.db", path)
        assert_flipped_bits_are_noticed(path, tmp_path)


def migrated_in_the_log(source: Path, path: Path) -> None:
    opened = path.with_name(f"open-{path.name}")
    copyfile(source, opened)
    db = apsw.Connection(str(opened))
    db.create_scalar_function(sqlite_schema.SUM, sum_of, deterministic=True)
    db.create_scalar_function(sqlite_schema.NEW_ID, lambda *_: "q7k2m4q7k2m4q7k2m4q7")
    db.execute("pragma journal_mode = wal").fetchall()
    found = db.execute("pragma user_version").get
    assert isinstance(found, int)
    steps = " ".join(sqlite_schema.MIGRATIONS[number] for number in range(found, FORMAT))
    db.execute(f"begin immediate; {steps} pragma user_version = {FORMAT}; commit")
    for suffix in ("", "-wal"):
        copyfile(f"{opened}{suffix}", f"{path}{suffix}")
    db.close()


def assert_flipped_bits_are_noticed(path: Path, folder: Path) -> None:
    """A process opens the space, writes, and is killed; then one bit of each of the first transactions is flipped."""
    backend = SqliteBackend(str(path), create=False)
    engine = Engine(backend, SimClock())
    before = engine.head
    for number in range(1, 6):
        admit(engine, Commit(SessionId("zoe"), LocalSeq(number), (put("bank.other", "x" * 3000),)))
    for suffix in ("", "-wal"):
        copyfile(f"{path}{suffix}", f"{path}-killed{suffix}")
    backend.close()
    killed = Path(f"{path}-killed")
    last = last_transaction(Path(f"{killed}-wal"))
    assert opened_head(copy_of(killed, folder)[0]) == before + 5
    for offset in range(32 + 24 + 100, last, 4120):
        copy, log = copy_of(killed, folder)
        data = bytearray(log.read_bytes())
        data[offset] ^= 4
        log.write_bytes(data)
        with pytest.raises(CorruptError, match="transactions after that were committed"):
            opened_head(copy)
