"""A client: opens the space at the server, does what the plan says, and opens it again when a documented error ends it.

Plain clients and those in an event loop are one coroutine; that of a plain client never suspends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from headwater.cells.transaction import Transaction
from headwater.errors import (
    AccessError,
    HeadwaterError,
    NotReadyError,
    OfflineError,
    RejectedError,
    SessionLostError,
    UnconfirmedError,
    UsageError,
)
from headwater.machine import machine
from headwater.runtime.connection import Connection
from sim.oracles.replicas import Look, look_at
from sim.shared.records import Record, begin
from sim.shared.shared_app import DERIVED, Reading, SharedApp, StepError
from sim.shared.workload import FIRST_NUMBER, READS, Act, ClientNode, Operation, Release, Reopen, Sync

if TYPE_CHECKING:
    from sim.shared.shared_world import SharedWorld

URL: Final = "ws://127.0.0.1:8400/"
ROUND_S: Final = 0.25
"""How often an idle plain client settles."""

AGAIN_S: Final = 1.0
"""How long a client waits before it opens again."""

SETTLE_S: Final = 30.0
"""How long a client in an event loop waits until nothing is under way."""

QUIET_S: Final = 600.0
"""After the last fault, everything has to be quiet within so many virtual seconds (L1)."""


class SharedClient:
    """One client over all its lives."""

    def __init__(self, shared: SharedWorld, node: ClientNode) -> None:
        self.shared, self.world, self.node = shared, shared.world, node
        self.name = node.name
        self.operations: list[Operation] = [
            each
            for each in shared.world.plan.operations
            if isinstance(each, Act | Sync | Reopen | Release) and each.node == node.name
        ]
        self.position = 0
        self.records: list[Record] = []
        self.errors: list[BaseException] = []
        self.is_quiet = False
        # The token was revoked, or the plan ends it.
        self.is_ended = False
        self.is_poisoned = False
        self.left: list[Record] = []
        # Numbers of other transactions, and the transactions here that have written them again.
        self.repeated: list[tuple[int, Transaction]] = []
        self.app = SharedApp()
        self.space: Any = None
        self.asked: list[Callable[[], None]] = []
        self.life = 0
        self.openings = 0

    # -- both modes ----------------------------------------------------------------------------------------

    def main(self) -> None:
        """The main thread of a life of the node."""
        self.life += 1
        self.app = SharedApp()
        self.app.inconsistent = self.inconsistent
        self.app.has_reconnected = self.has_reconnected
        self.app.repeated = self.repeated
        self.is_quiet = False
        self.asked.clear()
        self.left = []
        if self.node.mode == "plain":
            _run_plain(self._live())
        else:
            machine().run(self._live())

    async def _live(self) -> None:
        while not self.is_ended and not self.shared.is_over:
            try:
                opening = await self._open()
            except HeadwaterError as error:
                self._failed(error)
                if isinstance(error, AccessError) and self.name in self.shared.revoked:
                    self.is_ended = True
                    return
                await self._sleep(AGAIN_S)
                continue
            self.openings += 1
            self.app.space = self.space
            self._check_left()
            self.say(f"opened ({self.openings}), {self.space.connection.state}")
            after = 0.0
            try:
                after = await self._work()
            except HeadwaterError as error:
                self._failed(error)
                after = AGAIN_S
            finally:
                self.is_quiet = False
            left = [each for each in self.records if each.opening == self.openings and not each.is_over]
            was_away = self.space.connection.state == "offline"
            try:
                await self._close(opening)
                self.say("closed")
                for each in left:
                    # In the folder, if it has one.
                    each.was_closed = True
                self.left = left if was_away else []
            except HeadwaterError as error:
                self._failed(error)
            self.space = None
            await self._sleep(after)

    def _check_left(self) -> None:
        """What an opening without a server left in the folder is shown by the next one without a server (I1)."""
        left, self.left = self.left, []
        if not self.node.local or self.space.connection.state == "live":
            return
        for record in left:
            for step, number in record.appended():
                shown = self.app.registers[int(step[1])].value
                if self.space.connection.state != "live" and number not in shown:
                    text = f"transaction {record.act.number} is in the folder, and its number {number} is not shown"
                    self.world.violate("I1", f"{self.name}: {text}: {list(shown)}", self.name)

    async def _work(self) -> float:
        """Until the space is to be closed. Returns when to open it again."""
        while not self.shared.is_over:
            self._obey()
            if self.is_poisoned:
                # The disk of the folder has failed: documented, and to be opened again.
                self.is_poisoned = False
                return AGAIN_S
            if self.space.connection.state == "over":
                self.say(f"over: {self.space.connection.trouble}")
                self.shared.was_over(self, self.space.connection)
                return AGAIN_S
            operation = self._next()
            if operation is None:
                if self.shared.is_calm:
                    await self._calm_down()
                await self._sleep(ROUND_S)
                await self._settle()
                continue
            if operation.at > self.world.now:
                await self._sleep(min(operation.at - self.world.now, 5.0))
                continue
            self.position += 1
            if isinstance(operation, Sync | Reopen) or (isinstance(operation, Act) and operation.settles):
                await self._settle()
            if isinstance(operation, Reopen):
                return operation.after
            await self._perform(operation)
        return 0.0

    def _next(self) -> Operation | None:
        return self.operations[self.position] if self.position < len(self.operations) else None

    @property
    def is_done(self) -> bool:
        """Whether nothing of the plan is left to do."""
        return self.is_ended or self.position >= len(self.operations)

    def _obey(self) -> None:
        asked, self.asked = self.asked, []
        for each in asked:
            each()

    async def _perform(self, operation: Operation) -> None:
        if isinstance(operation, Sync):
            self.say("sync")
            await self._sync()
        elif isinstance(operation, Act):
            await self._act(operation)
        elif isinstance(operation, Release):
            self.app.let_go(operation.docs)

    async def _sync(self) -> bool:
        try:
            await self._sync_once()
        except RejectedError as error:
            self.world.counts["rejected at sync"] += 1
            self.say(f"sync: {error.code}")
            return True
        except (OfflineError, UnconfirmedError, AccessError, SessionLostError) as error:
            self._failed(error)
            return False
        return True

    async def _calm_down(self) -> None:
        """Everything has been told to the server, and all that is asked for has ended."""
        if not await self._sync():
            self.is_quiet = False
            return
        await self._settle()
        connection: Connection = self.space.connection
        mine = [each for each in self.records if each.opening == self.openings]
        self.is_quiet = connection.state == "live" and not connection.pending and all(each.is_over for each in mine)

    def unfinished(self) -> list[str]:
        """What has not ended, for a message."""
        found = [
            f"{each.act.number} ({each.act.how})"
            for each in self.records
            if each.opening == self.openings and not each.is_over
        ]
        state = "no space is open" if self.space is None else repr(self.space.connection)
        return [state, *found]

    # -- transactions --------------------------------------------------------------------------------------

    async def _act(self, act: Act) -> None:
        record = begin(act, self.name, self.openings, self.world.now, has_folder=self.node.local)
        self.records.append(record)
        first = FIRST_NUMBER + act.number * 100
        self.world.counts["acts"] += 1
        try:
            if act.how == "event":
                record.handle = self.app.act.send(msgspec.json.encode((first, act.steps)).decode())
            elif act.how == "once":
                record.handle = self.app.pay.once(act.key, by="bank").send(str(record.written[0]))
            else:
                self.app.look(act.steps)
                with self.space.transaction() as tx:
                    record.handle = tx
                    await self._run(act, first, record.readings)
        except (RejectedError, UsageError, NotReadyError, StepError, OfflineError, AccessError) as error:
            # A write that does not fit the document any more, a commit that rests on a rejected one, a missing right.
            record.error = error
            if isinstance(error, OfflineError | AccessError):
                self._failed(error)
        except ValueError as error:
            record.error = error
        self.say(f"act {act.number} {act.how}: {record.fate if record.is_over else 'pending'}")

    async def _run(self, act: Act, first: int, readings: list[Reading]) -> None:
        """As `SharedApp.run`, with a pause before the first write."""
        is_paused = False
        for index, step in enumerate(act.steps):
            if step[0] in READS:
                self.app.read(step, readings)
                continue
            if act.pause and not is_paused:
                is_paused = True
                await self._sleep(act.pause)
            self.app.write(step, first + index, readings)

    # -- errors --------------------------------------------------------------------------------------------

    def _failed(self, error: HeadwaterError) -> None:
        self.errors.append(error)
        self.is_poisoned = self.is_poisoned or "HW204" in str(error)
        self.say(f"{error.code} {type(error).__name__}")
        self.shared.told(self, error)

    def user_error(self, error: BaseException) -> None:
        """`on_error` of the space."""
        self.shared.told(self, error)

    @property
    def is_reader(self) -> bool:
        """Whether it may only read by now."""
        return bool(self.node.reads_after) and self.world.now >= self.node.reads_after

    def has_reconnected(self) -> bool:
        """Whether this opening had another connection, or another opening of its folder, before."""
        return self.space is None or self.node.local or self.space.connection.tries > 1

    def inconsistent(self, text: str) -> None:
        """A function has seen what cannot be."""
        self.world.violate("INV-6", f"{self.name}: {text}", self.name)

    def say(self, text: str) -> None:
        self.world.say(self.name, text)

    # -- the two modes -------------------------------------------------------------------------------------

    async def _open(self) -> Any:
        options: dict[str, Any] = {
            "token": self.shared.tokens[f"{self.name}-reader" if self.is_reader else self.name],
            "on_error": self.user_error,
            "local": f"/home/{self.name}/replica" if self.node.local else None,
            "actor": self.node.actor or None,
        }
        url = URL + self.node.space
        if self.node.mode == "plain":
            self.space = self.app.app.open(url, **options)
            return self.space.__enter__()
        opening = self.app.app.aopen(url, **options)
        self.space = await opening.__aenter__()
        return opening

    async def _close(self, opening: Any) -> None:
        if self.node.mode == "plain":
            opening.__exit__(None, None, None)
        else:
            await opening.__aexit__(None, None, None)

    async def _sleep(self, seconds: float) -> None:
        if seconds <= 0:
            return
        if self.node.mode == "plain":
            machine().sleep(seconds)
        else:
            await asyncio.sleep(seconds)

    async def _settle(self) -> None:
        if self.node.mode == "plain":
            self.space.settle()
        else:
            await self._settle_in_time()

    async def _settle_in_time(self) -> None:
        """What waits for documents waits as long as the server is away, and ends with the session."""
        was_over = self.space.connection.state == "over"
        try:
            await asyncio.wait_for(self.space.settle(), SETTLE_S)
        except TimeoutError:
            if was_over:
                self.world.violate("L1", f"{self.name}: settle() does not return, and the session is over", self.name)

    async def _sync_once(self) -> None:
        if self.node.mode == "plain":
            before = [each for each in self.records if each.opening == self.openings and each.act.how == "block"]
            self.space.sync()
            if left := [each.act.number for each in before if not each.is_over]:
                self.world.violate("S1", f"sync has returned, and transactions {left} have no verdict", self.name)
        else:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.space.synced(), SETTLE_S)


def _run_plain(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that never suspends, without an event loop."""
    try:
        work.send(None)
    except StopIteration:
        return
    raise AssertionError("a plain client has suspended")


