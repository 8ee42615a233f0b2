"""The spaces of one server: opened for the first client, closed when unused; admission to each."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from headwater._version import __version__
from headwater.access.access_control import AccessControl
from headwater.access.grants import Grant
from headwater.access.key_admission import grant_of
from headwater.access.refusal_log import RefusalLog, write
from headwater.access.rights import Right
from headwater.access.session_proofs import SessionProofs, lineage_in
from headwater.errors import (
    AccessError,
    HeadwaterError,
    NameRefusedError,
    NotFoundError,
    ServerLimitError,
    SessionLostError,
    SpaceTwinError,
    StoreError,
    UnavailableError,
    UsageError,
)
from headwater.host.deciding_threads import DecidingThreads
from headwater.host.space_files import Location, locate, open_space
from headwater.host.storage import Storage
from headwater.host.system_clock import SystemClock
from headwater.machine import machine
from headwater.runtime.expiry import ROUND_MS
from headwater.server.metrics import WorkCounts
from headwater.server.server_limits import DRAIN_S, EMPTY_S, IDLE_S, SHRINKS_MAX, SPACES_MAX, SPARE_S
from headwater.server.spaces.channel import Channel
from headwater.server.spaces.client_connection import UNKNOWN, ClientConnection, rights_unknown
from headwater.server.spaces.space_turns import SpaceTurns
from headwater.store.retention import Retention
from headwater.sync.frame_limits import FRAME_BYTES_MAX, PENDING_MAX, WATCHES_MAX
from headwater.sync.frames import Open
from headwater.sync.server_session import Close
from headwater.values.ids import BranchId, SessionId
from headwater.values.seams import Entropy
from headwater.values.space_names import check_space_name

_T = TypeVar("_T")

log: Final = logging.getLogger("headwater.server")

NONCE_BYTES: Final = 32
SPARED: Final = frozenset({"refused", "broken"})
"""Events that any client can cause at any rate."""
KIND: Final = 20
"""Characters of a refusal's reason that distinguish kinds."""
GONE: Final = "the folder of the spaces was removed while the server runs, or is another one; start the server again"
LINE: Final = 300
"""Characters of a stranger's input that are repeated in a message."""
ROUND_S: Final = 0.05
"""Interval of the check of open connections. With the cache of grants, a revoked one works for a tenth of a second."""
ROUND_PER_S: Final = 20_000
"""Connections checked per second, at most: some hundredths of a core, however many there are."""
THREADS: Final = 4
"""Threads for openings and answers, which wait for the disk."""
DECIDERS: Final = 8
"""Threads that decide commits, for all spaces: so many files are written at the same time."""


