"""An app with a workflow, as a module that commands can run: letters come in, and each says what becomes of it."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from headwater.runtime.options import Options
from headwater.testing import SimClock
from tests.support.open_spaces import BEGINNING, running

LETTERS = '''
import os
from pathlib import Path
import headwater as hw

app = hw.App("post")
sent = app.cell("sent", 0)
flow = app.workflow("letters")
letters = flow.topic("letters", str)
parcels = app.workflow("parcels", on_poison="park")
boxes = parcels.topic("boxes", str)

@app.sink
def show() -> None:
    print("sent", sent.value)

@flow.producer(every="1h")
def poll() -> None:
    """What stands in the folder `box`: its name is its id."""
    for file in sorted(Path("box").glob("*")):
        letters.publish(file.read_text(), id=file.name, title=f"Letter {file.name}")

@parcels.producer(cron="0 9 * * 1-5", zone="Europe/Berlin")
def collect() -> None:
    for file in sorted(Path("boxes").glob("*")):
        boxes.publish(file.read_text(), id=file.name, title=f"Box {file.name}")

class Send(hw.Consumer[str, str, int]):
    def prepare(self, pending):
        if not pending:
            return hw.Plan.idle()
        text = pending[0].data
        if text == "wrong":
            raise ValueError("it cannot be read\\x1b[2J")
        if "closed" in text and not Path("opened").exists():
            raise OSError("the post office is closed")
        if text == "die early":
            os._exit(9)
        return hw.Plan(text, take=pending[:1], title=f"Send {pending[0].id}", ask=text == "ask")

    def mutate(self, run, data):
        if "lost" in data:
            raise TimeoutError("no answer")
        if data == "die":
            os._exit(9)
        if data == "wait":
            Path("waiting").touch()
            # A pipe with a name: opened when somebody else does.
            Path("go").read_text()
        return 1

    def next(self, run, data, outcome):
        if data == "unfiled" and not Path("opened").exists():
            raise ValueError("no such drawer")
        sent.value += 1

flow.consumer(letters, retry=hw.Retry(1, backoff="1h", on=OSError))(Send)
parcels.consumer(boxes, name="Carry", retry=hw.Retry(0))(Send)
'''
"""The module `letters`."""

STAYING = (
    BEGINNING
    + """
from letters import *
with app.open(sys.argv[1], on_error=lambda _: None) as space:
    if "host" in sys.argv:
        space.workflows.start()
    ready()
    for line in sys.stdin:
        exec(line)
        ready("done")
"""
)
"""Has it open until its input ends, and does what it is told there."""


class Post:
    """A space of it, in a file that nobody has open between two calls; and the time there."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.clock = SimClock()
        write_letters()
        self.module: ModuleType = importlib.import_module("letters")

    def work(self, *letters: str, boxes: tuple[str, ...] = ()) -> None:
        """These come in, `name=text`, and everything that is due is done."""
        put("box", letters)
        put("boxes", boxes)
        options = Options(wall=self.clock.now_ms, on_error=lambda _: None)
        with self.module.app.open_with(self.url, options) as space:
            for flow in (self.module.flow, self.module.parcels):
                if (letters or boxes) and flow.status.state == "Idle" and flow.status.retry_at is None:
                    flow.now()
            space.workflows.drain()


def put(folder: str, letters: tuple[str, ...]) -> None:
    """Into the folder that is polled."""
    Path(folder).mkdir(exist_ok=True)
    for letter in letters:
        name, _, text = letter.partition("=")
        Path(folder, name).write_text(text or "hello", encoding="utf-8")


def write_letters() -> None:
    """Put `letters.py` into the current folder."""
    Path("letters.py").write_text(LETTERS, encoding="utf-8")


@contextmanager
def letters_open(url: str = "post.db", *, host: bool = False) -> Iterator[subprocess.Popen[str]]:
    """A process that has it open, and executes what is due if it is a host. It is killed in the end."""
    write_letters()
    # Nothing that it prints is mixed with what it says here.
    silent = "import letters\nletters.print = lambda *_: None\nfrom letters import *\ndel print"
    program = STAYING.replace("from letters import *", silent)
    with running(program, url, *(["host"] if host else [])) as process:
        yield process


def release() -> None:
    """Let a letter go whose text is "wait"."""
    descriptor = os.open("go", os.O_WRONLY)
    os.write(descriptor, b"go")
    os.close(descriptor)


def forget() -> None:
    """Other tests have others of that name."""
    sys.modules.pop("letters", None)