def reload(client: SharedClient) -> tuple[Look, bytes, int]:
    """What the folder of a client has when no server is there: documents, rejected commits, commits in its outbox."""
    app = SharedApp()
    options: dict[str, Any] = {"token": client.shared.tokens[client.name], "actor": client.node.actor or None}
    local = f"/home/{client.name}/replica"
    files = machine().files
    with app.app.open(URL + client.node.space, local=local, on_error="log", **options) as space:
        storage: Any = space._opening._lease.storage
        session = storage._link.session  # an oracle looks inside
        docs = [operation.doc for each in session.outbox.values() for operation in each.commit.operations]
        # Functions may have run now.
        outbox = sum(not doc.partition(".")[2].startswith(DERIVED) for doc in docs)
        look = look_at(space)
    refused = [files.read(f"{local}/{name}") for name in files.names(local) if name.endswith(".refused.jsonl")]
    return look, _written_by(b"".join(refused)), outbox


def _written_by(lines: bytes) -> bytes:
    """What rejected commits were to write, as JSON. Not receipts: these also have what a handler has read."""
    found: list[bytes] = []
    for line in lines.splitlines():
        try:
            parts = msgspec.json.decode(line)["operations"]
        except msgspec.DecodeError:
            # Cut off by a loss of power.
            found.append(line)
            continue
        found += [msgspec.json.encode(each) for each in parts if not each["at"].startswith("receipt:")]
    return b"\n".join(found)
