"""An app that this process runs, with its workflows, until a signal."""

from __future__ import annotations

import asyncio
import os

from headwater.app import App
from headwater.cli.output import note
from headwater.cli.workflow_hints import due
from headwater.host.space_facade import SpaceFacade, opening_of
from headwater.host.termination import Termination, awake
from headwater.machine import machine
from headwater.runtime.options import Options
from headwater.server.ingress import serve_ingress
from headwater.values.text import count_text
from headwater.workflow import run_queries


class HostedApp:
    """An app that this process runs, with notes for people."""

    def __init__(
        self, app: App, options: Options, concurrency: int, ingress: tuple[str, int] | None, *, quiet: bool
    ) -> None:
        self._app = app
        self._ingress = ingress
        self._options = options
        self._concurrency = concurrency
        self._quiet = quiet

    def run(self, url: str | None, signals: Termination) -> bool:
        """Run until a signal. Returns whether all runs reached a point where they can stop."""
        if not self._app.needs_event_loop:
            return self._plainly(url, signals)

        return machine().run(self._in_loop(url, signals))

    def _plainly(self, url: str | None, signals: Termination) -> bool:
        with self._app.open_with(url, self._options, signals.wake) as opened:
            self._begin(opened)
            runtime = opening_of(opened)
            while signals.wait(runtime.wake_in()):
                opened.settle()
            return self._stop(opened)

    async def _in_loop(self, url: str | None, signals: Termination) -> bool:
        """The same, for an app with functions that need an event loop."""
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
        # Before the first run, whose output comes after this.
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
        """Stop the host. Returns whether all runs reached a point where they can stop."""
        alive = sorted(opened.workflows.hub.alive.copy())
        if alive and not self._quiet:
            runs = ", ".join(map(str, alive))
            note(f"waiting for run {runs} to end, or to come to where it can stop; once more ends at once")
        return opened.workflows.stop()

    def _not_here(self, opened: SpaceFacade) -> list[str]:
        """Workflows of this app that are in the file, but no longer in the program."""
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
