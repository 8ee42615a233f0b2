"""headwater run: a process that runs an app, until it is told to end."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.cli.processes import COMMAND, holding
from tests.cli.test_workflow_live import blocked, until
from tests.support.letters import LETTERS, put, release, write_letters
from tests.support.open_spaces import SAFETY_S

ASYNC = """
import asyncio
import headwater as hw

app = hw.App("later")
sent = app.cell("sent", 0)
flow = app.workflow("later")
names = flow.topic("names", str)

@app.handler
async def greet(name: str) -> None:
    await asyncio.sleep(0)
    names.publish(name, id=name, title=f"Name {name}")

@app.sink
def show() -> None:
    print("sent", sent.value)

@flow.producer(every="1h")
async def poll() -> None:
    await asyncio.sleep(0)
    names.publish("ann", id="ann", title="Name ann")

@flow.consumer(names)
class Greet(hw.Consumer[str, str, str]):
    async def prepare(self, pending):
        await asyncio.sleep(0)
        return hw.Plan(pending[0].data, take=pending[:1], title="Greet") if pending else hw.Plan.idle()

    async def mutate(self, run, data):
        await asyncio.sleep(0)
        return data

    async def next(self, run, data, outcome):
        await asyncio.sleep(0)
        sent.value += 1
"""


class Hosted:
    """`headwater run`, in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.first = ""

    def said(self) -> str:
        """A line beside the output."""
        assert self.process.stderr is not None
        return self.process.stderr.readline()

    def begun(self) -> None:
        """It has said what it runs, and can be asked."""
        self.first = self.said()
        until(is_open)

    def end(self, number: int = signal.SIGTERM) -> tuple[str, str]:
        """Tell it to end; what it has printed since it began, and what was said beside that."""
        self.process.send_signal(number)
        return self.rest()

    def rest(self) -> tuple[str, str]:
        out, errors = self.process.communicate(timeout=SAFETY_S)
        return out, self.first + errors


