"""Programs to start, to kill and to tell to end: each hosts workflows with `app.run`, in threads, by the real clock.

`program("many", ...)` starts one. What it prints is what a test waits for.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import headwater as hw
from headwater.host.workflow_host import Host, Workflows
from headwater.machine import Machine
from headwater.workflow import stopping
from tests.support.service import SAFETY_S
from tests.system.crash.workflows.post import RETRY, Answer, Client, Office

ROOT = Path(__file__).parents[4]
PATIENCE_S = 300
"""No test waits this long unless it fails."""
FLOWS = 8
EVENTS = 60


def say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


def put_forward(hours: float) -> None:
    """Every life an hour later than the one before: what waits because hosts were killed is due when one starts."""
    real = Machine.now_ms
    setattr(Machine, "now_ms", lambda self: real(self) + int(hours * 3_600_000))  # noqa: B010  # `app.run` has no seam


# --- many workflows -------------------------------------------------------------------------------------------


def many(path: str, url: str, hours: str) -> None:
    """Workflows side by side. Each counts what it has done, in a cell of its own: none waits for another there."""
    put_forward(float(hours))
    # It is the test that ends the host, and not the work that is under way: that is not taken for the reason.
    setattr(stopping, "CRASHES", 100)  # noqa: B010  # a constant
    app = hw.App("posts")
    counts = [app.cell(f"count{number}", 0) for number in range(FLOWS)]
    for number, count in enumerate(counts):
        add_flow(app, f"w{number}", Client(url, 10.0), count)

    @app.sink
    def tell() -> None:
        if sum(count.value for count in counts) == FLOWS * EVENTS:
            say("done")

    app.run(path)


def add_flow(app: hw.App, name: str, client: Client, count: hw.Cell[int]) -> None:
    flow = app.workflow(name)
    mail = flow.topic("mail", str)

    @flow.producer(every="1d")
    def poll() -> None:
        for event in range(EVENTS):
            mail.publish("", id=f"{name}-{event}")

    @flow.consumer(mail, retry=RETRY)
    class Send(hw.Consumer[str, list[str], int]):
        def prepare(self, pending: Sequence[hw.Event[str]]) -> hw.Plan[list[str]]:
            return hw.Plan([pending[0].id], take=pending[:1]) if pending else hw.Plan.idle()

        def mutate(self, run: hw.Run, data: list[str]) -> int:
            return client.post(run.key, data)

        def reconcile(self, run: hw.Run, data: list[str]) -> Answer:  # noqa: ARG002  # as it is called
            return client.look(run.key)

        def next(self, run: hw.Run, data: list[str], outcome: hw.Outcome[int]) -> None:  # noqa: ARG002  # likewise
            count.value += 1


# --- one that is told to end ----------------------------------------------------------------------------------


def slow_prepare(path: str, url: str, hours: str) -> None:
    """Its prepare ends only when the host is about to."""
    put_forward(float(hours))
    office = Office(url)
    kind = office.flow.consumers["Send"].kind
    prepare = kind.prepare

    def held(self: hw.Consumer[object, object, object], pending: Sequence[hw.Event[object]]) -> object:
        if pending:
            host = host_of(office)
            say("preparing")
            wait_for_stop(host)
        return prepare(self, pending)

    kind.prepare = held  # type: ignore[method-assign,assignment]  # slower than its author wrote it
    tell_end(office)
    office.app.run(path)
    say("ended")


def plain(path: str, url: str, hours: str) -> None:
    """The post office as it is. What holds it up is the service."""
    put_forward(float(hours))
    office = Office(url)
    threading.Thread(target=tell_stop, args=(office,), daemon=True).start()
    tell_end(office)
    office.app.run(path)
    say("ended")


def impatient(path: str, url: str, hours: str) -> None:
    """Its mutate may not take as long as it does; how the workflow is, is told."""
    put_forward(float(hours))
    office = Office(url, patience=SAFETY_S, timeout=0.1)

    @office.app.sink
    def tell() -> None:
        say(f"state {office.flow.status.state}: {office.flow.status.sentence}")

    tell_end(office)
    office.app.run(path)
    say("ended")


def tell_end(office: Office) -> None:
    """When every letter was noted."""

    @office.app.sink
    def all_noted() -> None:
        if len(office.noted.value) == len(office.letters):
            say("done")


def tell_stop(office: Office) -> None:
    """When the host begins to end."""
    wait_for_stop(host_of(office))
    say("stopping")


def host_of(office: Office) -> Host:
    """As soon as there is one."""
    while True:
        workflows = office.app._homes[0]._workflows if office.app._homes else None
        if isinstance(workflows, Workflows) and workflows._host is not None:
            return workflows._host
        time.sleep(0.001)


def wait_for_stop(host: Host) -> None:
    """Until it has told its runs that it ends."""
    while not host.is_stopping:
        time.sleep(0.001)
    with host._changed:
        # It tells them all before it lets go of this.
        pass


# --- for tests ------------------------------------------------------------------------------------------------


@contextmanager
def program(name: str, path: Path, url: str, hours: float = 0) -> Iterator[subprocess.Popen[str]]:
    """One of the functions above, in a process of its own."""
    code = f"from {__name__} import {name}; {name}({str(path)!r}, {url!r}, {str(hours)!r})"
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", code], stdout=pipe, stderr=pipe, text=True, cwd=ROOT
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_until(process: subprocess.Popen[str], words: str) -> None:
    """Until it has said so. If it never does, it is ended, and shows where its threads are."""
    assert process.stdout is not None
    guard = threading.Timer(PATIENCE_S, process.send_signal, [signal.SIGABRT])
    guard.start()
    try:
        for line in process.stdout:
            if line.startswith(words):
                return
    finally:
        guard.cancel()
    assert process.stderr is not None
    raise AssertionError(f"it never said {words!r}\n{process.stderr.read()}")
