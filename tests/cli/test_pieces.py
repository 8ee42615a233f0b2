"""Pieces on the command line: how their functions are named, and which pieces there are."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.inspect import live_events, sockets
from tests.cli.conftest import Run, Terminal
from tests.support.open_spaces import BEGINNING, SAFETY_S, end, hear, running, socket_ready

KETTLES = """
import headwater as hw

@hw.pattern
def kettle(p: hw.Builder, litres: float, note: str = "") -> dict[str, object]:
    filled = p.cell("filled", 0.0)

    @p.computed
    def share() -> float:
        return filled.value / litres

    @p.sink
    def show() -> None:
        share()

    @p.handler
    def fill(by: float = 1.0) -> float:
        filled.value += by
        return filled.value

    @p.handler
    def boil() -> int:
        return quiet()

    return {"fill": fill, "boil": boil}

app = hw.App("tea")
cups = app.cell("cups", 0)
typed = app.cell("typed", 0)

@app.computed(debounce="1h")
def quiet() -> int:
    return typed.value

@app.handler
def pour() -> int:
    cups.value += 1
    return cups.value
"""

BRIEF = (
    "from kettles import *\n"
    "with app.open(sys.argv[1]) as space:\n"
    "    old = space.start(kettle, 'old', litres=2.0, note='x' * 300)\n"
    "    new = space.start(kettle, 'new', litres=1.5)\n"
    "    new.outputs['fill'].send(0.5)\n"
    "    old.stop()\n"
)

STAYING = (
    BEGINNING
    + """
from kettles import *
with app.open(sys.argv[1], on_error=lambda _: None) as space:
    for key in ("old", "new"):
        space.start(kettle, key, litres=2.0)
    ready()
    for line in sys.stdin:
        exec(line)
        ready("done")
