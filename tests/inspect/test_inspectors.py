"""Every question has the same answer from the process that has a space open, from its file, and from a server."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import headwater as hw
from headwater.access.rights import Right
from headwater.client.server_url import parse_server
from headwater.declare.events.handler import Handler
from headwater.errors import AccessError, HeadwaterError, NotFoundError, UnavailableError, UsageError
from headwater.host.space_files import file_name
from headwater.inspect import sockets
from headwater.inspect.document_records import GetHistory, GetValue, ListDocuments, SetValue
from headwater.inspect.event_records import DropEvent, ListEvents, ListPieces, RedeliverEvent, SendEvent, ShowEvent
from headwater.inspect.function_records import (
    ExplainNode,
    GetActivity,
    GetCounts,
    GetGraph,
    GetResume,
    GetTrace,
    OpeningView,
)
from headwater.inspect.incoming import AnyQuestion
from headwater.inspect.inspector import Inspector
from headwater.inspect.resolve import inspector_for
from headwater.inspect.server_inspector import ServerInspector
from headwater.inspect.workflow_records import (
    ControlWorkflow,
    ListInputs,
    ListRuns,
    ListWorkflows,
    PublishEvent,
    ShowRun,
)
from headwater.server.pages import inspect_page
from headwater.server.server import Server
from tests.server.running import served, settle_in, token_for
from tests.support.open_spaces import socket_ready


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "GRACE_S", 0.0)
    settle_in(tmp_path, monkeypatch)


@hw.pattern
def kettle(p: hw.Builder, litres: float) -> hw.Cell[float]:
    return p.cell("filled", litres)


def make_app() -> hw.App:
    app = hw.App("desk")
    total = app.cell("total", 0)
    doubled = app.computed(name="doubled")(lambda: total.value * 2)
    app.sink(name="show")(lambda: doubled())  # noqa: PLW0108  # a sink is a function of no app

    @app.handler
    def add(number: int) -> int:
        if number > 10:
            raise ValueError(f"{number} is too much")
        total.value += number
        return total.value

    flow = app.workflow("letters")
    letters = flow.topic("letters", str)

    @flow.consumer(letters)
    class Send(hw.Consumer[str, str, int]):
        def prepare(self, pending: Sequence[hw.Event[str]]) -> hw.Plan[str]:
            return hw.Plan(pending[0].data, take=pending[:1], title="Send a") if pending else hw.Plan.idle()

        def mutate(self, run: hw.Run, data: str) -> int:
            return len(data) + run.id * 0

    return app


class Place:
    """One space with something of everything, open, closed, or at a server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / file_name("home")
        self.url = f"{folder}{os.sep}"
        self.event = ""

    def fill(self) -> None:
        app = make_app()
        with app.open(self.url, space="home", on_error=lambda _: None) as space:
            space.start(kettle, "kitchen", litres=1.5)
            [add] = [each for each in space._opening.handlers if isinstance(each, Handler)]
            add.send(3)
            self.event = add.send(11).id
        with inspector_for(self.url, "home") as inspector:
            inspector.do(PublishEvent(workflow="letters", topic="letters", value='"hello"', id="a", title="Letter a"))
        with app.open(self.url, space="home") as space:
            space.workflows.drain()

    @contextmanager
    def opened(self) -> Iterator[Inspector]:
        with make_app().open(self.url, space="home"):
            socket_ready(self.file)
            with inspector_for(self.url, "home") as inspector:
                assert inspector.is_live
                yield inspector

    @contextmanager
    def closed(self) -> Iterator[Inspector]:
        with inspector_for(self.url, "home") as inspector:
            assert not inspector.is_live
            yield inspector

    @contextmanager
    def at_server(self) -> Iterator[Inspector]:
        with served(self.folder) as server, inspector_for(f"{server.url}/home") as inspector:
            assert isinstance(inspector, ServerInspector)
            yield inspector


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "spaces").mkdir(mode=0o700)
    found = Place(tmp_path / "spaces")
    found.fill()
    return found


QUESTIONS: list[Callable[[Place], AnyQuestion]] = [
    lambda _: ListDocuments(values=True),
    lambda _: ListDocuments(every=True),
    lambda _: ListDocuments(prefix="desk.t"),
    lambda _: GetValue(address="desk.total"),
    lambda _: GetHistory(address="desk.total"),
    lambda _: ListEvents(),
    lambda _: ListEvents(waiting=True),
    lambda place: ShowEvent(event=place.event[:14]),
    lambda _: ListPieces(),
    lambda _: ListWorkflows(),
    lambda _: ListWorkflows(workflow="letters"),
    lambda _: ListRuns(every=True),
    lambda _: ShowRun(run=1),
    lambda _: ListInputs(),
    lambda _: GetGraph(),
    lambda _: GetActivity(),
    lambda _: GetCounts(),
    lambda _: GetResume(),
    lambda _: GetTrace(),
    lambda _: ExplainNode(node="doubled"),
]


