"""Processes that stay, and commands, whose output or remarks have no reader any more, or a disk that is full."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from select import select
from urllib.request import urlopen

import pytest

from headwater.host.standard_streams import Outlet, ReaderGoneError, lasting
from tests.cli.conftest import Run
from tests.cli.processes import COMMAND
from tests.cli.test_workflow_live import until
from tests.server.running import settle_in
from tests.support.open_spaces import SAFETY_S

TALKER = """
import headwater as hw

app = hw.App("talker")
count = app.cell("count", 0)
kept = app.cell("kept", 0)

@app.computed
def doubled() -> int:
    print("doubling", count.value)
    return count.value * 2

@app.handler
def put(number: int) -> None:
    count.value = number

@app.handler
def ask() -> int:
    return kept.value

@app.sink
def keep() -> None:
    print("x" * 10_000)
    kept.value = doubled()
    print("kept", kept.value, flush=True)
"""

FULL = Path("/dev/full")


@contextmanager
def started(*words: str, stdout: int, stderr: int) -> Iterator[subprocess.Popen[str]]:
    """As an ordinary shell starts it: Python buffers what is printed, unless the command says otherwise."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen([*COMMAND, *words], text=True, env=env, stdout=stdout, stderr=stderr) as process:
        try:
            yield process
        finally:
            process.kill()


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return process.stderr.readline()


def lose(process: subprocess.Popen[str]) -> None:
    """The reader of both goes away."""
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


@pytest.mark.parametrize("log", ["text", "json"])
def test_a_server_goes_on_without_a_reader_of_its_log_and_ends_with_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: str
) -> None:
    settle_in(tmp_path, monkeypatch)
    words = ("serve", "--store", "spaces", "--listen", "127.0.0.1:0", "--log", log, "--verbose")
    with started(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server:
        found = re.search(r"ws(://127.0.0.1:\d+)", first_line(server))
        assert found is not None
        lose(server)
        for _ in range(3):
            # Each leaves a line in the log.
            until(lambda: is_alive(f"http{found[1]}/healthz"))
        server.send_signal(signal.SIGTERM)
        assert server.wait(SAFETY_S) == 0


def is_alive(url: str) -> bool:
    try:
        with urlopen(url, timeout=SAFETY_S) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except OSError:
        return False


def kept(run: Run) -> int:
    """What the sink has written, which prints before and after that."""
    answer: int = json.loads(run("send", "ask", "--url", "t.db").stdout)
    return answer


def test_an_app_goes_on_without_a_reader_of_what_it_prints_and_ends_with_0(run: Run) -> None:
    Path("talker.py").write_text(TALKER, encoding="utf-8")
    with started("run", "talker:app", "--url", "t.db", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as hosted:
        first_line(hosted)
        until(lambda: Path("t.db-runtime").exists())
        lose(hosted)
        for number in range(1, 4):
            run("send", "put", f"number={number}", "--url", "t.db")
            until(lambda number=number: kept(run) == 2 * number)  # type: ignore[misc]
        hosted.send_signal(signal.SIGTERM)
        assert hosted.wait(SAFETY_S) == 0


def test_a_program_that_stays_by_itself_goes_on_too(run: Run) -> None:
    Path("talker.py").write_text(TALKER + '\nprint("begins")\napp.run("t.db")\n', encoding="utf-8")
    command = [sys.executable, "talker.py"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        until(lambda: Path("t.db-runtime").exists())
        lose(program)
        for number in range(1, 4):
            run("send", "put", f"number={number}", "--url", "t.db")
            until(lambda number=number: kept(run) == 2 * number)  # type: ignore[misc]
        program.send_signal(signal.SIGTERM)
        assert program.wait(SAFETY_S) == 0


def test_streams_of_others_are_left_alone() -> None:
    out, errors = sys.stdout, sys.stderr
    with lasting():
        assert (sys.stdout is out) == (out is not sys.__stdout__)
        assert (sys.stderr is errors) == (errors is not sys.__stderr__)
    assert (sys.stdout, sys.stderr) == (out, errors)


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
def test_an_app_goes_on_although_nothing_can_be_written_to_its_log(run: Run) -> None:
    Path("talker.py").write_text(TALKER, encoding="utf-8")
    with FULL.open("wb") as full:
        words = ("run", "talker:app", "--url", "t.db")
        with started(*words, stdout=full.fileno(), stderr=full.fileno()) as hosted:
            until(lambda: Path("t.db-runtime").exists())
            run("send", "put", "number=7", "--url", "t.db")
            until(lambda: kept(run) == 14)
            hosted.send_signal(signal.SIGTERM)
            assert hosted.wait(SAFETY_S) == 0


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["get", "nothing", "--url", "shop.db"], 3),
        (["export", "-o", "e", "--url", "shop.db"], 0),
        (["import", "missing", "--url", "shop.db"], 3),
        (["nonsense"], 2),
    ],
)
def test_the_exit_code_of_a_command_does_not_depend_on_a_reader_of_its_remarks(
    shop: str, words: list[str], code: int
) -> None:
    assert shop == "shop.db"
    ours, theirs = os.pipe()
    os.close(ours)
    with started(*words, stdout=subprocess.PIPE, stderr=theirs) as command:
        os.close(theirs)
        command.communicate(timeout=SAFETY_S)
        assert command.returncode == code
    assert Path("e").exists() == ("export" in words)