@contextmanager
def hosting(*options: str, app: str = "letters:app") -> Iterator[Hosted]:
    command = [*COMMAND, "run", app, "--url", "post.db", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield Hosted(process)
        finally:
            process.kill()


def is_open() -> bool:
    return Path("post.db-runtime").exists()


def runs(run: Run, *options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("runs", "ls", "--json", *options).stdout)
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_app_runs_until_it_is_told_to_end_and_says_so_in_two_lines(run: Run, number: int) -> None:
    write_letters()
    put("box", ("a",))
    with hosting() as hosted:
        hosted.begun()
        until(lambda: [each["sentence"] for each in runs(run)] == ["Done."])
        until(lambda: runs(run, "--all", "--status", "active") == [])
        out, errors = hosted.end(number)
        assert out == "sent 0\nsent 1\n", "what sinks print is the output"
        # One that happens to be at work is waited for, and that is said.
        first, last = [line for line in errors.splitlines() if not line.startswith("waiting for run")]
        assert first == (
            "running post in space 'post': 2 workflows: post.letters (poll every hour, next now); "
            "post.parcels (collect on weekdays at 9:00 (Europe/Berlin), next now)"
        )
        assert last == "post has ended"
        assert hosted.process.returncode == 0
    assert not is_open()


@pytest.mark.parametrize("words", [("run", "letters:app", "--url", "post.db"), ("serve", "--store", "spaces")])
def test_sigterm_ends_what_was_started_with_sigint_ignored(words: tuple[str, ...]) -> None:
    """As by `nohup`, or by a script that starts it with `&`."""
    write_letters()
    listen = ("--listen", "127.0.0.1:0") if words[0] == "serve" else ()
    line = f"""trap '' INT; exec {shlex.join([*COMMAND, *words, *listen])}"""
    with subprocess.Popen(["sh", "-c", line], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        process.stderr.readline()
        process.terminate()
        process.communicate(timeout=SAFETY_S)
        assert process.returncode == 0


def test_it_can_be_quiet(run: Run) -> None:
    write_letters()
    with hosting("--quiet", "--concurrency", "1") as hosted:
        until(is_open)
        until(lambda: len(runs(run, "--all", "--status", "committed")) >= 4)
        assert hosted.end() == ("sent 0\n", "")


def test_what_stands_in_the_way_is_said_at_the_start(run: Run) -> None:
    write_letters()
    put("box", ("a=ask",))
    with hosting() as hosted:
        hosted.begun()
        blocked(run)
        hosted.end()
    with hosting() as hosted:
        hosted.begun()
        _, errors = hosted.end()
        assert "post.letters (poll every hour, Waiting for you to approve: Send a. Approve it or reject it);" in errors


def test_a_run_that_acts_is_waited_for(run: Run) -> None:
    write_letters()
    os.mkfifo("go")
    put("box", ("a=wait",))
    with hosting() as hosted:
        until(lambda: Path("waiting").exists())
        hosted.begun()
        hosted.process.send_signal(signal.SIGTERM)
        assert "to end, or to come to where it can stop; once more ends at once" in hosted.said()
        release()
        _, errors = hosted.rest()
        assert errors.endswith("post has ended\n")
        assert hosted.process.returncode == 0
    [told] = runs(run)
    assert (told["status"], told["outcome"]) == ("committed", "applied")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_second_signal_ends_it_at_once_and_the_next_start_goes_on(run: Run, number: int) -> None:
    write_letters()
    os.mkfifo("go")
    put("box", ("a=wait",))
    with hosting() as hosted:
        until(lambda: Path("waiting").exists())
        hosted.begun()
        hosted.process.send_signal(number)
        hosted.said()
        hosted.process.send_signal(number)
        assert hosted.process.wait(SAFETY_S) == 130
    # A producer of the other workflow may have been ended as well.
    [told] = [each for each in runs(run) if each["handler"] == "Send"]
    assert told["status"] == "crashed"
    assert told["sentence"].startswith("Crashed while its call was under way;")


def test_an_app_that_needs_an_event_loop_has_one(run: Run) -> None:
    Path("later.py").write_text(ASYNC, encoding="utf-8")
    with hosting(app="later:app") as hosted:
        hosted.begun()
        until(lambda: [each["text"] for each in runs(run)] == ["Name ann -> Greet"])
        run("send", "greet", "name=bob")
        until(lambda: [each["text"] for each in runs(run)] == ["Name bob -> Greet", "Name ann -> Greet"])
        out, errors = hosted.end()
        assert out.splitlines()[-1] == "sent 2"
        assert errors.splitlines()[-1] == "later has ended"
        assert hosted.process.returncode == 0


def test_an_app_that_needs_an_event_loop_ends_at_once_at_the_second_signal() -> None:
    write_letters()
    Path("letters.py").write_text(
        LETTERS + "\n@app.computed\nasync def later() -> int:\n    return sent.value\n", encoding="utf-8"
    )
    os.mkfifo("go")
    put("box", ("a=wait",))
    with hosting() as hosted:
        until(lambda: Path("waiting").exists())
        hosted.begun()
        hosted.process.send_signal(signal.SIGTERM)
        assert "once more ends at once" in hosted.said()
        hosted.process.send_signal(signal.SIGTERM)
        assert hosted.process.wait(SAFETY_S) == 130


def test_an_app_without_workflows_is_run_too() -> None:
    Path("plain.py").write_text(
        'import headwater as hw\napp = hw.App("plain")\n\n@app.sink\ndef show() -> None:\n    print("hello")\n',
        encoding="utf-8",
    )
    with hosting(app="plain:app") as hosted:
        assert hosted.process.stdout is not None
        assert hosted.process.stdout.readline() == "hello\n", "each line when it is printed"
        hosted.begun()
        out, errors = hosted.end()
        assert out == ""
        assert errors == "running plain in space 'post': no workflows; Ctrl-C ends it\nplain has ended\n"


def test_a_file_that_another_process_has_is_not_run(run: Run) -> None:
    write_letters()
    run("set", "a", "1", "--url", "post.db")
    with holding("post.db") as pid, hosting() as hosted:
        out, errors = hosted.rest()
        assert hosted.process.returncode == 4
        assert out == ""
        assert "SpaceHeldError" in errors
        assert str(pid) in errors


def test_what_would_lose_something_is_refused_unless_it_is_forced(run: Run) -> None:
    write_letters()
    put("boxes", ("a",))
    put("box", ("a=closed",))
    with hosting() as hosted:
        hosted.begun()
        until(lambda: any(each["status"] == "paused:transient" for each in runs(run)))
        hosted.end()
    renamed = LETTERS.replace('flow.topic("letters", str)', 'flow.topic("mail", str)')
    Path("letters.py").write_text(renamed, encoding="utf-8")
    with hosting() as hosted:
        _, errors = hosted.rest()
        assert hosted.process.returncode == 4
        assert "1 event of topic letters, which no consumer takes any more" in errors
    with hosting("--force") as hosted:
        hosted.begun()
        until(lambda: any(each["id"] > 6 for each in runs(run, "--all")))
        hosted.end()
        assert hosted.process.returncode == 0


def test_wrong_use_says_what_to_do(run: Run, orders: str) -> None:
    assert orders == "orders:app"
    assert "run nothing:app: there is no module nothing" in run("run", "nothing:app", exit=3).stderr
    assert "run orders:ap: there is no ap in module orders; did you mean app?" in run("run", "orders:ap", exit=3).stderr
    assert "did you mean orders:app?" in run("run", "orders.py:app", exit=2).stderr
    assert "which space? There is no *.db here; name one with --url FILE.db" in run("run", orders, exit=2).stderr
    run("run", orders, "--concurrency", "0", exit=2)