def plain(answer: object) -> Any:
    """Without what depends on when and where it is asked."""
    found = msgspec.to_builtins(answer)

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            gone = ("at", "at_ms", "pid", "origin", "hosted", "at_work", "sentence", "traceback")
            return {name: strip(each) for name, each in value.items() if name not in gone}
        return [strip(each) for each in value] if isinstance(value, list | tuple) else value

    return strip(found)


def test_questions_have_the_same_answers_in_a_process_in_a_file_and_at_a_server(place: Place) -> None:
    questions = [question(place) for question in QUESTIONS]
    with place.opened() as live:
        of_process: list[Any] = [live.ask(question) for question in questions]  # type: ignore[misc]  # of each kind
    with place.closed() as file:
        of_file: list[Any] = [file.ask(question) for question in questions]  # type: ignore[misc]
    with place.at_server() as server:
        of_server: list[Any] = [server.ask(question) for question in questions]  # type: ignore[misc]
    for question, live_answer, file_answer, server_answer in zip(
        questions, of_process, of_file, of_server, strict=True
    ):
        assert plain(file_answer) == plain(server_answer), question
        if isinstance(live_answer, tuple) and live_answer and isinstance(live_answer[0], OpeningView):
            assert [view.app for view in live_answer] == [view.app for view in file_answer]
        elif not isinstance(question, ListWorkflows | ListRuns | ShowRun):
            assert plain(live_answer) == plain(file_answer), question


def test_functions_are_answered_with_what_is_live_stored_and_served(place: Place) -> None:
    headlines = []
    for opened in (place.opened, place.closed, place.at_server):
        with opened() as inspector:
            [view] = inspector.ask(GetGraph())
            headlines.append(view.headline)
            assert view.snapshot is not None
            assert {node.name for node in view.snapshot.nodes} >= {"doubled", "show", "add"}
            assert inspector.ask(ExplainNode(node="nothing"))[0].names
            with pytest.raises(NotFoundError, match=r"there is no document desk\.totl; did you mean"):
                inspector.ask(GetHistory(address="desk.totl"))
    assert ", live in process " in headlines[0]
    assert ", when desk was last closed" in headlines[1]
    assert headlines[2].endswith("when desk was last closed, as stored at the server")


def test_commands_are_carried_out_in_a_process_in_a_file_and_at_a_server(place: Place) -> None:
    for number, opened in enumerate((place.opened, place.closed, place.at_server)):
        with opened() as inspector:
            report = inspector.do(SetValue(address="desk.total", value=100 + number))
            assert (report.changed, report.made_space) == (True, "")
            assert inspector.ask(GetValue(address="desk.total")).value == 100 + number
            assert inspector.ask(GetHistory(address="desk.total", limit=1)).changes[0].seq == report.seq
            with pytest.raises(HeadwaterError, match=r"declared as|expected"):
                inspector.do(SetValue(address="desk.total", value="many"))
            with pytest.raises(NotFoundError, match="no app here"):
                inspector.do(SetValue(address="desk.nothing", value=1))
            assert inspector.do(SetValue(address="extra", value={"a": [1]}, create=True)).changed
            assert inspector.do(SetValue(address="extra/a/0")).changed
            assert inspector.ask(GetValue(address="extra")).value == {"a": []}
            assert inspector.do(SetValue(address="extra")).changed
            assert inspector.do(ControlWorkflow(workflow="letters", action="pause")).flow.intent == "paused"
            assert inspector.do(ControlWorkflow(workflow="letters", action="resume")).flow.intent == "active"
            event = PublishEvent(workflow="letters", topic="letters", value='"x"', id=f"b{number}")
            assert inspector.do(event).event.news == "new"
            assert inspector.do(event).event.news == "known"


def test_events_are_sent_by_an_app_and_dropped_anywhere(place: Place) -> None:
    with place.opened() as inspector:
        assert inspector.do(SendEvent(handler="add", fields='{"number": 1}', timeout_ms=1e4)).result == "4"
    with place.closed() as inspector:
        for command in (SendEvent(handler="add"), RedeliverEvent(event=place.event)):
            with pytest.raises(UsageError, match="takes the app: start the program"):
                inspector.do(command)
    with place.at_server() as inspector:
        with pytest.raises(UsageError, match="at a server, sending an event takes the app"):
            inspector.do(SendEvent(handler="add"))
        assert inspector.do(DropEvent(event=place.event)).event == place.event
        assert inspector.ask(ListEvents()) == ()
        with pytest.raises(UsageError, match="not at the server"):
            inspector.follow()