class ServedSpaces:
    """The spaces in one folder, in the server's event loop."""

    def __init__(
        self,
        folder: Path,
        access: AccessControl,
        loop: asyncio.AbstractEventLoop,
        *,
        audience: str,
        create: bool = True,
        spaces_max: int = SPACES_MAX,
        kept: Retention | None = None,
    ) -> None:
        self.folder = folder
        self.access = access
        self.audience = audience
        self.server = f"headwater/{__version__}"
        self.entropy: Entropy = machine()
        self.proofs = SessionProofs(folder)
        self.limits = {"frame": FRAME_BYTES_MAX, "pending": PENDING_MAX, "watches": WATCHES_MAX}
        self.turned_away = RefusalLog(access.audit, loop)
        self.channels: dict[str, Channel] = {}
        # Counts of spaces that are closed by now.
        self.past = WorkCounts()
        self._loop = loop
        self._create = create
        self._spaces_max = spaces_max
        self._kept = kept
        self._identity = _identity(folder)
        self._threads = machine().pool(THREADS, "headwater-serve")
        self._deciders = DecidingThreads(DECIDERS, "headwater-decide")
        self._use_turns = SpaceTurns()
        # Locks of spaces that are being opened or closed.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._tasks: set[asyncio.Task[None]] = set()
        self.closing = False
        self._sweep: asyncio.TimerHandle | None = loop.call_later(min(EMPTY_S, IDLE_S) / 2, self._close_empty)
        self._round: asyncio.TimerHandle | None = None
        # Spaces whose expired documents are being deleted.
        self._expiring: set[Channel] = set()
        self._expiry: asyncio.TimerHandle | None = loop.call_later(ROUND_MS / 1000, self._expire)

    # -- who may ---------------------------------------------------------------------------------------

    def nonce(self) -> bytes:
        """The challenge of one connection, for clients with a key."""
        return machine().token_bytes(NONCE_BYTES)

    def right(self, grant: Grant, space: str) -> Right:
        """The current right of a grant."""
        return self.access.right(grant.id, space)

    def admitted(self, client: ClientConnection, asked: Open, grant: Grant | None) -> Grant:
        """The grant with which a client may open a space. Raises AccessError."""
        if grant is None and asked.proof is not None:
            grant = grant_of(self.access, client.talk, asked, SystemClock().now_ms())
        try:
            check_space_name(asked.space)
        except NameRefusedError as refused:
            raise AccessError(f"{UNKNOWN} ({refused.message[:LINE]})") from None
        if grant is None or self.right(grant, asked.space) < Right.READ:
            raise AccessError(UNKNOWN) if self.access.is_known else rights_unknown()
        return grant

    def refuse(self, client: ClientConnection, space: str, error: HeadwaterError) -> None:
        """Refuse a client, and record it."""
        self.audit("refused", client, space=space, why=error.message)
        log.info("session refused", extra={"peer": client.peer, "space": space, "why": error.message})
        client.talk.refused(error, Close.FORBIDDEN)

    def audit(self, event: str, client: ClientConnection, **facts: object) -> None:
        """Write to the audit log: actor, action, grant. Refusals are rate-limited."""
        facts = {"peer": client.peer, "id": client.grant_id, **facts}
        if event in SPARED:
            # The beginning of the text is fixed; names from outside come later.
            kind = (event, client.peer, client.grant_id, str(facts["why"])[:KIND])
            self.turned_away.tell(event, kind, **facts)
        else:
            write(self.access.audit, event, **facts)

    # -- coming in -------------------------------------------------------------------------------------

    def enter(self, client: ClientConnection, asked: Open, actor: str, session: SessionId) -> None:
        """Attach a client to the channel of a space; calls `client.entered` when done."""
        task = self._loop.create_task(self._enter(client, asked, actor, session))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _enter(self, client: ClientConnection, asked: Open, actor: str, session: SessionId) -> None:
        try:
            may_create = client.may_create(asked.space)
            channel = await self.channel(asked.space, create=asked.create and may_create)
            branch = BranchId(asked.branch)
            last = await self._in_thread(lambda: channel.last_of(branch, asked.session))
            _check_life(asked, channel)
        except NotFoundError as error:
            # A missing branch may be disclosed; a missing space only to a client that could create it.
            told: HeadwaterError = error if asked.space in self.channels else AccessError(UNKNOWN)
            if asked.space not in self.channels and client.may_create(asked.space):
                rest = "" if self._create else ", and it makes no new ones"
                told = NotFoundError(f"there is no space {asked.space!r} at this server{rest}")
            self.refuse(client, asked.space, told)
        except ServerLimitError as error:
            client.talk.refused(error, Close.RESTART, again=True)
        except SpaceTwinError as error:
            self.refuse(client, asked.space, error)
        except (StoreError, UsageError) as error:
            # The path and state of the file are logged, not sent.
            log.error("space %r cannot be opened: %s", asked.space, error)  # noqa: TRY400  # it says all there is to say
            self.audit("broken", client, space=asked.space, why=error.message)
            broken = type(error)(f"space {asked.space!r} cannot be opened now; the server's log says why")
            client.talk.refused(broken, Close.RESTART, again=True)
        except HeadwaterError as error:
            self.refuse(client, asked.space, error)
        except Exception:
            log.exception("space %r could not be opened", asked.space)
            client.talk.refused(StoreError("the space could not be opened; the server's log says why"), 1011)
        else:
            client.entered(channel, asked, actor, session, last)
            if self._round is None and not self.closing:
                self._round = self._loop.call_later(ROUND_S, self._go_round)

    def _go_round(self) -> None:
        """Close connections whose right has ended, idle ones included."""
        connections = [connection for channel in self.channels.values() for connection in channel.connections.values()]
        for connection in connections:
            if not connection.may("read"):
                connection.talk.revoked()
        # No connections: nothing to check.
        self._round = None
        if connections and not self.closing:
            self._round = self._loop.call_later(max(ROUND_S, len(connections) / ROUND_PER_S), self._go_round)

    async def channel(self, space: str, *, create: bool) -> Channel:
        """The channel of a space, opened if necessary."""
        async with self._turn(space):
            channel = self.channels.get(space)
            if channel is not None and channel.is_broken:
                await self._let_go(space, channel)
                channel = None
            if channel is not None and not channel.connections:
                # A client is about to enter: do not close it.
                channel.empty_since = self._loop.time()
            if channel is None:
                self._check_not_ending()
                await self._make_place()
                storage = await self._in_thread(lambda: self._opened(space, create=create and self._create))
                try:
                    self._check_not_ending()
                    self._check_no_twin(space, storage)
                except (ServerLimitError, SpaceTwinError):
                    # The server ends while the disk was slow: the file would stay open in this process.
                    await self._in_thread(storage.close)
                    raise
                channel = self.channels[space] = Channel(storage, self._loop, self._threads, self._use_turns)
                log.info("space opened", extra={"space": space, "seq": channel.head})
            return channel

    def _check_no_twin(self, space: str, storage: Storage) -> None:
        """Raise SpaceTwinError if an open space has the id of this one. Clients do not learn the name of the other."""
        found = storage.identity.id
        twin = next((name for name, each in self.channels.items() if each.storage.identity.id == found), None)
        if twin is not None:
            log.error("space %r has the id of space %r: one file is a copy of the other", space, twin)
            message = (
                f"space {space!r} is not opened: another space of this server has its id {found}, so one file is a "
                "copy of the other; the operator of the server runs `headwater spaces new-id FILE` for the copy"
            )
            raise SpaceTwinError(message, id=found, space=space)

    async def _make_place(self) -> None:
        """Close the space that was unused for longest, if the limit is reached. Raises ServerLimitError if none is."""
        while len(self.channels) >= self._spaces_max:
            ready = self._loop.time() - SPARE_S
            unused = [
                (channel.used_at, space)
                for space, channel in self.channels.items()
                if channel.empty_since is not None and max(channel.empty_since, channel.used_at) <= ready
            ]
            if not unused:
                message = f"{len(self.channels)} spaces are open and in use; try again later, or raise --spaces-max"
                raise ServerLimitError(message)
            _, space = min(unused)
            async with self._turn(space):
                channel = self.channels.get(space)
                if channel is not None and not channel.connections:
                    await self._let_go(space, channel)

    def _check_not_ending(self) -> None:
        if self.closing:
            raise ServerLimitError("the server is ending; try again")

    def _turn(self, space: str) -> asyncio.Lock:
        """The lock for opening and closing a space. Removed when unused."""
        turn = self._turns.get(space)
        if turn is None:
            turn = self._turns[space] = asyncio.Lock()
        return turn

    def _opened(self, space: str, *, create: bool) -> Storage:
        place = self.place(space)
        assert place.path is not None
        if machine().files.is_symlink(place.path):
            raise UsageError(f"{place.path} is a link to somewhere else, and not opened", path=str(place.path))
        if not create and not machine().files.exists(place.path):
            raise NotFoundError(UNKNOWN)
        if _identity(self.folder) != self._identity:
            # Otherwise opening would create an empty space.
            raise UnavailableError(GONE, path=str(self.folder))
        return open_space(f"{self.folder}{os.sep}", space, create=create, threads=self._deciders)

    def missing(self) -> str:
        """Files that were removed while the server runs, as text; empty if none. In a thread: may block."""
        if _identity(self.folder) != self._identity:
            return GONE
        gone = [space for space in list(self.channels) if not machine().files.lexists(self.place(space).path or "")]
        return f"the file of {len(gone)} open spaces was removed; start the server again" if gone else ""

    def place(self, space: str) -> Location:
        """The file of a space."""
        return locate(f"{self.folder}{os.sep}", space)

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await machine().in_pool(self._loop, self._threads, work)

    # -- going -----------------------------------------------------------------------------------------

    def _close_empty(self) -> None:
        """Close spaces without clients, and have idle ones release memory."""
        shrinks = 0
        for space, channel in list(self.channels.items()):
            if self._is_left(channel):
                task = self._loop.create_task(self._close(space))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            elif shrinks < SHRINKS_MAX:
                shrinks += channel.shrink(IDLE_S)
        if not self.closing:
            self._sweep = self._loop.call_later(min(EMPTY_S, IDLE_S) / 2, self._close_empty)

    def _expire(self) -> None:
        """Have each open space delete its expired documents, in a thread."""
        for channel in self.channels.values():
            if channel not in self._expiring:
                self._expiring.add(channel)
                self._threads.submit(channel.expire, self._kept, partial(self._expiring.discard, channel))
        if not self.closing:
            self._expiry = self._loop.call_later(ROUND_MS / 1000, self._expire)

    def _is_left(self, channel: Channel) -> bool:
        return channel.empty_since is not None and self._loop.time() - channel.empty_since >= EMPTY_S

    async def _close(self, space: str) -> None:
        async with self._turn(space):
            channel = self.channels.get(space)
            if channel is not None and not channel.connections and self._is_left(channel):
                await self._let_go(space, channel)

    async def _let_go(self, space: str, channel: Channel) -> None:
        """Close a space; the caller holds its lock. Errors of a failed disk are known already."""
        del self.channels[space]
        # A client that is about to enter it comes again.
        channel.is_broken = True
        with suppress(StoreError):
            await self._in_thread(channel.close)
        self.past.add(channel.commits, channel.delivered, channel.storage.groups, channel.decided)
        log.info("space closed", extra={"space": space})

    async def drain(self, timeout: float) -> None:  # noqa: ASYNC109  # the end of the server has a limit
        """Wait until received commits are decided and their verdicts sent, within the time limit."""
        with suppress(HeadwaterError, asyncio.TimeoutError):
            waiting = [
                machine().in_pool(self._loop, self._threads, partial(channel.storage.wait, timeout))
                for channel in self.channels.values()
            ]
            # A space whose disk does not answer must not prevent waiting for the others.
            await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), timeout)
        # The last outcomes are on their way to the loop, which takes one group of a space in each turn.
        await asyncio.sleep(0)
        while any(channel.has_news for channel in self.channels.values()):  # noqa: ASYNC110  # a turn for each
            await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def close(self) -> None:
        """Close every space."""
        self.closing = True
        if self._sweep is not None:
            self._sweep.cancel()
        if self._expiry is not None:
            self._expiry.cancel()
        if self._round is not None:
            self._round.cancel()
        if self._tasks:
            # Spaces that are being opened.
            await asyncio.wait(list(self._tasks), timeout=DRAIN_S)
        for space, channel in list(self.channels.items()):
            async with self._turn(space):
                for connection in list(channel.connections.values()):
                    channel.leave(connection)
                self.channels.pop(space, None)
                await self._in_thread(channel.close)
        self.turned_away.finish()
        await self._in_thread(self._deciders.close)
        self._threads.shutdown(wait=False)


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        found = machine().files.stat(folder)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _check_life(asked: Open, channel: Channel) -> None:
    """Raise unless the session began in this lineage of the space."""
    if asked.resume and lineage_in(asked.resume) != channel.storage.identity.lineage:
        message = (
            f"space {asked.space!r} was restored to an earlier state, and what was read of it before is not valid "
            "any more; open it again"
        )
        raise SessionLostError(message, space=asked.space)
