"""Documents of a file that another program has open: read, listed and written through its socket."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import NotFoundError, SchemaError, SpaceHeldError
from headwater.inspect.document_records import GetHistory, GetValue, ListDocuments, SetValue
from headwater.inspect.function_records import GetGraph
from headwater.inspect.resolve import inspector_for, reach
from tests.support.open_spaces import BEGINNING, SAFETY_S, STAYING, end, running, tell


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "shop.db"


def test_documents_of_an_open_file_are_read_and_written_by_its_program(file: Path) -> None:
    with running(STAYING, file) as process:
        tell(process, 20)
        with inspector_for(str(file)) as inspector:
            assert inspector.is_live
            assert inspector.ask(GetValue(address="shop.tax")).value == 20
            addresses = [row.address for row in inspector.ask(ListDocuments()).documents]
            assert "shop.tax" in addresses
            assert not [address for address in addresses if address.startswith("schema:")]
            report = inspector.do(SetValue(address="shop.tax", value=30))
            assert report.changed
            history = inspector.ask(GetHistory(address="shop.tax")).changes
            assert history[0].seq == report.seq
            assert inspector.ask(GetValue(address="shop.tax", at=history[1].seq)).value == 20
            with pytest.raises(SchemaError, match="declared as"):
                inspector.do(SetValue(address="shop.tax", value="many"))
            with pytest.raises(NotFoundError, match=r"did you mean shop\.tax"):
                inspector.ask(GetValue(address="shop.tx"))
            # It is a commit of the space: what depends on it runs in the program.
            tell(process, 40)
            assert inspector.ask(GetValue(address="shop.tax")).value == 40
        end(process)
    with inspector_for(str(file)) as inspector:
        assert not inspector.is_live
        assert inspector.ask(GetValue(address="shop.tax")).value == 40


def test_a_write_from_outside_is_seen_by_functions_of_the_program(tmp_path: Path) -> None:
    from headwater.inspect import sockets
    from tests.support.open_spaces import socket_ready

    app = hw.App("counter")
    count = app.cell("count", 1)
    seen: list[int] = []
    app.sink(name="show")(lambda: seen.append(count.value))
    file = tmp_path / "counter.db"
    grace, sockets.GRACE_S = sockets.GRACE_S, 0.0
    try:
        with app.open(file) as space:
            socket_ready(file)
            with inspector_for(str(file)) as inspector:
                inspector.do(SetValue(address="counter.count", value=7))
            space.sync()
            assert (count.value, seen) == (7, [1, 7])
    finally:
        sockets.GRACE_S = grace


def test_a_space_that_is_closed_between_two_questions_is_asked_in_its_file(file: Path) -> None:
    with running(STAYING, file) as process, inspector_for(str(file)) as inspector:
        assert inspector.is_live
        tell(process, 11)
        assert inspector.ask(GetGraph())[0].is_live
        end(process)
        [view] = inspector.ask(GetGraph())
        assert (view.is_live, view.origin) == (False, "file")
        assert inspector.ask(GetValue(address="shop.tax")).value == 11
        assert not inspector.is_live


def test_a_space_that_is_opened_after_a_question_is_not_locked_out(file: Path) -> None:
    with running(STAYING, file) as process:
        tell(process, 12)
        end(process)
    with inspector_for(str(file)) as inspector:
        assert inspector.ask(GetValue(address="shop.tax")).value == 12
        inspector.close()
        with running(STAYING, file) as process:
            assert inspector.ask(GetValue(address="shop.tax")).value == 12
            assert inspector.is_live
            end(process)


def test_a_killed_program_is_no_answer_but_its_file_is(file: Path) -> None:
    with running(STAYING, file) as process, inspector_for(str(file)) as inspector:
        tell(process, 33)
        inspector.ask(GetValue(address="shop.tax"))
        process.send_signal(signal.SIGKILL)
        process.wait(SAFETY_S)
        assert inspector.ask(GetValue(address="shop.tax")).value == 33


HOLDING = (
    BEGINNING
    + """
from headwater.host.space_files import open_space
with open_space(sys.argv[1]):
    ready()
    sys.stdin.read()
"""
)


def test_a_file_that_is_held_without_an_app_says_so(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.inspect.resolve._SOCKET_S", 0.0)
    with (
        running(HOLDING, file),
        inspector_for(str(file)) as inspector,
        pytest.raises(SpaceHeldError, match="It cannot be asked either"),
    ):
        inspector.ask(ListDocuments())


def test_reach_waits_for_the_socket_of_a_program_that_has_just_started(file: Path) -> None:
    program = STAYING.replace("sockets.GRACE_S = 0\n", "sockets.GRACE_S = 0.3\n").replace(
        "    ready()\n", "    print('ready', flush=True)\n", 1
    )
    with running(program, file):
        opened = threading.Event()

        def otherwise() -> None:
            opened.set()
            raise SpaceHeldError("it is open")

        found = reach(str(file), None, otherwise)
        assert found is not None
        found.close()
