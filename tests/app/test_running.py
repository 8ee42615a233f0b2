"""`app.run`: a program that stays until it is told to end."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import headwater as hw
from headwater.core import doc_key, open_space, verify
from headwater.host.process_lifetime import Stay
from tests.app.holding import SAFETY_S

STAYS = """
import sys, threading
import headwater as hw

app = hw.App("clock")
count = app.cell("count", 0)

@app.computed
def doubled() -> int:
    return count.value * 2

@app.sink
def show() -> None:
    print(count.value, doubled(), flush=True)

def work() -> None:
    for line in sys.stdin:
        count.value = int(line)

threading.Thread(target=work, daemon=True).start()
app.run("clock.db")
print("ended", flush=True)
"""

STUCK = """
import signal, threading
import headwater as hw

app = hw.App("clock")
count = app.cell("count", 0)
app.sink(name="note")(lambda: setattr(count, "value", 5))

@app.sink
def stuck() -> None:
    handler = signal.getsignal(signal.SIGINT)
    print("stuck", flush=True)
    while signal.getsignal(signal.SIGINT) is handler:
        pass
    print("still stuck", flush=True)
    threading.Event().wait()

app.run("clock.db")
"""

ANY_MOMENT = """
import signal, sys, threading
import headwater as hw

app = hw.App("clock")
count = app.cell("count", 0)

def keep_awake() -> None:
    try:
        while True:
            count.value += 1
    except hw.HeadwaterError:
        pass

def run_until(line: int) -> None:
    left = line

    def trace(frame, event, arg):
        nonlocal left
        left -= event == "line"
        if not left:
            sys.settrace(None)
            signal.raise_signal(signal.SIGTERM)
        return trace if left > 0 else None

    thread = threading.Thread(target=keep_awake)

    @app.sink(name=f"start{line}")
    def start() -> None:
        if left == line:
            thread.start()
            sys.settrace(trace)
            frame = sys._getframe()
            while frame is not None:
                frame.f_trace = trace
                frame = frame.f_back

    app.run("memory:")
    thread.join()
    assert left <= 0

for line in range(1, 160):
    run_until(line)
    app._functions.clear()
print("ended", flush=True)
"""


@contextmanager
def started(folder: Path, text: str) -> Iterator[subprocess.Popen[str]]:
    (folder / "program.py").write_text(text, encoding="utf-8")
    pipe = subprocess.PIPE
    command = [sys.executable, "program.py"]
    with subprocess.Popen(command, cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_it_cleanly_with_everything_committed(tmp_path: Path, number: signal.Signals) -> None:
    with started(tmp_path, STAYS) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "0 0\n"
        for value in (3, 4):
            process.stdin.write(f"{value}\n")
            process.stdin.flush()
            assert process.stdout.readline() == f"{value} {value * 2}\n", "written by another thread"
        process.send_signal(number)
        assert process.wait(SAFETY_S) == 0
        assert (process.stdout.read(), process.stderr.read()) == ("ended\n", "")
    with open_space(str(tmp_path / "clock.db"), create=False) as space:
        replica = space.attach()
        assert (replica.read(doc_key("clock.count")), replica.read(doc_key("clock.doubled"))) == (4, 8)


def test_second_interrupt_ends_a_function_that_never_returns(tmp_path: Path) -> None:
    with started(tmp_path, STUCK) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "stuck\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "still stuck\n"
        process.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in process.communicate(timeout=SAFETY_S)[1]
    with open_space(str(tmp_path / "clock.db"), create=False) as space:
        assert space.attach().read(doc_key("clock.count")) == 5


def test_second_request_to_end_ends_the_process_at_once(tmp_path: Path) -> None:
    """Also in the middle of a function that never returns, and that Ctrl-C would have to interrupt."""
    with started(tmp_path, STUCK) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "stuck\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "still stuck\n", "the first one lets everything come to its end"
        process.send_signal(signal.SIGTERM)
        assert process.wait(SAFETY_S) == -signal.SIGTERM
    with open_space(str(tmp_path / "clock.db"), create=False) as space:
        assert space.call(verify).ok


@pytest.mark.slow
def test_signal_may_come_at_any_moment(tmp_path: Path) -> None:
    """At any line of what waits, whatever it holds there."""
    program = tmp_path / "program.py"
    program.write_text(ANY_MOMENT, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True, timeout=SAFETY_S, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")


def test_handlers_of_the_program_are_put_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    app = hw.App("clock")
    app.sink(name="stop")(lambda: signal.raise_signal(signal.SIGTERM))
    app.run("memory:")
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    assert "open in 0 spaces" in repr(app)


def test_stay_wakes_for_news_and_ends_for_a_signal() -> None:
    with Stay() as stay:
        stay.wake()
        stay.wake()
        assert stay.wait()
        handler = signal.getsignal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        assert not stay.wait()
        assert not stay.wait()
        assert signal.getsignal(signal.SIGTERM) is not handler, "a second one is not for us"


def test_error_while_opening_comes_out_and_handlers_are_put_back(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(hw.HeadwaterError):
        hw.App("clock").run(f"{tmp_path}/", space="a/b")
    assert signal.getsignal(signal.SIGTERM) == before