def test_pages_of_documents_and_changes_are_complete(place: Place) -> None:
    from headwater.inspect.paging import changes, document_pages

    with place.closed() as inspector:
        whole = inspector.ask(ListDocuments(every=True, values=True)).documents
        pages = list(document_pages(inspector, ListDocuments(every=True, values=True, limit=2)))
        assert tuple(row for page in pages for row in page.documents) == whole
        assert len(pages) >= len(whole) // 2
        for number in range(5):
            inspector.do(SetValue(address="desk.total", value=number))
        one = inspector.ask(GetHistory(address="desk.total")).changes
        assert tuple(changes(inspector, GetHistory(address="desk.total", limit=2))) == one
        assert tuple(changes(inspector, GetHistory(address="desk.total", limit=2), 3)) == one[:3]


def test_changes_at_a_server_are_heard_of(place: Place) -> None:
    with place.at_server() as inspector:
        heard = inspector.changes(lambda _: ListWorkflows())
        first = next(heard)
        assert first is not None
        assert next(heard) is None
        inspector.do(ControlWorkflow(workflow="letters", action="pause"))
        after = next(heard)
        assert after is not None
        assert after.flows[0].intent == "paused"


# --- rights at a server -----------------------------------------------------------------------------------


@pytest.fixture
def server(place: Place) -> Iterator[Server]:
    with served(place.folder) as server:
        yield server


def at(server: Server, token: str, space: str = "home") -> ServerInspector:
    return ServerInspector(parse_server(f"{server.url}/{space}"), token)


def test_rights_are_those_of_the_token(server: Server) -> None:
    publication = PublishEvent(workflow="letters", topic="letters", value='"x"', id="c")
    control = ControlWorkflow(workflow="letters", action="pause")
    reader, writer, owner = (at(server, token_for(server, "home", can)) for can in ("read", "write", "own"))
    for inspector in (reader, writer, owner):
        assert inspector.ask(ListRuns()).runs
    with pytest.raises(AccessError, match="the right to write the space is missing"):
        reader.do(publication)
    assert writer.do(publication).event.news == "new"
    for inspector in (reader, writer):
        with pytest.raises(AccessError, match="the right to own the space is missing"):
            inspector.do(control)
    assert owner.do(control).flow.intent == "paused"


def test_a_space_of_which_nothing_may_be_read_does_not_exist(server: Server) -> None:
    stranger = at(server, token_for(server, "elsewhere", "own"))
    with pytest.raises(AccessError, match="there is no such space"):
        stranger.ask(GetGraph())
    with pytest.raises(AccessError):
        at(server, "hw_nonsense").ask(GetGraph())
    owner = at(server, token_for(server, "*", "own"), "nowhere")
    with pytest.raises(HeadwaterError, match=r"nowhere|no space|no such space"):
        owner.ask(GetGraph())


def test_documents_of_others_do_not_exist(server: Server, place: Place) -> None:
    ann = at(server, token_for(server, "home", "write", actor="ann"))
    ann.do(SetValue(address="user:ann!diary", value=1, create=True))
    assert ann.ask(GetHistory(address="user:ann!diary")).changes
    assert [row.address for row in ann.ask(ListDocuments(prefix="user:ann!", deleted=True)).documents] == [
        "user:ann!diary"
    ]
    token, _ = server.access.create(space="home", can=Right.OWN, actor=None, any_actor=False)
    anyone = at(server, token)
    with pytest.raises(AccessError, match="cannot act as ann"):
        anyone.ask(GetHistory(address="user:ann!diary"))
    addresses = [row.address for row in anyone.ask(ListDocuments(deleted=True, every=True)).documents]
    assert "desk.total" in addresses
    assert not [address for address in addresses if address.startswith("user:")]
    assert place.event


def test_what_is_not_understood_or_too_large_is_refused(server: Server) -> None:
    from tests.server.running import pages

    token = token_for(server, "home", "own")
    path = "/spaces/home/inspect"
    with pages(server, token) as http:
        json = {"content-type": "application/json"}
        unknown = http.post(path, content=b'{"v": 4, "ask": {"question": "destroy"}}', headers=json)
        assert unknown.status_code == 200
        assert "the question is unknown there" in unknown.json()["refused"]
        assert "version 4" in http.post(path, content=b'{"v": 9}', headers=json).json()["refused"]
        assert http.post(path, content=b"{}").status_code == 415
        assert http.post(path, content=b'"' + b"x" * 2_000_000 + b'"', headers=json).status_code == 413
        assert http.get(path).status_code == 405
        written = http.post(
            path, content=b'{"v": 4, "do": {"command": "set", "address": "a", "value": 1}}', headers=json
        )
        assert written.json()["failure"]["kind"] == "UsageError"
    with pages(server) as http:
        assert http.post(path, content=b"{}", headers=json).status_code == 401


