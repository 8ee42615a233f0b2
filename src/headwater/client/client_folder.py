"""The local folder of a client: commits without a verdict, their session, and confirmed documents.

A commit is stored before it is sent, so a program that is killed forgets nothing that the server may have received. A
decided commit is removed in one step with the documents that it changed: after a restart without a server, it is either
in the outbox or in the confirmed documents. One thread writes, in groups; a commit does not wait for it.

Length: one file and one thread, whose batches, retries and loading share their state.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Final

import apsw
import msgspec

from headwater.access.private_files import create_private
from headwater.client.rejected_commits import SUFFIX, append_lines
from headwater.errors import (
    HeadwaterError,
    InvariantError,
    MigrationError,
    PoisonedError,
    SpaceHeldError,
    UnavailableError,
)
from headwater.machine import machine
from headwater.store.backends.sqlite_file import explain, holder
from headwater.store.backends.sqlite_wal import make_durable
from headwater.store.commit import Commit, Submission, adopt_operation
from headwater.store.document import StoredDocument
from headwater.sync.client_session import transact
from headwater.sync.frames import SpaceOpened, Transact, encode_frame, read_client, read_server
from headwater.values.author_text import describe
from headwater.values.codec import decode, encode
from headwater.values.ids import NEVER, BranchId, DocKey, LocalSeq, Seq, SessionId
from headwater.values.tree import ABSENT, Maybe

APPLICATION_ID: Final = 0x48445243
"""The letters HDRC in the file's header: this is not a space."""
FORMAT: Final = 2
"""2: each opening has ids of its own. A program that knows only format 1 would continue the session's numbers, and give
new events the ids of old ones: it must not use the file. The tables are the same."""

_MIGRATIONS: Final[dict[int, str]] = {1: ""}
"""Statements that bring a file of each format to the next one."""

_TABLES: Final = """
create table meta (name text primary key, value blob not null) without rowid;
create table outbox (number integer primary key, frame blob not null);
create table docs (doc text primary key, seq integer not null, value blob) without rowid;
"""

_WAL_PAGES: Final = 1000
"""4 MB of log before it is moved to the main file."""


class _OpenFiles:
    """State of the process: the files it has open. To open one of them again would drop its locks."""

    def __init__(self) -> None:
        self.paths: set[str] = set()
        self.lock = machine().lock()


@dataclass(slots=True)
class StoredState:
    """What an earlier opening stored."""

    opened: SpaceOpened | None = None
    seq: Seq = NEVER
    last: int = 0
    # How often it was opened, this time included.
    openings: int = 1
    # The server was put back to an older state: the session ended, and what is stored is of another history.
    is_lost: bool = False
    prefixes: tuple[str, ...] = ()
    docs: dict[DocKey, StoredDocument] = field(default_factory=dict)
    outbox: list[Submission] = field(default_factory=list)


@dataclass(slots=True)
class _Batch:
    """The next group to be written, in one transaction."""

    commits: list[Submission] = field(default_factory=list)
    gone: list[LocalSeq] = field(default_factory=list)
    docs: dict[DocKey, tuple[Seq, Maybe] | None] = field(default_factory=dict)
    meta: dict[str, bytes] = field(default_factory=dict)
    # Lines for the file of rejected commits.
    refused: list[bytes] = field(default_factory=list)
    # Delete everything stored before.
    afresh: bool = False

    def __bool__(self) -> bool:
        return bool(self.commits or self.gone or self.docs or self.meta or self.refused or self.afresh)


