"""A process that works at a served space and writes down what it asked, saw and was told, until it is told to stop.

Usage: clients_to_kill.py WORK URL TOKEN NAME SEED FOLDER [LOCAL]

WORK is `append`, `bank` or `events`; with LOCAL, it goes on with what an earlier process has left in that folder. It
writes to FOLDER/NAME.jsonl, a line for each thing, and has ended when the file
FOLDER/stop is there and everything it wrote is decided. Its last line has what it holds when FOLDER/done is there:
everybody has come so far.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO, TypeVar

import headwater as hw
from headwater.cells.pending_commit import PendingCommit
from headwater.client import document_fetch, remote_storage, server_link
from headwater.client.remote_replica import RemoteReplica
from headwater.client.remote_storage import RemoteStorage
from headwater.client.server_link import Credentials
from headwater.client.server_url import parse_server
from headwater.errors import HeadwaterError, OfflineError, UnavailableError
from headwater.store.commit import Committed, Operation, PatchDoc, SetDoc
from headwater.sync.frames import Watch
from headwater.values.address import doc_key
from headwater.values.patch import Append
from headwater.values.tree import freeze
from tests.support.naive import NOTHING, plain

LISTS = 5
ACCOUNTS = 5
EVENTS = 120
AT_ONCE = 6
"""Commits that are made before anybody waits for a verdict."""
END_S = 600.0
"""How long a client waits for anything. Nothing here depends on how quick the machine is: `crowd.py` has a limit for
all of it."""


def be_patient() -> None:
    """A server that does not answer may be one that gets no time on a busy machine: it is not given up."""
    for module in (document_fetch, server_link, remote_storage):
        for name in ("CONNECT_S", "PATIENCE_S", "STALL_S"):
            if hasattr(module, name):
                setattr(module, name, END_S)


T = TypeVar("T")


def opened(opening: Callable[[], T]) -> T:
    """The first connection may be cut, or nobody be there."""
    deadline = time.monotonic() + END_S
    while True:
        try:
            return opening()
        except OfflineError:
            if time.monotonic() > deadline:
                raise


def attached(url: str, token: str, name: str, local: Path | None) -> tuple[RemoteStorage, RemoteReplica]:
    storage = RemoteStorage(parse_server(url), Credentials(token=token), actor=name, local=local)
    try:
        return storage, storage.attach()
    except OfflineError:
        storage.close()
        raise


class Recorder:
    def __init__(self, folder: Path, name: str) -> None:
        self._file: TextIO = (folder / f"{name}.jsonl").open("a")
        self._stop = folder / "stop"
        self._done = folder / "done"

    def say(self, **what: Any) -> None:
        self._file.write(json.dumps(what) + "\n")
        self._file.flush()

    @property
    def is_over(self) -> bool:
        return self._stop.exists()

    @property
    def all_are_done(self) -> bool:
        return self._done.exists()


class Worker:
    """A session without an app: every commit is made by hand."""

    def __init__(self, url: str, token: str, name: str, seed: int, recorder: Recorder, local: Path | None) -> None:
        self.rng = random.Random(seed)
        self.name = name
        self.recorder = recorder
        self.storage, self.replica = opened(lambda: attached(url, token, name, local))
        # No two processes of one name make the same.
        self.made = seed * 10_000
        recorder.say(session=self.replica.session, waiting=self.replica.pending_count)

    def read(self, doc: str) -> Any:
        found = plain(self.replica.read(doc_key(doc)))
        return None if found is NOTHING else found

    def commit(self, operations: list[Operation], seen: dict[str, Any], **more: Any) -> None:
        """What was read is said before it is sent: it is not known whether it arrives."""
        marks = [self.replica.read_mark(doc_key(doc), ()) for doc in seen]
        number = self.replica.commit_count + 1
        self.recorder.say(ask=number, seen=seen, **more)
        pending = self.replica.commit(operations, reads=marks)
        if self.replica.commit_count == number:
            pending.on_settled(lambda settled: self.settled(number, settled))
        else:
            # It rests on what was rejected, and was not sent.
            self.recorder.say(told=number, never=True)

    def settled(self, number: int, pending: PendingCommit) -> None:
        verdict = pending.verdict
        if isinstance(verdict, Committed):
            self.recorder.say(told=number, seq=verdict.seq)
        elif verdict is not None:
            self.recorder.say(told=number, no=type(verdict).__name__)
        else:
            assert pending.error is not None
            self.recorder.say(told=number, failed=pending.error.code)

    def work(self, turn: Any) -> None:
        while not self.recorder.is_over:
            with patience():
                for _ in range(self.rng.randint(1, AT_ONCE)):
                    with self.replica.lock:
                        turn(self)
                self.storage.wait()
                self.replica.refresh()
        self.end()

    def end(self) -> None:
        persist(self.storage.wait)
        self.recorder.say(done=True)
        while not self.recorder.all_are_done:
            time.sleep(0.01)
        # An answer stands among what was decided: when it is here, so is everything before it.
        persist(lambda: self.storage.link.ask(Watch(0, ((doc_key("nothing"), 1),))))
        self.replica.refresh()
        docs = {doc: (record.seq, plain(record.confirmed)) for doc, record in self.replica._documents.items()}
        self.recorder.say(
            final={doc: [seq, None if value is NOTHING else value] for doc, (seq, value) in docs.items()},
            tries=self.storage.link.tries,
        )
        self.storage.close()


@contextmanager
def patience() -> Iterator[None]:
    """The server may be away for a while; what was written waits for it."""
    try:
        yield
    except (OfflineError, UnavailableError):
        time.sleep(0.05)


def persist(do: Callable[[], object]) -> None:
    """Until the server is there and has done it."""
    deadline = time.monotonic() + END_S
    while time.monotonic() < deadline:
        with patience():
            do()
            return
    raise TimeoutError(f"not in {END_S} s: {do}")


def append(worker: Worker) -> None:
    """Read some lists, and append a number of one's own to others."""
    rng = worker.rng
    names = [f"list:{number}" for number in range(LISTS)]
    if rng.random() < 0.1:
        worker.replica.release(doc_key(rng.choice(names)))
    seen = {name: worker.read(name) or [] for name in rng.sample(names, rng.choice([1, 2, 3]))}
    operations: list[Operation] = []
    added: dict[str, int] = {}
    for name in rng.sample(names, rng.choice([1, 1, 2])):
        worker.made += 1
        number = int(worker.name.removeprefix("c")) * 1_000_000_000 + worker.made
        added[name] = number
        if worker.read(name) is None:
            seen.setdefault(name, [])
            operations.append(SetDoc(doc_key(name), freeze([number])))
        else:
            operations.append(PatchDoc(doc_key(name), (Append((), freeze([number])),)))
    worker.commit(operations, seen, added=added)