def audited(place: Place) -> list[dict[str, object]]:
    lines = (place.folder / "audit.jsonl").read_text().splitlines()
    found = map(msgspec.json.decode, map(str.encode, lines))
    return [line["facts"] for line in found if line["event"] == "inspected"]


def test_questions_and_commands_are_in_the_audit_log_and_what_is_asked_again_is_there_once(
    server: Server, place: Place
) -> None:
    inspector = at(server, token_for(server, "home", "own"))
    inspector.ask(ListRuns())
    inspector.do(ControlWorkflow(workflow="letters", action="pause"))
    heard = inspector.changes(lambda _: ListWorkflows())
    for _ in range(3):
        next(heard)
    assert [(line["space"], line["what"]) for line in audited(place)] == [
        ("home", "runs"),
        ("home", "workflow"),
        ("home", "workflows"),
    ]


def test_nothing_is_answered_that_is_not_in_the_audit_log(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_event: str, /, **_facts: object) -> None:
        raise UnavailableError("no room")

    inspector = at(server, token_for(server, "home", "own"))
    monkeypatch.setattr(server.access.audit, "write", fail)
    with pytest.raises(UnavailableError):
        inspector.ask(ListRuns())


def test_questions_at_a_server_are_bounded(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    inspector = at(server, token_for(server, "home", "own"))
    monkeypatch.setattr(inspect_page, "ANSWER_MAX", 10)
    with pytest.raises(UsageError, match="the answer is larger than 10 bytes"):
        inspector.ask(ListRuns())
    monkeypatch.setattr(inspect_page, "AT_ONCE_MAX", 0)
    with pytest.raises(UnavailableError, match="questions are being answered; try again"):
        inspector.ask(ListRuns())


def test_functions_that_ran_for_another_user_are_not_shown(tmp_path: Path) -> None:
    folder = tmp_path / "private"
    folder.mkdir(mode=0o700)
    with make_app().open(f"{folder}{os.sep}", space="home", actor="ann"):
        pass
    with served(folder) as server:
        token, _ = server.access.create(space="home", can=Right.OWN, actor=None, any_actor=False)
        # The results are documents of the space; the state of the opening is not for others.
        [view] = at(server, token).ask(GetGraph())
        assert view.observed
        [view] = at(server, token_for(server, "home", "read", actor="ann")).ask(GetGraph())
        assert (view.actor, view.observed) == ("ann", 0)


def test_an_older_server_is_named_as_such(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.inspect.server_inspector.space_path", lambda *_: "/spaces/home/nothing")
    inspector = at(server, token_for(server, "home", "own"))
    with pytest.raises(UnavailableError, match="the server runs an older version"):
        inspector.ask(ListRuns())


# --- functions of programs that use a server ----------------------------------------------------------------


def test_computations_of_programs_at_a_server_are_drawn_from_their_observations(tmp_path: Path) -> None:
    app = hw.App("shop")
    prices = app.cell("prices", [2, 5])

    @app.computed
    def gross(item: int) -> int:
        return prices.value[item] * 2

    @app.computed
    def total() -> int:
        return gross(0) + gross(1)

    with served(tmp_path / "served") as server, inspector_for(f"{server.url}/home") as inspector:
        with app.open(f"{server.url}/home") as space:
            prices.value = [3, 4]
            assert total() == 14
            space.sync()
        [graph] = inspector.ask(GetGraph())
        assert graph.snapshot is not None
        assert [(node.name, node.status) for node in graph.snapshot.nodes] == [
            ("gross(0)", "clean"),
            ("gross(1)", "clean"),
            ("total", "clean"),
        ]
        assert [source.address for source in graph.snapshot.sources] == ["shop.prices"]
        assert graph.headline.startswith("shop in space home, by what its functions read up to commit ")
        [activity] = inspector.ask(GetActivity())
        assert [(one.name, one.nodes, one.has_arguments) for one in activity.activities] == [
            ("gross", 2, True),
            ("total", 1, False),
        ]
        inspector.do(SetValue(address="shop.prices/0", value=9))
        [why] = inspector.ask(ExplainNode(node="gross"))
        assert [each.name for each in why.whys] == ["gross(0)", "gross(1)"]
        assert "Since then shop.prices changed" in why.whys[0].words
        assert inspector.ask(GetCounts())[0].counts["invalid"] == 2
        assert inspector.ask(GetTrace())[0].trace == ()
        assert inspector.ask(GetResume())[0].taken.rows == 3
        other = inspector_for(f"{server.url}/home", app="shp")
        with pytest.raises(NotFoundError, match="there is no app 'shp' here; did you mean shop"):
            other.ask(GetGraph())