"""
)


@pytest.fixture
def kettles(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The module, which `--app` can name."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    Path("kettles.py").write_text(KETTLES, encoding="utf-8")
    yield "kettles:app"
    sys.modules.pop("kettles", None)


@pytest.fixture
def closed(kettles: str) -> str:
    """A space that had two, of which one was stopped."""
    assert kettles
    subprocess.run([sys.executable, "-c", f"import sys\n{BRIEF}", "tea.db"], check=True)
    return "tea.db"


@contextmanager
def tea(url: str = "tea.db") -> Iterator[subprocess.Popen[str]]:
    """A process that has it open, with two at work."""
    with running(STAYING, url) as process:
        yield process


def have(process: subprocess.Popen[str], code: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{code}\n")
    process.stdin.flush()
    hear(process, "done")


def listed(run: Run, *options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("pieces", "ls", "--json", *options).stdout)
    return found


# --- why --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["show of kettle new", "show() of kettle new", "tea.show of kettle new"])
def test_a_function_of_one_piece_is_explained_when_all_is_closed(run: Run, closed: str, name: str) -> None:
    result = run("why", name, "--url", closed)
    assert result.stdout.startswith("show() of kettle new is an effect")
    [record] = json.loads(run("why", name, "--json").stdout)
    assert (record["node"], record["piece"]) == ("show", "kettle new")


def test_a_function_of_a_piece_is_suggested_with_the_piece(run: Run, closed: str) -> None:
    assert "did you mean show of kettle new" in run("why", "show of kettle nev", "--url", closed, exit=3).stderr
    with tea():
        assert "did you mean show of kettle old" in run("why", "show of kettle olt", exit=3).stderr


def test_a_function_of_all_pieces_of_a_pattern_is_named_by_that(run: Run, kettles: str) -> None:
    assert kettles
    with tea() as process:
        words = run("why", "fill of kettle").stdout
        end(process)
    assert "fill() of kettle old is a handler" in words
    assert "fill() of kettle new is a handler" in words
    assert run("why", "fill of kettle").stdout.count(" is a handler") == 2, "closed by now"


# --- send -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["fill of kettle new", "fill() of kettle new", "tea.fill of kettle new"])
def test_a_handler_of_a_piece_is_sent_to_by_the_name_that_why_and_graph_have(run: Run, kettles: str, name: str) -> None:
    assert kettles
    with tea():
        result = run("send", name, "by=2")
        assert result.stdout == "2.0\n"
        assert " was handled by fill() of kettle new\n" in result.stderr
        assert run("send", "fill of kettle old", "by=3").stdout == "3.0\n"


def test_if_several_pieces_could_be_meant_they_are_named(run: Run, kettles: str) -> None:
    assert kettles
    with tea() as process:
        said = run("send", "fill", exit=2).stderr
        assert "fill could be any of 2 here (fill of kettle old, fill of kettle new); say which" in said
        assert "--app" not in said, "there is one"
        assert "fill of kettle could be any of 2 here" in run("send", "fill of kettle", exit=2).stderr
        have(process, "[space.start(kettle, str(n), litres=1.0) for n in range(20)]")
        assert "fill of kettle 0, fill of kettle 1" in run("send", "fill", exit=2).stderr
        assert "and 14 more)" in run("send", "fill", exit=2).stderr


def test_a_handler_that_is_not_there_is_told_with_close_ones_of_pieces(run: Run, kettles: str) -> None:
    assert kettles
    with tea():
        assert "did you mean fill of kettle old" in run("send", "fill of kettle olt", exit=3).stderr
        said = run("send", "zzz", exit=3).stderr
        assert "there is pour, fill of kettle old" in said


def test_pieces_that_have_the_same_name_are_told_apart_by_their_streams(run: Run, kettles: str) -> None:
    assert kettles
    nested = "[space.start(hw.pattern(name=n)(lambda p: p.start(kettle, 'in', litres=1.0)), 'x') for n in 'ab']"
    with tea() as process:
        have(process, nested.replace("lambda p: p", "lambda p: {'o': p").replace("litres=1.0)", "litres=1.0)}"))
        said = run("send", "fill of kettle in", exit=2).stderr
        assert "fill of kettle in could be any of 2 here (tea+kettle:" in said
        stream = said.partition("(")[2].partition(",")[0]
        assert run("send", stream, "by=4").stdout == "4.0\n"


# --- top --------------------------------------------------------------------------------------------------


def test_functions_of_pieces_are_counted_by_pattern(run: Run, kettles: str) -> None:
    assert kettles
    with tea():
        run("send", "fill of kettle new")
        found = {one["function"]: one for one in json.loads(run("top", "--json").stdout)}
        assert set(found) == {f"{name} of kettle" for name in ("share", "show", "fill", "boil")} | {"pour", "quiet"}
        fill = found["fill of kettle"]
        assert (fill["kind"], fill["nodes"], fill["runs"], fill["never_ran"]) == ("handler", 2, 1, 1)
        assert (fill["status"], found["boil of kettle"]["status"]) == ("1 never ran", "never ran")
        assert (found["share of kettle"]["nodes"], found["share of kettle"]["has_arguments"]) == (2, False)


# --- events that wait -------------------------------------------------------------------------------------


def waits(run: Run) -> list[str]:
    return [each["reason"] for each in json.loads(run("events", "ls", "--waiting", "--json").stdout)]


def test_an_event_for_a_piece_that_is_not_started_says_so(run: Run, kettles: str) -> None:
    assert kettles
    with tea() as process:
        have(process, "far, off = (space.start(kettle, key, litres=1.0) for key in ('far', 'off'))")
        have(process, "far.outputs['boil'].send().result(); typed.value = 1")
        have(process, "tx = space.transaction(); tx.__enter__()")
        have(process, "far.outputs['boil'].send(); tx.__exit__(None, None, None); space.sync()")
        process.kill()
        process.wait(SAFETY_S)
    assert waits(run) == ["its app has to be opened, and kettle far started"]
    with tea() as process:
        assert waits(run) == ["kettle far is not at work: it was not started since tea was opened"]
        [event] = json.loads(run("events", "ls", "--waiting", "--json").stdout)
        assert "kettle far is not at work" in run("events", "show", event["event"]).stdout
        have(process, "far = space.start(kettle, 'far', litres=1.0)")
        assert "is not at work" not in "".join(waits(run))


# --- pieces -----------------------------------------------------------------------------------------------


def test_pieces_of_a_closed_file_are_listed(run: Run, closed: str) -> None:
    new, old = listed(run, "--url", closed)
    assert new == {
        "app": "tea",
        "piece": new["piece"],
        "pattern": "kettle",
        "key": "new",
        "status": "running",
        "at_work": False,
        "generation": 1,
        "inputs": {"litres": 1.5, "note": ""},
        "by": "kettles:kettle",
    }
    assert new["piece"].startswith("tea+kettle:")
    assert (old["key"], old["status"], old["inputs"]["note"]) == ("old", "stopped", "x" * 300)
    assert run("get", old["piece"] + "/status").stdout == '"stopped"\n'
    assert run("pieces", "--url", closed).stdout == run("pieces", "ls").stdout
    assert [json.loads(line) for line in run("pieces", "--jsonl").stdout.splitlines()] == [new, old]
    lines = [line.split("\t") for line in run("pieces", "ls").stdout.splitlines()]
    assert lines[0] == ["kettle", "new", "running", "1", '{"litres": 1.5, "note": ""}', new["piece"]]


def test_pieces_are_listed_shortly_on_a_terminal(terminal: Terminal, closed: str) -> None:
    head, first, second = terminal(80, "pieces", "--url", closed).splitlines()
    assert head.split() == ["pattern", "key", "status", "generation", "inputs"]
    assert first.split() == ["kettle", "new", "running", "1", "litres=1.5,", 'note=""']
    assert second.startswith("kettle")
    assert "stopped" in second
    assert len(second) <= 80


def test_pieces_can_be_chosen_by_pattern_and_by_status(run: Run, closed: str) -> None:
    assert [each["key"] for each in listed(run, "--url", closed, "--status", "stopped")] == ["old"]
    assert [each["key"] for each in listed(run, "--status", "running")] == ["new"]
    assert [each["key"] for each in listed(run, "--pattern", "kettle")] == ["new", "old"]
    assert listed(run, "--pattern", "pan") == []


def test_a_process_tells_which_pieces_are_at_work(run: Run, closed: str) -> None:
    with tea() as process:
        have(process, "space.start(kettle, 'new', litres=2.0).stop()")
        assert [(each["key"], each["status"], each["at_work"]) for each in listed(run, "--url", closed)] == [
            ("new", "stopped", False),
            ("old", "running", True),
        ]
    assert [each["at_work"] for each in listed(run)] == [False, False]


def test_an_input_that_is_a_cell_is_shown_by_its_name(terminal: Terminal) -> None:
    @hw.pattern
    def lamp(p: hw.Builder, on: hw.Cell[bool]) -> dict[str, hw.Cell[bool]]:
        return {"on": on, "dim": p.cell("dim", False)}

    app = hw.App("house")
    switch = app.cell("switch", False)
    with app.open("house.db") as space:
        space.start(lamp, "desk", on=switch)
        space.sync()
    assert terminal(80, "pieces").splitlines()[1].split() == ["lamp", "desk", "running", "1", "on=house.switch"]


def test_of_very_many_pieces_a_process_tells_some(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    @hw.pattern
    def lamp(p: hw.Builder) -> hw.Cell[bool]:
        return p.cell("on", False)

    monkeypatch.setattr(sockets, "GRACE_S", 0)
    monkeypatch.setattr(live_events, "PIECES_MAX", 2)
    with hw.App("house").open("house.db") as space:
        for number in range(5):
            space.start(lamp, str(number))
        socket_ready("house.db")
        result = run("pieces")
        assert len(result.stdout.splitlines()) == 2
        assert "3 pieces more of house can be listed with --pattern" in result.stderr
        assert run("pieces", "--pattern", "pan").stdout == ""
    assert len(run("pieces").stdout.splitlines()) == 5


def test_what_only_looks_like_a_piece_is_none(run: Run, terminal: Terminal, closed: str) -> None:
    letters = "a" * 32
    run("set", f"tea+kettle:{letters}", '{"pattern": "x", "key": 3}', "--url", closed, "--create")
    run("set", f"tea+kettle:{letters[:-1]}b", "3", "--create")
    assert [each["key"] for each in listed(run)] == ["new", "old"]
    run("set", "a", "1", "--url", "other.db")
    assert listed(run, "--url", "other.db") == []
    assert "no pieces" in terminal(80, "pieces", "--url", "other.db")


def test_a_group_of_pieces_has_a_name_that_is_close(run: Run, closed: str) -> None:
    assert "There is no command 'pieces list'" in run("pieces", "list", "--url", closed, exit=2).stderr
