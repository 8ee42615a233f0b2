"""Deltas: what a tab gets while a program works, and what the program pays for it."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headwater.errors import UnavailableError
from headwater.inspect.function_records import GetChanges, GetGraph
from headwater.inspect.live_inspector import LiveInspector
from headwater.inspect.sockets import socket_registry
from headwater.studio import Studio, feed, passes
from headwater.studio.answers import SpacesView
from headwater.studio.feed import Answered
from headwater.studio.host import Login
from headwater.studio.local_host import FileHost
from headwater.studio.local_server import LocalStudioServer
from headwater.studio.questions import DocumentQuestion, Spaces
from tests.studio.locally import entered, local_page, studio_of
from tests.studio.pages import PageClient, page_of
from tests.studio.shop import Shop, ignore, make_shop

WAIT_S = 60.0


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "shop.db")


@pytest.fixture
def shop(file: str) -> Iterator[Shop]:
    made = make_shop()
    with made.app.open(file, on_error=ignore) as space:
        made.counted.value = 1
        space.sync()
        yield made


def until(holds: Any, what: str) -> None:
    """Wait for what another thread does."""
    end = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def merged(states: dict[int, list[object]], delta: dict[str, Any]) -> None:
    for state in delta["record"]["states"]:
        states[state[0]] = state


def test_deltas_of_the_graph_lead_to_what_a_fresh_answer_says(shop: Shop, file: str) -> None:
    with local_page(file) as page:
        first = page.watch("graph")["record"]
        states = {state[0]: state for state in first["states"]}
        for number in range(2, 8):
            shop.counted.value = number
        runs = states[next(at for at, box in enumerate(first["boxes"]) if box[1] == "double")][2]
        double = next(at for at, box in enumerate(first["boxes"]) if box[1] == "double")
        while states[double][2] < runs + 6:
            delta = page.delta()
            assert delta["partial"]
            assert delta["record"]["structure"] == first["structure"]
            merged(states, delta)
        fresh = page.ask("graph")
        assert fresh["boxes"] == first["boxes"]
        assert {state[0]: state[1:3] for state in fresh["states"]} == {at: each[1:3] for at, each in states.items()}


def test_a_watched_document_arrives_after_each_change(shop: Shop, file: str) -> None:
    with local_page(file) as page:
        assert page.watch("document", address="shop.count")["record"]["value"]["text"] == "1"
        shop.counted.value = 2
        while page.delta()["record"]["value"]["text"] != "2":
            pass


def test_the_next_delta_waits_until_the_last_is_painted(shop: Shop, file: str) -> None:
    with local_page(file) as page:
        page.watch("document", address="shop.count")
        shop.counted.value = 2
        first = page.delta_unpainted()
        for number in range(3, 9):
            shop.counted.value = number
        # Painted only now: all changes meanwhile are one.
        page.send(t="ok", n=first["n"])
        seen: list[str] = []
        while not seen or seen[-1] != "8":
            seen.append(page.delta()["record"]["value"]["text"])
        assert len(seen) <= 3


def test_two_tabs_see_what_one_of_them_does(shop: Shop, file: str) -> None:
    with studio_of(file) as server, entered(server) as one, entered(server) as other:
        other.watch("document", address="shop.count")
        one.do("set", address="shop.count", text="12")
        while other.delta()["record"]["value"]["text"] != "12":
            pass
        assert shop.counted.value == 12


def test_a_hidden_tab_is_sent_nothing_and_nothing_is_recorded_for_it(shop: Shop, file: str) -> None:
    trace = _trace_of(shop)
    with local_page(file) as page:
        page.watch("document", address="shop.count")
        until(lambda: trace.passed is not None, "the program wakes the Studio")
        page.send(t="hide")
        until(lambda: trace.passed is None, "a hidden tab costs nothing")
        shop.counted.value = 2
        page.send(t="show")
        assert page.delta()["record"]["value"]["text"] == "2"


def _trace_of(shop: Shop) -> Any:
    del shop
    until(lambda: socket_registry().sockets, "the socket is there")
    [file_socket] = [each for each in socket_registry().sockets.values() if each.openings[0].app == "shop"]
    return file_socket.openings[0].space.scheduler.inspect._trace


def test_a_program_that_is_not_looked_at_makes_no_record_and_calls_nothing(shop: Shop, file: str) -> None:
    until(lambda: socket_registry().sockets, "the socket is there")
    trace = _trace_of(shop)
    [opening] = next(iter(socket_registry().sockets.values())).openings
    shop.counted.value = 3
    assert (trace.on, trace.passed, opening.changes) == (False, None, None)
    with local_page(file) as page:
        page.watch("graph")
        until(lambda: trace.passed is not None, "the program wakes the Studio")
        # No listener of the trace: that would slow each run.
        assert not trace.on
        assert opening.changes is not None
    until(lambda: trace.passed is None, "the Studio is closed")
    looks = opening.changes.looks
    shop.counted.value = 4
    assert opening.changes.looks == looks


def runs_of(file: str, *, watched: bool) -> list[tuple[str, tuple[str, ...]]]:
    """The runs of the same program, in their order, with their causes."""
    made = make_shop()
    with ExitStack() as stack:
        stack.enter_context(made.app.open(file, on_error=ignore))
        until(lambda: socket_registry().sockets, "the socket is there")
        [opening] = next(iter(socket_registry().sockets.values())).openings
        scheduler = opening.space.scheduler
        if watched:
            page = stack.enter_context(local_page(file))
            page.watch("graph")
            page.watch("overview")
            until(lambda: scheduler.inspect._trace.passed is not None, "the Studio asks")
        scheduler.set_trace_enabled("started", True)
        for number in range(2, 30):
            made.counted.value = number * 50
            made.add.send(1).result()
        return [(record.node, record.causes) for record in scheduler.get_trace("started")]  # type: ignore[attr-defined]


def test_a_studio_changes_neither_what_runs_nor_the_order(tmp_path: Path) -> None:
    alone = runs_of(str(tmp_path / "alone.db"), watched=False)
    assert len(alone) > 100
    assert runs_of(str(tmp_path / "watched.db"), watched=True) == alone


def test_a_slow_answer_is_asked_for_rarely() -> None:
    facts = {"mark": "", "seq": 0, "at_ms": 0, "live": "live", "busy": "", "record": b"{}"}
    assert Answered(**facts, took_s=0.2).rest_s == pytest.approx(4.0)  # type: ignore[arg-type]
    assert Answered(**facts, took_s=0.004).rest_s < 0.01  # type: ignore[arg-type]
    assert Answered(**facts).rest_s == 0  # type: ignore[arg-type]


def test_only_changed_functions_are_read_again(shop: Shop) -> None:
    [opening] = next(iter(socket_registry().sockets.values())).openings
    inspector = LiveInspector([opening])
    [first] = inspector.ask(GetChanges())
    [nothing] = inspector.ask(GetChanges(look=first.look))
    assert [node.name for node in nothing.nodes if node.kind != "handler"] == []
    shop.counted.value = 2
    [some] = inspector.ask(GetChanges(look=nothing.look))
    names = {node.name for node in some.nodes if node.kind != "handler"}
    assert "double" in names
    # Its result is the same: nothing that reads it ran.
    assert "show" not in names or "is_big" in names
    assert some.structure == first.structure
    [graph] = inspector.ask(GetGraph())
    assert graph.snapshot is not None
    whole = {node.id: node for node in graph.snapshot.nodes}
    for node in some.nodes:
        assert msgspec.structs.replace(node, rank=0, gate="") == msgspec.structs.replace(
            whole[node.id], rank=0, gate=""
        )


def test_a_pass_that_is_recorded_can_be_followed_step_by_step(shop: Shop, file: str) -> None:
    with local_page(file) as page:
        assert page.ask("passes")["recording"] is False
        page.do("record", on=True)
        until(lambda: page.ask("passes")["recording"], "it records")
        shop.counted.value = 600
        until(lambda: page.ask("passes")["passes"], "a pass was recorded")
        line = page.ask("passes")["passes"][0]
        assert line["causes"][0] == "shop.count"
        found = page.ask("pass", number=line["number"])
        steps = [(step["kind"], step["name"], step["changed"]) for step in found["steps"]]
        assert ("finished", "double", True) in steps
        assert ("finished", "is_big", True) in steps
        assert steps.index(("finished", "double", True)) < steps.index(("finished", "is_big", True))
        boxes = {box[0] for box in page.ask("graph")["boxes"]}
        assert {step["box"] for step in found["steps"]} <= boxes
        page.do("record", on=False)
        assert page.ask("passes")["recording"] is False
        assert page.ask("pass", number=99)["code"] == "HW106"


def test_a_recording_ends_by_itself_also_if_nobody_looks(
    shop: Shop, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    del shop
    ended: list[str] = []
    monkeypatch.setattr(passes, "RECORD_S", 0.1)
    monkeypatch.setattr(FileHost, "follow", lambda *_: lambda: ended.append("ended"))
    with local_page(file) as page:
        page.do("record", on=True)
        until(lambda: ended, "the program is as fast as before")
    assert ended == ["ended"]


def test_an_answer_about_many_spaces_is_slow_too(monkeypatch: pytest.MonkeyPatch, file: str, shop: Shop) -> None:
    del shop

    def slow(*_: object) -> SpacesView:
        time.sleep(0.1)
        return SpacesView(spaces=(), next="")

    monkeypatch.setattr(feed, "spaces", slow)
    with closing(feed.SpaceFeed(FileHost(file), Login(), "", "main")) as asked:
        assert asked.ask(Spaces()).result(WAIT_S).rest_s >= 0.1 * feed.SLOW_REST


def test_large_answers_are_not_kept_for_other_tabs(shop: Shop, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    del shop
    monkeypatch.setattr(feed, "_REMEMBERED_BYTES", 2000)
    with closing(feed.SpaceFeed(FileHost(file), Login(), "", "main")) as asked:
        for question in (DocumentQuestion(address="shop.count"), DocumentQuestion(address=f"shop.{'x' * 2000}")):
            asked.ask(question).result(WAIT_S)
        assert [len(key) < 2000 for key in asked._remembered] == [True]


# --- programs -------------------------------------------------------------------------------------------------

PROGRAM = """
    import sys
    from tests.studio.shop import ignore, make_shop

    made = make_shop()
    with made.app.open(sys.argv[1], on_error=ignore):
        made.counted.value = 5
        print("open", flush=True)
        for line in sys.stdin:
            made.counted.value = int(line)
