"""Questions of owners to one connected program, about its functions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headwater.errors import ServerLimitError
from headwater.server.server_limits import LOOK_S, LOOKS_MAX
from headwater.sync.frames import Look


class Looks:
    """The questions to one program that have no answer yet. In the event loop."""

    def __init__(self, send: Callable[[Look], None]) -> None:
        self._send = send
        self._waiting: dict[int, asyncio.Future[str]] = {}
        self._number = 0

    async def ask(self, question: str, actor: str) -> str:
        """The answer of the program. Empty: it does not answer now. Raises ServerLimitError."""
        if len(self._waiting) >= LOOKS_MAX:
            raise ServerLimitError(f"{LOOKS_MAX} questions to this program have no answer yet; try again")
        self._number += 1
        number = self._number
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            self._send(Look(number, question, actor))
            async with asyncio.timeout(LOOK_S):
                return await answer
        except TimeoutError:
            return ""
        finally:
            self._waiting.pop(number, None)

    def seen(self, number: int, answer: str) -> None:
        """An answer of the program. An answer that is not expected, or comes too late, is dropped."""
        found = self._waiting.get(number)
        if found is not None and not found.done():
            found.set_result(answer)

    def end(self) -> None:
        """The connection has ended."""
        for each in self._waiting.values():
            if not each.done():
                each.set_result("")
