"""Doors when processes end, are killed, or fork."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from headwater.host.socket_paths import path_beside
from headwater.inspect.function_records import GetCounts
from headwater.inspect.socket_client import SocketInspector
from tests.support.open_spaces import BEGINNING, SAFETY_S, SHOP, ask_one, call, end, hear, running


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "counter.db"


FORGETFUL = SHOP + "\nspace = app.open(sys.argv[1])\ntax.value = 30\nready()\nsys.stdin.read()\n"

FORKING = (
    SHOP
    + """
import os
space = app.open(sys.argv[1])
ready()
for line in sys.stdin:
    child = os.fork()
    if not child:
        if line.strip() == "exit":
            sys.exit(0)
        if line.strip() == "close":
            try:
                space.close()
            except hw.HeadwaterError:
                pass
            os._exit(0)
        if line.strip() == "open":
            with hw.App("own").open(sys.argv[2]):
                ready("own")
                sys.stdin.readline()
            os._exit(0)
        print("stays", flush=True)
        sys.stdin.readline()
        os._exit(0)
    if line.strip() in ("exit", "close"):
        os.waitpid(child, 0)
        ready("forked")
space.close()
"""
)


def test_program_that_forgets_to_close_leaves_no_socket_and_is_not_kept_alive(file: Path) -> None:
    with running(FORGETFUL, file) as process, call(file) as caller:
        lines = caller.follow()
        end(process)
        list(lines)
    assert not Path(path_beside(str(file))).exists()


@pytest.mark.parametrize("how", ["exit", "close"])
def test_end_of_a_forked_child_leaves_the_socket_of_its_parent(file: Path, how: str) -> None:
    with running(FORKING, file, "") as process, call(file) as caller:
        assert process.stdin is not None
        process.stdin.write(f"{how}\n")
        process.stdin.flush()
        hear(process, "forked")
        assert caller.ask(GetCounts())[0].app == "shop"
        assert ask_one(file, GetCounts()).app == "shop"
        end(process)
    assert not Path(path_beside(str(file))).exists()


def test_forked_child_does_not_stand_behind_the_socket_of_a_dead_parent(file: Path) -> None:
    with running(FORKING, file, "") as process, call(file) as caller:
        assert process.stdin is not None
        process.stdin.write("stay\n")
        process.stdin.flush()
        hear(process, "stays")
        process.send_signal(signal.SIGKILL)
        process.wait(SAFETY_S)
        with pytest.raises(ConnectionError):
            caller.ping()
        assert SocketInspector.connect(str(file)) is None
        process.stdin.close()


def test_forked_child_has_sockets_of_its_own(file: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.db"
    with running(FORKING, file, own) as process:
        assert process.stdin is not None
        process.stdin.write("open\n")
        process.stdin.flush()
        hear(process, "own")
        with call(own) as caller:
            assert caller.ping() not in (process.pid, os.getpid())
        with call(file) as caller:
            assert caller.ping() == process.pid


def test_programs_that_only_import_start_nothing() -> None:
    program = (
        BEGINNING + "\nimport threading\nprint('ready', flush=True)\nprint(threading.active_count(), flush=True)\n"
    )
    with running(program) as process:
        hear(process, "1")