"""


@contextmanager
def started(file: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has the file open. It is killed in the end."""
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), file],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "open\n"
        try:
            yield program
        finally:
            program.kill()


def state_after(page: PageClient, live: str) -> dict[str, Any]:
    while (delta := page.delta()).get("live", "live") != live:
        pass
    return delta


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_a_program_that_ends_leaves_its_last_picture_and_one_that_opens_makes_it_live(
    file: str, end: signal.Signals
) -> None:
    with started(file) as first, local_page(file) as page:
        # The socket is there a moment after the file.
        until(lambda: page.ask("overview")["openings"][0]["origin"] == "live", "it is live")
        page.watch("graph")
        first.send_signal(end)
        first.wait(60)
        state_after(page, "ended")
        assert page.ask("document", address="shop.count")["value"]["text"] == "5"
        with started(file) as second:
            state_after(page, "live")
            assert second.stdin is not None
            print(77, file=second.stdin, flush=True)
            until(lambda: page.ask("document", address="shop.count")["value"]["text"] == "77", "it is live again")


def test_a_studio_of_a_closed_file_does_not_hold_it(file: str) -> None:
    with make_shop().app.open(file, on_error=ignore):
        pass
    with local_page(file) as page:
        page.watch("documents")
        with started(file):
            state_after(page, "live")


