"""An app with one workflow, opened with a clock that stands still; closed, opened again, and declared anew at will."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import headwater as hw
from headwater.app import App
from headwater.errors import UserCodeError
from headwater.runtime.options import Options
from headwater.testing import SimClock
from headwater.workflow.run_queries import RunDetails, RunView, run_details

SAFETY_S = 120
"""No test waits this long unless it fails."""


@dataclass(frozen=True)
class Note:
    name: str
    text: str = ""


class Mill:
    """What a test declares its handlers on. `log` is what they have done, in order."""

    def __init__(self, folder: Path | None = None, clock: SimClock | None = None, **options: Any) -> None:
        self.app = App("mill")
        self.flow = self.app.workflow("notes", **options)
        self.notes = self.flow.topic("notes", Note)
        self.total = self.app.cell("total", 0)
        self.url = "memory:" if folder is None else str(folder / "mill.db")
        self.clock = clock or SimClock()
        self.log: list[Any] = []
        self.errors: list[UserCodeError] = []

    @contextmanager
    def open(self, **options: Any) -> Iterator[hw.Space]:
        # Nobody cuts the power here.
        chosen: dict[str, Any] = {"wall": self.clock.now_ms, "on_error": self.errors.append, "durability": "normal"}
        with self.app.open_with(self.url, Options(**{**chosen, **options})) as space:
            yield space

    def put(self, *names: str) -> None:
        """Publish a note of each name."""
        for name in names:
            self.notes.publish(Note(name, f"text of {name}"), id=name, title=f"Note {name}")

    def advance(self, seconds: float) -> None:
        self.clock.advance(int(seconds * 1000))

    # -- looking -------------------------------------------------------------------------------------------

    @property
    def runs(self) -> list[RunView]:
        """Oldest first."""
        return self.flow.runs()[::-1]

    @property
    def last(self) -> RunView:
        """The newest run that did something."""
        return self.flow.runs()[0]

    @property
    def statuses(self) -> list[str]:
        return [run.status for run in self.runs]

    def details(self, run: int) -> RunDetails:
        hub, _ = self.flow._target()
        return hub.look(lambda tables: run_details(tables, run))

    def events(self, topic: str = "notes") -> dict[str, str]:
        """What became of each, by its id."""
        hub, _ = self.flow._target()
        query = (
            "select message, status from flow_event where topic in (select id from flow_topic where name = ?) "
            "order by id"
        )
        return dict(hub.look(lambda tables: tables.execute(query, topic)))

    # -- consumers -----------------------------------------------------------------------------------------

    def taker(self, **methods: Callable[..., Any]) -> type[hw.Consumer[Note, Any, Any]]:
        """A consumer of the notes that takes all it is shown, with methods of the test's own instead of these."""
        log = self.log

        def prepare(_: object, pending: Any) -> hw.Plan[Any]:
            if not pending:
                return hw.Plan.idle()
            return hw.Plan([e.id for e in pending], take=pending, title=f"Take {len(pending)}")

        def mutate(_: object, run: hw.Run, data: Any) -> Any:
            log.append(("mutate", data))
            return len(data)

        def after(_: object, run: hw.Run, data: Any, outcome: Any) -> None:
            log.append(("next", data, outcome.result))

        given: dict[str, Any] = {"prepare": prepare, "mutate": mutate, "next": after, **methods}
        return type("Take", (hw.Consumer,), {n: method for n, method in given.items() if method is not None})

    def take(self, *, consumer: dict[str, Any] | None = None, **methods: Any) -> None:
        """Declare it. A method that is None is not there."""
        self.flow.consumer(self.notes, **(consumer or {}))(self.taker(**methods))


def waited(event: threading.Event) -> None:
    """What a test waits for has happened."""
    assert event.wait(SAFETY_S), "it has not happened"


def until(holds: Callable[[], object]) -> None:
    """Look again and again, for what another thread does and tells nobody."""
    pause = threading.Event()
    for _ in range(SAFETY_S * 100):
        if holds():
            return
        pause.wait(0.01)
    raise AssertionError("it has not come to be")
