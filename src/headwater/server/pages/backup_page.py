"""Backup of a space in use, over HTTP: a consistent copy is made on disk, sent, and deleted."""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from starlette.exceptions import HTTPException

from headwater.access.grants import Grant
from headwater.access.rights import Right
from headwater.errors import ClosedError, StoreFullError
from headwater.machine import File, machine
from headwater.server.authenticator import Authenticator
from headwater.server.pages.page_access import check_right, grant_of, peer_of
from headwater.server.spaces.channel import Channel
from headwater.store.engine import Engine

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

log: Final = logging.getLogger("headwater.server")

AT_ONCE_MAX: Final = 2
"""Copies made or sent at the same time. Each takes as much disk space as its space."""

STALL_S: Final = 60.0
"""Time for a client to read CHUNK bytes. A slower one must not keep a copy on the disk."""

CHUNK: Final = 256 * 1024
TRIES: Final = 3
"""Attempts: an unused space may be closed just after it was found."""

_MARK: Final = ".headwater-backup-"
_SIDES: Final = ("", "-wal", "-journal", "-shm")
SEQ_HEADER: Final = "headwater-seq"


class Backups:
    """The backup page of one server."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator
        self.under_way = 0
        sweep(authenticator.spaces.folder)

    async def backup(self, request: Request) -> Sending:
        """Send a whole space to a client with the right `own`."""
        if request.method != "GET":
            # HEAD would need a whole copy to know the size.
            raise HTTPException(405, "a backup is got, or not", {"allow": "GET"})
        return await self.sent(grant_of(request, self._authenticator), request.path_params["space"], peer_of(request))

    async def sent(self, grant: Grant, space: str, peer: str, name: str = "") -> Sending:
        """The response for a grant. `name`: of the file that a browser saves. Raises HTTPException."""
        check_right(self._authenticator, grant, space, Right.OWN)
        if self.under_way >= AT_ONCE_MAX:
            message = f"{AT_ONCE_MAX} backups are under way; try again later"
            raise HTTPException(503, message, {"retry-after": "10"})
        self.under_way += 1
        try:
            file, seq = await self._copy(space)
        except BaseException:
            self.under_way -= 1
            raise
        spaces = self._authenticator.spaces
        said = {"space": space, "peer": peer, "actor": grant.actor or "", "grant": grant.id, "seq": seq}
        log.info("backup begins", extra=said)
        # Allowed on a full disk: the line of the audit log is written when there is room.
        spaces.access.audit.write_or_owe("backup", peer=peer, space=space, id=grant.id, seq=seq)

        def ended(*, complete: bool) -> None:
            self.under_way -= 1
            self._authenticator.traffic.backups += complete
            log.info("backup was sent" if complete else "backup was broken off", extra=said)

        return Sending(file, seq, lambda: spaces.right(grant, space) >= Right.OWN, ended, name)

    async def _copy(self, space: str) -> tuple[File, int]:
        """Make a copy: an open file without a name, and the sequence number that it includes."""
        spaces = self._authenticator.spaces
        places = places_for(spaces.folder)
        name = f"{_MARK}{machine().process_id()}-{machine().token_hex(6)}.part"
        turn = 0
        while True:
            channel = await spaces.channel(space, create=False)
            try:
                return await _copied(channel, places[0] / name)
            except ClosedError:
                turn += 1
                if turn == TRIES:
                    raise
            except (StoreFullError, OSError) as error:
                # Backups matter most on a full disk: try another place.
                log.warning("no room for a backup in %s: %s", places[0], error)
                if len(places) == 1:
                    raise _no_room(error) from error
                places = places[1:]


async def _copied(channel: Channel, path: Path) -> tuple[File, int]:
    """Copy in steps: commits between two steps are decided as usual, and included."""
    storage = channel.storage
    pieces: Generator[tuple[int, int], None, None] | None = None

    def copy(engine: Engine) -> int | None:
        nonlocal pieces
        pieces = pieces or engine.backend.copying(str(path))
        done, total = next(pieces)
        # The last step fixes the sequence number.
        return engine.head if done == total else None

    def finish(_engine: Engine) -> None:
        if pieces is not None:
            pieces.close()

    try:
        # Private to this user, whatever the folder's permissions.
        machine().files.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600).close()
        seq = None
        while seq is None:
            channel.keep()
            seq = await machine().to_thread(storage.call, copy)
        await machine().to_thread(storage.call, finish)
        return machine().files.open(path, os.O_RDONLY), seq
    except BaseException:
        # In the storage's lock, since others use the file; a closed one needs none.
        with suppress(ClosedError):
            await asyncio.shield(machine().to_thread(storage.call, finish))
        raise
    finally:
        # Unlinked: a crash leaves no copy behind.
        for side in _SIDES:
            machine().files.remove(path.with_name(path.name + side))


def places_for(folder: Path) -> list[Path]:
    """Folders for a copy, best first: beside the spaces, temporary files, shared memory."""
    others = (Path(tempfile.gettempdir()), Path("/dev/shm"))  # noqa: S108  # a name by chance, and readable by one user
    return [folder, *(each for each in others if machine().files.is_dir(each) and machine().files.can_write(each))]


def _no_room(error: StoreFullError | OSError) -> StoreFullError:
    if isinstance(error, StoreFullError):
        return error
    return StoreFullError(f"there is no room for a copy: {error.strerror or error.errno}")


def sweep(folder: Path) -> None:
    """Delete copies left by a server that was killed."""
    for place in places_for(folder):
        for path in _left_in(place):
            # In other folders another server may be active; in the folder of the spaces none can be.
            if place == folder or not _is_in_use(path):
                with suppress(OSError):
                    machine().files.unlink(path)


def _left_in(folder: Path) -> list[Path]:
    try:
        return [folder / name for name in machine().files.names(folder) if name.startswith(_MARK)]
    except OSError:
        return []


def _is_in_use(path: Path) -> bool:
    pid = path.name.removeprefix(_MARK).partition("-")[0]
    return not pid.isdecimal() or Path(f"/proc/{pid}").exists() or not Path("/proc/self").exists()


class Sending:
    """The response: the file in chunks. It ends when the client loses its right."""

    def __init__(
        self, file: File, seq: int, may: Callable[[], bool], ended: Callable[..., None], name: str = ""
    ) -> None:
        self._file = file
        self._seq = seq
        self._may = may
        self._ended = ended
        self._name = name
        # From here on `disconnect` is reported in any case.
        self._is_last = False

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI interface."""
        complete = False
        try:
            async with self._unless_gone(receive):
                size = self._file.stat().st_size
                headers = {
                    "content-type": "application/vnd.sqlite3",
                    "content-length": str(size),
                    "cache-control": "no-store",
                    SEQ_HEADER: str(self._seq),
                }
                if self._name:
                    # Percent-encoded: a name of a space may have any character.
                    headers["content-disposition"] = f"attachment; filename*=UTF-8''{quote(self._name, safe='')}"
                    headers["x-content-type-options"] = "nosniff"
                pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
                await send({"type": "http.response.start", "status": 200, "headers": pairs})
                await self._send(send, size)
                complete = True
        finally:
            self._file.close()
            self._ended(complete=complete)

    async def _send(self, send: Send, size: int) -> None:
        at = 0
        while at < size:
            data = await machine().to_thread(self._file.read_at, CHUNK, at)
            if not data or not self._may():
                # Shorter than announced: the client notices that it is incomplete.
                raise BrokenOffError
            at += len(data)
            self._is_last = at == size
            async with asyncio.timeout(STALL_S):
                await send({"type": "http.response.body", "body": data, "more_body": at < size})

    @asynccontextmanager
    async def _unless_gone(self, receive: Receive) -> AsyncIterator[None]:
        """Cancel the block when the client disconnects."""
        task = asyncio.current_task()
        assert task is not None
        is_gone = False

        async def watch() -> None:
            nonlocal is_gone
            while (await receive())["type"] != "http.disconnect":
                pass
            if not self._is_last:
                is_gone = True
                task.cancel()

        watching = asyncio.get_running_loop().create_task(watch())
        try:
            yield
        except asyncio.CancelledError:
            if not is_gone:
                raise
            task.uncancel()
            raise BrokenOffError from None
        finally:
            watching.cancel()


class BrokenOffError(Exception):
    """The response was cut off."""