def test_a_question_that_is_refused_and_a_deed_do_not_hold_a_closed_file(file: str) -> None:
    with make_shop().app.open(file, on_error=ignore):
        pass
    # Each is the first job of its Studio: nothing is known of the file yet.
    jobs: list[Callable[[PageClient], Any]] = [
        lambda page: page.ask("pass", number=1),
        lambda page: page.do("set", address="shop.count", text="7"),
        lambda page: page.do("set", address="shop.nothing", text="7"),
    ]
    for first in jobs:
        with local_page(file) as page:
            first(page)
            with started(file):
                pass


# --- in a program ---------------------------------------------------------------------------------------------


def test_a_program_looks_at_its_own_space_in_memory() -> None:
    made = make_shop()
    with made.app.open("memory:", on_error=ignore) as space, Studio(space) as studio:
        made.counted.value = 3
        link = studio.url
        with page_of(link, code=link.partition("#c=")[2]) as page:
            assert page.welcome["place"] == "program"
            page.watch("document", address="shop.count")
            made.counted.value = 4
            while page.delta()["record"]["value"]["text"] != "4":
                pass
            page.do("set", address="shop.count", text="9")
            assert made.counted.value == 9
            assert [box[1] for box in page.ask("graph")["boxes"] if box[1] == "double"]


