"""Liveness and readiness of the server."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from starlette.responses import PlainTextResponse, Response

from headwater.machine import machine
from headwater.server.spaces.served_spaces import ServedSpaces

if TYPE_CHECKING:
    from starlette.requests import Request

FRESH_S: Final = 1.0
"""How long a check of the disk is cached: frequent requests must not keep it busy."""

_PREFIX: Final = ".headwater-ready-"


class Health:
    """The health of one server. The server sets `started` when clients can connect."""

    def __init__(self, spaces: ServedSpaces) -> None:
        self._spaces = spaces
        self.started = False
        self._trouble = ""
        self._looked_at = float("-inf")
        self._looking = asyncio.Lock()

    async def healthz(self, _request: Request) -> Response:
        """Liveness: also while the server ends."""
        return _plain("ok")

    async def readyz(self, _request: Request) -> Response:
        """Readiness."""
        if self._spaces.closing:
            return _plain("ending", 503)
        if not self.started:
            return _plain("starting", 503)
        trouble = await self._disk() or next(
            filter(None, (channel.trouble for channel in self._spaces.channels.values())), ""
        )
        return _plain(trouble, 503) if trouble else _plain("ready")

    async def _disk(self) -> str:
        loop = asyncio.get_running_loop()
        async with self._looking:
            if loop.time() - self._looked_at >= FRESH_S:
                self._trouble = await machine().to_thread(self._look)
                self._looked_at = loop.time()
            return self._trouble

    def _look(self) -> str:
        return self._spaces.missing() or write_trouble(self._spaces.folder)


def write_trouble(folder: Path) -> str:
    """Why nothing can be written; empty if it can. Tried with a real write."""
    files = machine().files
    path = folder / f"{_PREFIX}{machine().process_id()}-{machine().token_hex(4)}.part"
    try:
        with files.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666) as file:
            file.write(b"?")
    except OSError as error:
        return f"the folder of the spaces cannot be written: {error.strerror}"
    finally:
        with suppress(OSError):
            files.remove(path)
    return ""


def _plain(text: str, status: int = 200) -> Response:
    return PlainTextResponse(f"{text}\n", status, {"cache-control": "no-store"})
