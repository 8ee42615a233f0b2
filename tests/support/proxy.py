"""A proxy between a client and a server that cuts, delays, refuses and freezes, for tests of what comes of that.

    with Proxy(server.port) as proxy:
        url = f"ws://127.0.0.1:{proxy.port}/space"   # a token is needed: the local one is for the server's own port
        proxy.cut()           # every connection there is ends at once, in the middle of whatever is on its way
        proxy.refuse(True)    # who comes is sent away; False: no longer
        proxy.delay(0.05)     # everything takes so long, in each direction; what is on its way already does not
        proxy.freeze(True)    # half open: connections stay, new ones are taken, and nothing is passed on
        proxy.cut_after(4096) # cut as soon as so many more bytes were passed on to the server; returns at once
        proxy.retarget(port)  # who comes from now on is led to another port: the server was started again

It runs in a thread of its own. Each method returns when it has been done; `taken`, `to_server` and `to_client` count
connections and bytes.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Final, Self
from weakref import WeakSet

_CHUNK: Final = 64 * 1024
_SAFETY_S: Final = 120.0


class Proxy:
    """One port that leads to another, on this machine."""

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        self.port = 0
        self.taken = 0
        self.to_server = 0
        self.to_client = 0
        self._refusing = False
        self._delay = 0.0
        self._cut_at: int | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._pumps: set[asyncio.Task[None]] = set()
        self._ends: WeakSet[asyncio.WriteTransport] = WeakSet()
        self._loop = asyncio.new_event_loop()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._started: Future[None] = Future()
        self._over = asyncio.Event()

    # -- for tests -----------------------------------------------------------------------------------------

    def cut(self) -> None:
        """End every connection there is, at once."""
        self._call(self._cut)

    def cut_after(self, size: int) -> None:
        """The same, when so many more bytes were passed on to the server."""

        def mark() -> None:
            self._cut_at = self.to_server + size

        self._call(mark)

    def refuse(self, on: bool) -> None:
        """Send away whoever comes, or no longer."""
        self._call(lambda: setattr(self, "_refusing", on))

    def delay(self, seconds: float) -> None:
        """Pass everything on so much later."""
        self._call(lambda: setattr(self, "_delay", seconds))

    def freeze(self, on: bool) -> None:
        """Pass nothing on, and end nothing; or go on."""
        self._call(self._flowing.clear if on else self._flowing.set)

    def retarget(self, port: int) -> None:
        """Lead whoever comes from now on to another port."""
        self._call(lambda: setattr(self, "target_port", port))

    @property
    def connections(self) -> int:
        """How many there are now."""
        return len(self._writers) // 2

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.result(_SAFETY_S)
        return self

    def __exit__(self, *_error: object) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(_SAFETY_S)

    def _call(self, do: Callable[[], object]) -> None:
        done: Future[None] = Future()

        def call() -> None:
            do()
            done.set_result(None)

        self._loop.call_soon_threadsafe(call)
        done.result(_SAFETY_S)

    # -- the thread ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:
            if not self._started.done():
                self._started.set_exception(error)
            raise
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set_result(None)
        await self._over.wait()
        for listener in server.sockets:
            self._loop.remove_reader(listener.fileno())
        # Connections just accepted: asyncio would lose them at a closed server, and the sockets would not be closed.
        await self._turns()
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._cut()
        for end in list(self._ends):
            end.abort()
        await self._turns()

    async def _turns(self) -> None:
        """Let pass as many turns of the loop as accepting or aborting a connection takes."""
        for _ in range(4):
            await asyncio.sleep(0)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # asyncio reports a callback for connections that was cancelled as an error.
        with suppress(asyncio.CancelledError):
            await self._lead(reader, writer)

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.taken += 1
        self._ends.add(writer.transport)
        if self._refusing:
            writer.transport.abort()
            return
        try:
            further, back = await asyncio.open_connection("127.0.0.1", self.target_port)
        except OSError:
            writer.transport.abort()
            return
        self._ends.add(back.transport)
        self._writers |= {writer, back}
        there = asyncio.ensure_future(self._pump(reader, back, is_there=True))
        here = asyncio.ensure_future(self._pump(further, writer, is_there=False))
        self._pumps |= {there, here}
        for pump in (there, here):
            pump.add_done_callback(self._pumps.discard)
        await asyncio.wait((there, here), return_when=asyncio.FIRST_COMPLETED)
        # One side has ended it: so does the other, once it has what was on its way.
        _, left = await asyncio.wait((there, here), timeout=1.0)
        for pump in left:
            pump.cancel()
        for end in (writer, back):
            self._writers.discard(end)
            end.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_there: bool) -> None:
        loop = self._loop
        line: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        passing = asyncio.ensure_future(self._pass_on(line, writer, is_there=is_there))
        self._pumps.add(passing)
        passing.add_done_callback(self._pumps.discard)
        with suppress(OSError):
            while data := await reader.read(_CHUNK):
                line.put_nowait((loop.time() + self._delay, data))
        line.put_nowait((loop.time() + self._delay, b""))
        await passing

    async def _pass_on(
        self, line: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter, *, is_there: bool
    ) -> None:
        with suppress(OSError):
            while True:
                due, data = await line.get()
                if (left := due - self._loop.time()) > 0:
                    await asyncio.sleep(left)
                await self._flowing.wait()
                if not data:
                    writer.write_eof()
                    return
                if is_there:
                    data = self._up_to_the_cut(data)
                    self.to_server += len(data)
                else:
                    self.to_client += len(data)
                writer.write(data)
                await writer.drain()
                if self._cut_at is not None and self.to_server >= self._cut_at:
                    self._cut_at = None
                    # What was passed on leaves first.
                    await asyncio.sleep(0)
                    self._cut()

    def _up_to_the_cut(self, data: bytes) -> bytes:
        return data if self._cut_at is None else data[: max(self._cut_at - self.to_server, 0)]

    def _cut(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()
        self._writers.clear()
