"""The process that runs an app: run."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import FrameType
from typing import Any, Final, Self, TypeAlias, TypeVar

import click

from headwater.app import App
from headwater.cli.app_loading import load_app
from headwater.cli.exits import Exit
from headwater.cli.output import count_text, note
from headwater.cli.target import Target
from headwater.cli.workflow_hints import due
from headwater.host.process_lifetime import LOOK_S, hear
from headwater.host.space_facade import SpaceFacade, runtime_of
from headwater.host.standard_streams import last
from headwater.machine import ThreadQueue, machine
from headwater.runtime.options import Options
from headwater.server.ingress import serve_ingress
from headwater.workflow import run_queries
from headwater.workflow.workflow_limits import CONCURRENCY

T = TypeVar("T")

_PORT_MAX: Final = 65535
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_Handler: TypeAlias = Callable[[int, FrameType | None], Any] | int | signal.Handlers | None


class Signals:
    """The first signal asks the process to end, the second one ends it at once.

    Work that is then half done is on disk as it is: the next start resumes it, as after a crash.
    """

    def __init__(self) -> None:
        # Not an Event: a signal may come in the middle of one that is waited for. This queue is made for that.
        self._rung: ThreadQueue[None] = machine().queue()
        self._wakers: list[Callable[[], object]] = [lambda: self._rung.put(None)]
        self.is_near = False
        self._before: dict[int, _Handler] = {}

    def __enter__(self) -> Self:
        if machine().is_main_thread():
            self._before = {number: signal.signal(number, self._hear) for number in _SIGNALS}
        return self

    def __exit__(self, *_error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        if self.is_near:
            self._end_now()
        self.is_near = True
        for wake in self._wakers:
            # A loop that has ended cannot be woken.
            with suppress(RuntimeError):
                wake()

    @staticmethod
    def _end_now() -> None:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        # Without waiting for threads.
        os._exit(Exit.INTERRUPTED)

    def on_near(self, wake: Callable[[], object]) -> None:
        """Call when the process is to end; in a signal handler."""
        self._wakers.append(wake)

    def wake(self) -> None:
        """End a wait; from any thread."""
        self._rung.put(None)

    def wait(self, timeout: float | None) -> bool:
        """Until there is news, or for so many seconds. False: it is time to end."""
        hear(self._rung, timeout, lambda: self.is_near)
        return not self.is_near


async def awake(work: Coroutine[Any, Any, T]) -> T:
    """Await it in a loop that wakes from time to time.

    A signal just before the loop begins to wait does not end that wait: its handler is called when the loop wakes for
    another reason. In plain code `hear` does the same.
    """
    async with asyncio.TaskGroup() as group:
        task = group.create_task(work)
        while not task.done():
            await asyncio.wait([task], timeout=LOOK_S)
    return task.result()


def run_app(  # one for each option
    *, name: str, concurrency: int | None, force: bool, ingress: str | None, quiet: bool, target: Target
) -> None:
    """Carry out `run`."""
    address = None if ingress is None else _address(ingress)
    app = load_app(name, "run")
    # A reader sees each line when it is printed; if it goes away, the app goes on.
    last()
    hosted = _Hosted(app, Options(space=target.space, force=force), concurrency or CONCURRENCY, address, quiet=quiet)
    with Signals() as signals:
        ended = hosted.run(target.given_url, signals)
    if not quiet:
        left = "" if ended else "; some runs did not stop in time, and are taken up by the next start"
        note(f"{app.name} has ended{left}")


def _address(text: str) -> tuple[str, int]:
    """The address to listen at."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > _PORT_MAX:
        raise click.UsageError(f"--ingress {text}: HOST:PORT is expected, such as 127.0.0.1:8400")
    return host.strip("[]"), int(port)


class _Hosted:
    """An app that is run, and the remarks about it."""

    def __init__(
        self, app: App, options: Options, concurrency: int, ingress: tuple[str, int] | None, *, quiet: bool
    ) -> None:
        self._app = app
        self._ingress = ingress
        self._options = options
        self._concurrency = concurrency
        self._quiet = quiet

    def run(self, url: str | None, signals: Signals) -> bool:
        """Until the end; whether all runs came to where they can stop."""
        if not self._app.needs_event_loop:
            return self._plainly(url, signals)

        return machine().run(self._in_loop(url, signals))

    def _plainly(self, url: str | None, signals: Signals) -> bool:
        with self._app.open_with(url, self._options, signals.wake) as opened:
            self._begin(opened)
            runtime = runtime_of(opened)
            while signals.wait(runtime.wake_in()):
                opened.settle()
            return self._stop(opened)

    async def _in_loop(self, url: str | None, signals: Signals) -> bool:
        """For an app with functions that need an event loop."""
        near = asyncio.Event()
        loop = asyncio.get_running_loop()
        signals.on_near(lambda: loop.call_soon_threadsafe(near.set))
        async with self._app.aopen_with(url, self._options) as opened:
            self._begin(opened)
            if not signals.is_near:
                await awake(near.wait())
            return await awake(machine().to_thread(self._stop, opened))

    def _begin(self, opened: SpaceFacade) -> None:
        workflows = opened.workflows
        # Before anything runs: its output comes after this.
        if not self._quiet:
            note(f"running {self._app.name} in space {opened.name!r}: {self._described(opened)}")
            for line in self._not_here(opened):
                note(line)
        if self._ingress is not None:
            host, port = self._ingress
            serving = serve_ingress(opened, host, port, token=os.environ.get("HEADWATER_TOKEN") or None)
            if not self._quiet:
                note(f"events are taken at {serving.url}/topics/WORKFLOW/TOPIC")
        workflows.start(self._concurrency)

    def _stop(self, opened: SpaceFacade) -> bool:
        """Whether all runs came to where they can stop."""
        alive = sorted(opened.workflows.hub.alive.copy())
        if alive and not self._quiet:
            runs = ", ".join(map(str, alive))
            note(f"waiting for run {runs} to end, or to come to where it can stop; once more ends at once")
        return opened.workflows.stop()

    def _not_here(self, opened: SpaceFacade) -> list[str]:
        """Workflows of this app that are in the file, and not in the program any more."""
        names = tuple(opened.workflows.names)
        hosts = run_queries.Hosts(names, (self._app.name,), names)
        views = opened.workflows.hub.look(lambda tables: run_queries.flows(tables, hosts=hosts))
        return [f"{view.name}: {view.sentence}" for view in views if view.gone]

    def _described(self, opened: SpaceFacade) -> str:
        hub = opened.workflows.hub
        names = opened.workflows.names
        if not names:
            return "no workflows; Ctrl-C ends it"
        now = hub.now()
        views = hub.look(lambda tables: [run_queries.flow(tables, name, recent=0) for name in names])
        described = []
        for view in views:
            flow = hub.hosted[view.name].flow
            state = view.sentence if view.block_kind is not None or view.intent != "active" else ""
            at = f"next {due(view.due_at, now)}" if view.due_at is not None else ""
            described.append(f"{view.name} ({', '.join(filter(None, (flow.schedule, at, state.rstrip('.'))))})")
        return f"{count_text(len(described), 'workflow')}: {'; '.join(described)}"