class ClientFolder:
    """One file of the folder: one app in one space of one server. The writer thread calls `kept` and `failed`.

    Raises SpaceHeldError if another opening has it.
    """

    def __init__(self, folder: Path, space: str, *whose: str) -> None:
        try:
            machine().files.make_folders(folder, 0o700)
        except OSError as error:
            message = f"local={str(folder)!r} cannot be a folder to keep things in: {error.strerror or error}"
            raise UnavailableError(message, path=str(folder)) from error
        # Length-prefixed, so that no two lists of names have the same text.
        text = "".join(f"{len(each)}:{each}" for each in (space, *whose))
        slug = re.sub(r"[^a-z0-9]+", "-", space.lower()).strip("-")[:40] or "space"
        self.path: Path = folder / f"{slug}-{sha256(text.encode()).hexdigest()[:10]}.replica"
        self.kept: Callable[[list[Submission]], None] = lambda _: None
        self.failed: Callable[[list[Submission], HeadwaterError], None] = lambda *_: None
        self._real = machine().files.resolve(self.path)
        self._wal_pages = 0
        self._db = self._connect()
        self._changed = machine().condition()
        self._batch = _Batch()
        self._is_writing = False
        self._is_over = False
        self._is_stalled = False
        # Why nothing can be stored any more.
        self.trouble: HeadwaterError | None = None
        self._thread = machine().thread(self._run, name=f"headwater-keeping-{space}")
        self._thread.start()

    @property
    def refused_path(self) -> Path:
        """The file that lists rejected commits."""
        return self.path.with_suffix(SUFFIX)

    # -- opening -------------------------------------------------------------------------------------------

    def _connect(self) -> apsw.Connection:
        files = machine().state(_OpenFiles)
        with files.lock:
            if self._real in files.paths:
                message = f"{self.path} is in use by another opening of this process ({machine().process_id()})"
                raise SpaceHeldError(f"{message}; close that, or give this one a folder of its own", path=self._real)
            # Created before SQLite opens it, readable by its owner only.
            try:
                create_private(self.path, os.O_RDWR).close()
                machine().files.sync_folder(self.path.parent)
            except OSError as error:
                message = f"cannot write {self.path}: {error.strerror or error}; may this user write there?"
                raise UnavailableError(message, path=self._real) from error
            try:
                db = apsw.Connection(self._real, vfs=machine().files.vfs)
                try:
                    self._configure(db)
                except BaseException:
                    db.close()
                    raise
            except apsw.BusyError:
                pid = holder(self._real)
                message = f"{self.path} is in use by process {pid if pid is not None else '(not known)'}"
                raise SpaceHeldError(
                    f"{message}; close the program there, or give this one a folder of its own (local=...)",
                    path=self._real,
                    pid=pid,
                ) from None
            except apsw.Error as error:
                raise explain(error, self._real) from error
            files.paths.add(self._real)
            return db

    def _configure(self, db: apsw.Connection) -> None:
        db.execute("pragma locking_mode = exclusive")
        application, version = db.execute("pragma application_id").get, db.execute("pragma user_version").get
        is_new = not application and not db.execute("select count(*) from sqlite_schema").get
        if not is_new:
            self._check_format(application, version)
        mode = db.execute("pragma journal_mode = wal").fetchall()
        if mode != [("wal",)]:
            message = f"{self.path} cannot use a write-ahead log (SQLite kept {mode}); is it on a network file system?"
            raise UnavailableError(message, path=self._real)
        db.execute("pragma synchronous = full")
        # Checkpoints are a step of their own: one that fails must not report the transaction before it as failed.
        db.execute("pragma wal_autocheckpoint = 0")
        db.execute("begin immediate; commit")
        make_durable(db, self._real, machine().files.vfs)
        db.set_wal_hook(self._record_wal_pages)
        if is_new:
            marks = f"pragma application_id = {APPLICATION_ID}; pragma user_version = {FORMAT}"
            db.execute(f"begin immediate; {_TABLES} {marks}; commit")
        elif version != FORMAT:
            steps = " ".join(_MIGRATIONS[number] for number in range(int(version), FORMAT))
            # One transaction: a kill leaves a file of the old format or of the new one.
            db.execute(f"begin immediate; {steps} pragma user_version = {FORMAT}; commit")

    def _check_format(self, application: object, version: object) -> None:
        """Raise MigrationError unless this version can use the file, or migrate it."""
        if application != APPLICATION_ID:
            message = f"{self.path} is no file of what a program keeps of a server's space; choose another folder"
            raise MigrationError(message, path=self._real, found=version, known=FORMAT)
        if version != FORMAT and version not in _MIGRATIONS:
            message = (
                f"{self.path} is of format {version}, and this version of Headwater knows formats up to {FORMAT}; "
                "use the newer version that wrote it, and what it keeps is sent"
            )
            raise MigrationError(message, path=self._real, found=version, known=FORMAT)

    def load(self) -> StoredState:
        """Read what is stored; called first. The new opening is counted on disk when this returns.

        Raises StoreFullError, UnavailableError or PoisonedError if the disk does not take that.
        """
        try:
            return self._load()
        except apsw.Error as error:
            raise explain(error, self._real) from error

    def _load(self) -> StoredState:
        meta = dict(self._db.execute("select name, value from meta"))
        found = StoredState(
            seq=Seq(int(meta.get("seq", b"0"))),
            last=int(meta.get("last", b"0")),
            openings=int(meta.get("openings", b"0")) + 1,
            is_lost="lost" in meta,
            prefixes=tuple(msgspec.msgpack.decode(meta["prefixes"], type=list[str])) if "prefixes" in meta else (),
        )
        if "opened" in meta:
            opened = read_server(meta["opened"])
            assert isinstance(opened, SpaceOpened)
            found.opened = opened
        for doc, seq, value in self._db.execute("select doc, seq, value from docs"):
            found.docs[doc] = StoredDocument(ABSENT if value is None else decode(value), seq)
        if found.opened is not None:
            branch = BranchId(meta.get("branch", b"").decode())
            for _, frame in self._db.execute("select number, frame from outbox order by number"):
                found.outbox.append(_submission(frame, found.opened.session, branch))
        self._db.execute("insert or replace into meta values ('openings', ?)", (str(found.openings).encode(),))
        return found

    # -- for other threads ---------------------------------------------------------------------------------

    def keep(self, submission: Submission) -> None:
        """Store a commit; `kept` is called when it is on disk."""
        with self._changed:
            self._batch.commits.append(submission)
            self._wake()

    def take_in(self, gone: Iterable[LocalSeq], docs: Iterable[tuple[DocKey, Seq, Maybe]], seq: Seq) -> None:
        """Remove decided commits and store the documents as of a sequence number, in one transaction."""
        with self._changed:
            self._batch.gone += gone
            self._batch.docs.update((doc, (at, value)) for doc, at, value in docs)
            self._batch.meta["seq"] = str(seq).encode()
            self._wake()

    def let_go(self, doc: DocKey) -> None:
        """Forget a document."""
        with self._changed:
            self._batch.docs[doc] = None
            self._wake()

    def keep_session(self, opened: SpaceOpened, branch: BranchId, prefixes: Iterable[str]) -> None:
        """Store the session, and the proof needed to resume it."""
        with self._changed:
            self._batch.meta["opened"] = encode_frame(opened)
            self._batch.meta["branch"] = branch.encode()
            self._batch.meta["prefixes"] = msgspec.msgpack.encode(list(prefixes))
            self._wake()

    def lose_session(self) -> None:
        """Store that the session must not be resumed: the server was put back to an older state."""
        with self._changed:
            self._batch.meta["lost"] = b"1"
            self._wake()

    def write_refused(self, lines: Iterable[bytes]) -> None:
        """Append to the file of rejected commits, before the commits are removed here."""
        with self._changed:
            self._batch.refused += lines
            self._wake()

    def forget(self) -> None:
        """Discard everything: the server does not resume the session, or is another server."""
        with self._changed:
            self._batch = _Batch(afresh=True, refused=self._batch.refused)
            self._wake()

    def flush(self) -> None:
        """Return when everything submitted so far is on disk, or has failed."""
        with self._changed:
            self._changed.wait_for(self._is_at_rest)

    def _is_at_rest(self) -> bool:
        return self._is_over or (not self._is_writing and (not self._batch or self._is_stalled))

    def close(self) -> None:
        """Write what is left, and close the file. Idempotent."""
        with self._changed:
            self._is_over = True
            self._wake()
        if self._thread is not machine().current_thread():
            self._thread.join()

    def _wake(self) -> None:
        self._is_stalled = False
        self._changed.notify_all()

    def disown(self) -> None:
        """In a forked child: the file is the parent's."""
        machine().state(_OpenFiles).paths.discard(self._real)

    # -- the thread ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while True:
                with self._changed:
                    self._is_writing = False
                    self._changed.notify_all()
                    self._changed.wait_for(lambda: (self._batch and not self._is_stalled) or self._is_over)
                    if not self._batch or self._is_stalled:
                        break
                    batch, self._batch = self._batch, _Batch()
                    self._is_writing = True
                self._write(batch)
                if self._wal_pages >= _WAL_PAGES and self.trouble is None:
                    self._checkpoint()
        finally:
            with suppress(apsw.Error):
                self._db.close()
            machine().state(_OpenFiles).paths.discard(self._real)

    def _record_wal_pages(self, _db: apsw.Connection, _name: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK

    def _checkpoint(self) -> None:
        """Move pages from the log to the main file. What was written is durable even if this fails."""
        self._wal_pages = 0
        with suppress(apsw.Error):
            self._db.execute("pragma wal_checkpoint(passive)").fetchall()

    def _write(self, batch: _Batch) -> None:
        failure = self.trouble
        if failure is None:
            try:
                if batch.refused:
                    append_lines(self.refused_path, batch.refused)
                    batch.refused = []
                self._write_down(batch)
            except (OSError, UnavailableError) as error:
                failure = UnavailableError(f"cannot write {self.refused_path}: {error}", path=str(self.refused_path))
                self._put_back(batch)
            except apsw.Error as error:
                # The stored state is unchanged. The new commits are not stored, and therefore not sent.
                failure = explain(error, self._real)
                if isinstance(failure, PoisonedError):
                    self.trouble = failure
                else:
                    self._put_back(batch)
            except Exception as error:  # noqa: BLE001  # callers that wait for the thread must not wait for ever
                failure = self.trouble = InvariantError(
                    f"{self.path} cannot be written: {describe(error)}", path=self._real
                )
        if not batch.commits:
            return
        if failure is None:
            self.kept(batch.commits)
        else:
            self.failed(batch.commits, failure)

    def _put_back(self, batch: _Batch) -> None:
        """The disk may have room later: entries without a waiting caller are written with the next group."""
        with self._changed:
            later = self._batch
            later.refused = batch.refused + later.refused
            if not later.afresh:
                later.gone = batch.gone + later.gone
                later.docs = batch.docs | later.docs
                later.meta = batch.meta | later.meta
                later.afresh = batch.afresh
            # Not retried at once, but with the next group: commits that came meanwhile are one, with waiting callers.
            self._is_stalled = not later.commits

    def _write_down(self, batch: _Batch) -> None:
        db = self._db
        db.execute("begin immediate")
        try:
            _write_rows(db, batch)
            db.execute("commit")
        except BaseException:
            # SQLite has already rolled back for some errors (disk full, I/O): only then is this not needed.
            if db.in_transaction:
                db.execute("rollback")
            raise


def _write_rows(db: apsw.Connection, batch: _Batch) -> None:
    if batch.afresh:
        db.execute("delete from meta where name != 'openings'; delete from outbox; delete from docs")
    if batch.commits:
        rows = [(each.commit.local_seq, _frame(each)) for each in batch.commits]
        db.executemany("insert or replace into outbox values (?, ?)", rows)
        batch.meta["last"] = str(rows[-1][0]).encode()
    if batch.gone:
        db.executemany("delete from outbox where number = ?", [(number,) for number in batch.gone])
    held = [(doc, *_stored(*each)) for doc, each in batch.docs.items() if each is not None]
    if held:
        db.executemany("insert or replace into docs values (?, ?, ?)", held)
    let_go = [(doc,) for doc, each in batch.docs.items() if each is None]
    if let_go:
        db.executemany("delete from docs where doc = ?", let_go)
    if batch.meta:
        db.executemany("insert or replace into meta values (?, ?)", list(batch.meta.items()))


def _stored(seq: Seq, value: Maybe) -> tuple[Seq, bytes | None]:
    return seq, None if value is ABSENT else encode(value)


def _frame(submission: Submission) -> bytes:
    """The frame to be sent, without observations of earlier runs, which are outdated."""
    return encode_frame(transact(Submission(submission.name_reads())))


def _submission(data: bytes, session: SessionId, branch: BranchId) -> Submission:
    frame = read_client(data)
    assert isinstance(frame, Transact)
    commit = Commit(
        session,
        LocalSeq(frame.number),
        tuple(map(adopt_operation, frame.operations)),
        frame.reads,
        frame.rests,
        frame.conditions,
        branch,
        frame.seen,
        frame.spans,
    )
    return Submission(commit)