def test_a_file_never_takes_the_place_of_a_closed_stream(shop: str) -> None:
    """Else what is written to standard error would be written into it."""
    program = (
        "import os; from headwater.host.standard_streams import set_up; set_up(); file = open('mine', 'wb'); "
        "raise SystemExit(file.fileno() < 3)"
    )
    line = f"""'{sys.executable}' -c "{program}" <&- >&- 2>&-"""
    assert subprocess.run(["sh", "-c", line], timeout=SAFETY_S, check=False).returncode == 0
    assert shop


def test_text_that_a_lasting_stream_cannot_write_is_lost_and_the_next_arrives(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.touch()
    right, place = os.open(path, os.O_WRONLY), os.open(path, os.O_RDONLY)
    outlet = Outlet(place, is_lasting=True)
    assert outlet.write(b"nowhere") == 7
    outlet.flush()
    assert outlet.write(b"x" * 100_000) == 100_000
    outlet.flush()
    os.dup2(right, place)
    assert outlet.write(b"here") == 4
    outlet.flush()
    assert path.read_bytes() == b"here"
    os.close(right)
    os.close(place)


def test_text_that_a_command_cannot_write_is_an_error_each_time(tmp_path: Path) -> None:
    path = tmp_path / "output"
    path.touch()
    place = os.open(path, os.O_RDONLY)
    outlet = Outlet(place, is_lasting=False)
    outlet.write(b"nowhere")
    for _ in range(2):
        with pytest.raises(OSError, match="Bad file descriptor"):
            outlet.flush()
    outlet.drop()
    outlet.flush()
    os.close(place)


def test_a_reader_that_has_gone_is_told_from_a_connection_that_has() -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    outlet = Outlet(theirs, is_lasting=False)
    outlet.write(b"nowhere")
    with pytest.raises(ReaderGoneError):
        outlet.flush()
    outlet.drop()
    os.close(theirs)


@pytest.mark.parametrize("unbuffered", [False, True])
def test_a_line_on_standard_error_is_there_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unbuffered: bool
) -> None:
    settle_in(tmp_path, monkeypatch)
    command = [*COMMAND[:1], *(["-u"] if unbuffered else []), *COMMAND[1:], "serve", "--store", "s"]
    with subprocess.Popen([*command, "--listen", "127.0.0.1:0"], text=True, stderr=subprocess.PIPE) as server:
        assert server.stderr is not None
        ready, _, _ = select([server.stderr], [], [], SAFETY_S)
        server.terminate()
        assert ready
        assert server.stderr.readline().startswith("serving s at ")
        server.communicate(timeout=SAFETY_S)


def test_part_of_a_line_is_written_at_once_where_python_is_told_not_to_buffer() -> None:
    program = (
        "import os, sys; from headwater.host.standard_streams import set_up; "
        "set_up(); print('half', end=''); os._exit(0)"
    )
    written = subprocess.run(
        [sys.executable, "-u", "-c", program], stdout=subprocess.PIPE, timeout=SAFETY_S, check=True
    )
    assert written.stdout == b"half"