def transfer(worker: Worker) -> None:
    """Look at all accounts, and move something from one to another."""
    rng = worker.rng
    names = [f"account:{number}" for number in range(ACCOUNTS)]
    if rng.random() < 0.3:
        worker.replica.release(doc_key(rng.choice(names)))
    if rng.random() < 0.3:
        worker.recorder.say(balances=[worker.read(name) for name in names])
    one, other = rng.sample(names, 2)
    seen = {name: worker.read(name) for name in (one, other)}
    amount = rng.randint(1, 9)
    operations: list[Operation] = [
        SetDoc(doc_key(one), seen[one] - amount),
        SetDoc(doc_key(other), seen[other] + amount),
    ]
    worker.commit(operations, seen)


def events(url: str, token: str, name: str, seed: int, recorder: Recorder) -> None:
    """Deliver every event, some more than once, until each has an end. Others deliver the same."""
    app = hw.App("post")
    handled = app.cell("handled", list[int]())
    count = app.cell("count", 0)

    @app.handler
    def letter(number: int) -> int:
        recorder.say(handling=number)
        handled.value = [*handled.value, number]
        count.value += 1
        return number

    rng = random.Random(seed)
    with opened(lambda: app.open(url, token=token, actor=name)) as space:
        recorder.say(session=space._opening.runtime.attached.session)
        left = rng.sample(range(EVENTS), EVENTS)
        while left:
            batch = left[: rng.randint(1, 6)]
            tickets = [letter.once(str(number), by="the post").send(number) for number in batch]
            with patience():
                for number, ticket in zip(batch, tickets, strict=True):
                    try:
                        assert ticket.result(timeout="600s") == number
                    except hw.EventError as error:
                        recorder.say(event=number, trouble=f"{error.code} {error.message}"[:200])
                        continue
                    recorder.say(event=number)
                    if rng.random() < 0.9:
                        left.remove(number)
        deadline = time.monotonic() + END_S
        while time.monotonic() < deadline:
            try:
                space.sync()
                space.settle()
                break
            except (OfflineError, UnavailableError):
                time.sleep(0.05)
            except HeadwaterError as error:
                recorder.say(sync=error.code)
        recorder.say(final={"handled": sorted(handled.value), "count": count.value}, tries=space.connection.tries)


def main(work: str, url: str, token: str, name: str, seed: str, folder: str, local: str = "") -> None:
    be_patient()
    recorder = Recorder(Path(folder), name)
    if work == "events":
        events(url, token, name, int(seed), recorder)
    else:
        worker = Worker(url, token, name, int(seed), recorder, Path(local) if local else None)
        worker.work(append if work == "append" else transfer)


if __name__ == "__main__":
    main(*sys.argv[1:])