def test_a_studio_shows_itself_as_a_link_in_a_notebook() -> None:
    made = make_shop()
    with made.app.open("memory:", on_error=ignore) as space, Studio(space) as studio:
        shown = studio._repr_html_()
        assert shown.startswith('<a href="http://127.0.0.1:')
        assert ">Studio of " in shown
        # Each look makes a new link, since one works once.
        assert studio.url != studio.url


def test_a_server_of_a_studio_ends_its_threads(file: str, shop: Shop) -> None:
    del shop
    before = set(threading.enumerate())
    with studio_of(file) as server, entered(server) as page:
        assert isinstance(server, LocalStudioServer)
        page.watch("graph")

    def left() -> list[str]:
        return [each.name for each in set(threading.enumerate()) - before if "studio" in each.name]

    until(lambda: not left(), f"threads go on: {left()}")


def test_a_watched_question_that_fails_once_is_asked_again(
    file: str, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, failures = feed.SpaceFeed._answer, ["first"]

    def refused_at_times(self: feed.SpaceFeed, *words: Any, **more: Any) -> feed.Answered:
        if failures:
            raise UnavailableError(f"a program opens it: {failures.pop(0)}")
        return ask(self, *words, **more)

    monkeypatch.setattr(feed.SpaceFeed, "_answer", refused_at_times)
    with local_page(file) as page:
        assert page.watch("document", address="shop.count")["t"] == "trouble"
        found = page.frame()
        assert (found["t"], found["n"], found["record"]["value"]["text"]) == ("answer", page.number, "1")
        # Also when it was answered before. Then the answer is whole, since the page shows the error.
        failures.append("later")
        shop.counted.value = 2
        while (found := page.frame())["t"] != "trouble":
            assert found["t"] == "delta"
            page.send(t="ok", n=found["n"])
        found = page.frame()
        assert (found["t"], found["record"]["value"]["text"]) == ("answer", "2")


def test_a_watched_question_is_answered_when_what_was_missing_is_there(file: str, shop: Shop) -> None:
    assert shop.counted.value == 1
    with local_page(file) as page:
        assert page.watch("documents", branch="side")["t"] == "trouble"
        watched = page.number
        # The error is said once, however often it is asked again.
        page.number += 1
        page.send(t="do", n=page.number, deed={"type": "fork", "name": "side"})
        kinds = {(found["t"], found["n"]) for found in (page.frame(), page.frame())}
        assert kinds == {("done", page.number), ("answer", watched)}
