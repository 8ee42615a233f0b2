"""Events of a server's space: when a right is missing, when the server is away, and what is left at the end."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic

import pytest
from click.testing import CliRunner

import headwater as hw
from headwater.access.rights import Right
from headwater.cli.main import cli
from headwater.client import server_link as links
from headwater.errors import (
    AccessError,
    EventFailedError,
    EventTimeoutError,
    OfflineError,
    RejectedError,
    SyncError,
    UserCodeError,
)
from headwater.host.plain_space import Space
from tests.client.world import SPACE, Behind, behind, settled, state_is
from tests.server.running import DEADLINE_S, settle_in, token_for, until


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Behind]:
    settle_in(tmp_path, monkeypatch)
    with behind(tmp_path / "store") as world:
        yield world


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is away is not waited for."""
    monkeypatch.setattr(links, "PATIENCE_S", 0.2)


class Item(hw.Doc):
    title: str


class Board(hw.Doc):
    items: hw.List[Item] = hw.List()


class Todo:
    """A list of documents, one counter, and a handler for each of what can become of an event."""

    def __init__(self) -> None:
        self.app = app = hw.App("todo")
        self.board = app.doc("board", Board)
        self.count = app.cell("count", 3)
        self.shown: list[int] = []
        self.calls: list[str] = []
        self.wrong: list[UserCodeError] = []

        @app.computed
        def twice() -> int:
            return self.count.value * 2

        @app.sink
        def show() -> None:
            self.shown.append(twice())

        @app.handler
        def add(title: str) -> int:
            self.calls.append(title)
            self.board.items.append(Item(title=title))
            return len(self.board.items)

        @app.handler
        def increment() -> int:
            self.calls.append("increment")
            self.count.value += 1
            return self.count.value

        @app.handler
        def read(doc: str) -> str:
            self.calls.append(doc)
            found = str(self.space.doc(doc, Item).title)
            self.count.value += 1
            return found

        @app.handler
        def fail(number: int) -> None:
            self.calls.append("fail")
            raise ValueError(f"{number} is odd")

        self.add, self.increment, self.read, self.fail = add, increment, read, fail

    def open(self, url: str, token: str | None, **options: object) -> Space:
        """As ann."""
        self.space = self.app.open(url, token=token, on_error=self.wrong.append, **options)  # type: ignore[arg-type]
        return self.space

    @property
    def titles(self) -> list[str]:
        return [item.title for item in self.board.items]


def commits(at: Behind) -> int:
    """How many the server has."""
    assert at.server.spaces is not None
    return at.server.spaces.channels[SPACE].storage.call(lambda engine: engine.head)


def item_of(at: Behind, title: str) -> str:
    """A document that somebody else has made, which nothing links to."""
    other = hw.App("other")
    with other.open(at.straight, actor="bob") as space, space.transaction():
        item = Item(title=title)
    return hw.id_of(item)


# --- a right that is missing ----------------------------------------------------------------------------------


def test_an_event_of_who_may_only_read_fails_once_and_is_taken_back_once(at: Behind) -> None:
    todo = Todo()
    with todo.open(at.straight, token_for(at.server, SPACE, "read")) as space:
        before = commits(at)
        ticket = todo.increment.send()
        with pytest.raises(EventFailedError, match="the right to write it is missing") as failed:
            ticket.result(timeout="120s")
        assert isinstance(failed.value.__cause__, AccessError)
        space.wait("300ms")
        # As it was, as the handler had it, and as it is; what is refused at once is not shown at all.
        assert todo.shown in ([6], [6, 8, 6])
        assert todo.calls == ["increment"]
        assert ticket.state == "failed"
        assert commits(at) == before
        assert space.connection.pending == 0


def test_that_it_could_not_be_kept_for_want_of_a_right_is_said_instead_of_where_it_is(at: Behind) -> None:
    todo = Todo()
    with todo.open(at.straight, token_for(at.server, SPACE, "read")):
        with pytest.raises(EventFailedError) as failed:
            todo.increment.send().result(timeout="120s")
        told = [str(error) for error in todo.wrong]
        assert len(told) == 1
        for text in (str(failed.value), *told):
            assert (
                "could not be kept either: nothing can be stored in space 'shop': the right to write is missing" in text
            )
            assert "headwater events" not in text


def test_who_may_only_read_leaves_events_that_wait_to_others(at: Behind) -> None:
    sender = hw.App("todo")
    with sender.open(at.straight, token=at.token, actor="ann"):
        pass
    todo = Todo()
    with todo.open(at.straight, at.token, actor="ann") as space:
        with space.transaction():
            space._opening.send("todo.increment", [])
        space.scheduler.events.close()
    reader = Todo()
    with reader.open(at.straight, token_for(at.server, SPACE, "read")) as space:
        space.wait("100ms")
        assert reader.calls == []
        assert reader.wrong == []


def test_a_sink_that_writes_without_the_right_runs_once_and_is_told_once(at: Behind) -> None:
    app = hw.App("todo")
    count, seen = app.cell("count", 3), app.cell("seen", 0)
    runs: list[int] = []
    wrong: list[UserCodeError] = []

    @app.sink
    def note() -> None:
        runs.append(count.value)
        seen.value = count.value

    with app.open(at.straight, token=token_for(at.server, SPACE, "read"), on_error=wrong.append) as space:
        space.wait("300ms")
        assert runs == [3]
        assert len(wrong) == 1
        assert "the right to write it is missing" in str(wrong[0])
        assert seen.value == 0


def test_a_transaction_without_the_right_is_taken_back_once(at: Behind) -> None:
    todo = Todo()
    with todo.open(at.straight, token_for(at.server, SPACE, "read")) as space:
        with space.transaction():
            todo.count.value = 9
        with pytest.raises(RejectedError, match="the right to write it is missing"):
            space.sync()
        space.wait("200ms")
        # What is refused at once is not shown at all.
        assert todo.shown in ([6], [6, 18, 6])


# --- the server is away ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_handler_makes_documents_while_the_server_is_away(at: Behind, tmp_path: Path, *, is_kept: bool) -> None:
    todo, other = Todo(), Todo()
    with todo.open(at.url, at.token, actor="ann", **({"local": tmp_path / "kept"} if is_kept else {})) as space:
        at.go_away()
        state_is(space, "offline")
        begun = monotonic()
        tickets = [todo.add.send(title) for title in ("one", "two")]
        with space.transaction():
            todo.board.items.append(Item(title="three"))
        todo.board.items.append(Item(title="four"))
        assert todo.titles == ["one", "two", "three", "four"]
        with pytest.raises(EventTimeoutError, match="is not reached"):
            tickets[0].result(timeout="50ms")
        assert monotonic() - begun < links.PATIENCE_S
        at.come_back()
        assert [ticket.result(timeout="120s") for ticket in tickets] == [1, 2]
        space.sync()
        assert todo.wrong == []
    with other.open(at.straight, at.token, actor="bob"):
        assert other.titles == ["one", "two", "three", "four"]


@pytest.mark.usefixtures("impatient")
def test_an_event_that_needs_what_is_not_here_waits_until_the_server_is_back(at: Behind) -> None:
    far = item_of(at, "far")
    todo = Todo()
    with todo.open(at.url, at.token, actor="ann") as space:
        at.go_away()
        state_is(space, "offline")
        first, second = todo.read.send(far), todo.increment.send()
        assert todo.calls == [far]
        with pytest.raises(EventTimeoutError, match="is not reached"):
            first.result(timeout="300ms")
        # It is asked for once, and those behind it wait: they were sent later.
        assert todo.calls == [far]
        assert (first.state, second.state) == ("queued", "queued")
        assert space.runs(todo.read) == 0
        at.come_back()
        assert first.result(timeout="120s") == "far"
        assert second.result(timeout="120s") == 5
        assert todo.calls == [far, far, "increment"]
        assert todo.wrong == []
        assert todo.shown[-1] == 10


@pytest.mark.usefixtures("impatient")
def test_an_event_that_waits_for_the_server_is_left_in_the_folder_and_handled_by_the_next(
    at: Behind, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    far, kept = item_of(at, "far"), tmp_path / "kept"
    todo = Todo()
    with caplog.at_level(logging.WARNING, "headwater"):
        with todo.open(at.url, at.token, actor="ann", local=kept) as space:
            at.go_away()
            state_is(space, "offline")
            todo.read.send(far)
            todo.increment.send()
            begun = monotonic()
        assert monotonic() - begun < 3
        assert todo.calls == [far]
    told = [record.getMessage() for record in caplog.records if "was closed while" in record.getMessage()]
    assert told == ["space 'shop' was closed while 2 events wait; they are handled when the space is opened again"]
    # Still away: it goes on waiting.
    todo = Todo()
    with todo.open(at.url, at.token, actor="ann", local=kept) as space:
        space.settle()
        assert todo.calls == []
        assert space.scheduler.events.waiting == 2
        at.come_back()
        until(lambda: settled(space) and not space.scheduler.events.waiting, "they are handled")
        assert todo.calls == [far, "increment"]
        space.sync()
        assert todo.wrong == []
    todo = Todo()
    with todo.open(at.straight, at.token, actor="bob") as space:
        space.wait("100ms")
        assert todo.calls == []
        assert todo.count.value == 5


@pytest.mark.usefixtures("impatient")
def test_events_that_are_left_while_the_server_is_away_and_nothing_is_kept_are_lost_and_that_is_said(
    at: Behind, caplog: pytest.LogCaptureFixture
) -> None:
    far, todo = item_of(at, "far"), Todo()
    space = todo.open(at.url, at.token, actor="ann")
    at.go_away()
    state_is(space, "offline")
    todo.read.send(far)
    with caplog.at_level(logging.WARNING, "headwater"), pytest.raises(OfflineError):
        space.close()
    told = [record.getMessage() for record in caplog.records if "was closed while" in record.getMessage()]
    assert len(told) == 1
    assert "1 event waits; it is lost, since ws://127.0.0.1" in told[0]
    assert "is not reached and no folder was given" in told[0]


def test_a_handler_that_fails_while_the_server_is_away_is_kept_without_waiting_for_it(
    at: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    todo, asked = Todo(), list[object]()
    with todo.open(at.url, at.token, actor="ann") as space:
        at.go_away()
        state_is(space, "offline")
        with monkeypatch.context() as counted:
            counted.setattr(links.ServerLink, "ask", lambda _, frame, *__: asked.append(frame))
            ticket = todo.fail.send(3)
        assert asked == []
        assert ticket.state == "failed"
        assert len(todo.wrong) == 1
        at.come_back()
        space.sync()
        assert len(todo.wrong) == 1
    listed = ran(at, "events", "ls", "--jsonl")
    assert [event["reason"] for event in listed] == ["ValueError: 3 is odd"]


@pytest.mark.usefixtures("impatient")
def test_that_something_is_not_here_says_for_how_long_the_server_has_been_away(at: Behind) -> None:
    far, todo = item_of(at, "far"), Todo()
    with todo.open(at.url, at.token, actor="ann") as space:
        at.go_away()
        state_is(space, "offline")
        for _ in range(2):
            with pytest.raises(OfflineError, match=r"is not reached for [1-9] s \("):
                space.doc(far, Item).title  # noqa: B018  # it is fetched
        at.come_back()
        state_is(space, "live")


def test_in_a_loop_an_event_that_needs_what_is_not_here_waits_without_holding_it_up(at: Behind) -> None:
    far, app = item_of(at, "far"), hw.App("todo")
    calls, spaces = list[str](), list[hw.AsyncSpace]()
    count = app.cell("count", 3)

    @app.handler
    async def read(doc: str) -> str:
        calls.append(doc)
        found = str(spaces[0].doc(doc, Item).title)
        count.value += 1
        return found

    async def main() -> None:
        async with app.aopen(at.url, token=at.token, actor="ann") as space:
            spaces.append(space)
            at.go_away()
            await asyncio.to_thread(until, lambda: space.connection.state == "offline", "it is offline")
            ticket = read.send(far)
            for _ in range(20):
                await asyncio.sleep(0.01)
            assert ticket.state == "queued"
            assert len(calls) == 1
            at.come_back()
            async with asyncio.timeout(DEADLINE_S):
                assert await ticket == "far"
            assert count.value == 4
            assert len(calls) == 2

    asyncio.run(main())


def test_an_event_that_waits_when_the_session_ends_fails_and_that_is_told(
    at: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "PATIENCE_S", 0.2)
    far, todo = item_of(at, "far"), Todo()
    token, grant = at.server.access.create(space=SPACE, can=Right.WRITE, actor="ann")
    space = todo.open(at.url, token)
    at.go_away()
    state_is(space, "offline")
    ticket = todo.read.send(far)
    at.server.access.revoke(grant.id)
    at.come_back()
    with pytest.raises(EventFailedError) as failed:
        ticket.result(timeout="120s")
    assert isinstance(failed.value.__cause__, SyncError)
    assert "could not be kept either" in str(failed.value)
    assert todo.calls.count(far) == 2
    with pytest.raises(SyncError):
        todo.count.value += 1
    with suppress(SyncError):
        space.close()


# --- looking at them ------------------------------------------------------------------------------------------


def ran(at: Behind, *arguments: str) -> list[dict[str, object]]:
    """What a command says, which comes past the proxy."""
    found = CliRunner().invoke(cli, [*arguments, "--url", at.straight], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return [json.loads(line) for line in found.stdout.splitlines()]


def failed_one(at: Behind) -> str:
    """An event that failed."""
    todo = Todo()
    with todo.open(at.straight, at.token, actor="ann"):
        ticket = todo.fail.send(3)
        with pytest.raises(EventFailedError, match=rf"see `headwater events show {ticket.id} --url {at.straight}`"):
            ticket.result(timeout="120s")
        again = f"`headwater events redeliver {ticket.id} --url {at.straight} --app MODULE:APP` delivers it again"
        assert again in str(todo.wrong[0])
        return ticket.id


def test_failed_events_of_a_server_are_listed_and_shown(at: Behind) -> None:
    event = failed_one(at)
    (listed,) = ran(at, "events", "ls", "--jsonl")
    assert (listed["event"], listed["stream"], listed["payload"]) == (event, "todo.fail", {"number": 3})
    (shown,) = ran(at, "events", "show", event[:14], "--json")
    assert (shown["reason"], shown["attempts"]) == ("ValueError: 3 is odd", 1)
    assert "ValueError: 3 is odd" in str(shown["traceback"])
    assert ran(at, "events", "ls", "--waiting", "--jsonl") == []
    missing = CliRunner().invoke(cli, ["events", "show", "event:nosuch", "--url", at.straight])
    assert missing.exit_code != 0


def test_failed_events_of_a_server_are_dropped_by_who_may(at: Behind, tmp_path: Path) -> None:
    event = failed_one(at)
    shown = tmp_path / "token"
    shown.write_text(token_for(at.server, SPACE, "read"))
    refused = CliRunner().invoke(cli, ["events", "drop", event, "--url", at.straight, "--token-file", str(shown)])
    assert isinstance(refused.exception, AccessError | SystemExit)
    assert refused.exit_code != 0
    assert len(ran(at, "events", "ls", "--jsonl")) == 1
    assert [each["event"] for each in ran(at, "events", "drop", event, "--jsonl")] == [event]
    assert ran(at, "events", "ls", "--jsonl") == []


def test_failed_events_of_a_server_are_delivered_again_by_the_app_that_is_named(
    at: Behind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = failed_one(at)
    (tmp_path / "mended_todo.py").write_text(
        "import headwater as hw\n"
        "app = hw.App('todo')\n"
        "@app.handler\n"
        "def fail(number: int) -> int:\n"
        "    return number * 2\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (told,) = ran(at, "events", "redeliver", event, "--app", "mended_todo:app", "--jsonl")
    assert (told["event"], told["state"], told["result"]) == (event, "confirmed", 6)
    assert ran(at, "events", "ls", "--jsonl") == []
    (told,) = ran(at, "events", "show", event, "--json")
    assert (told["state"], told["result"]) == ("confirmed", 6)


# --- rejected, and sent again as another ----------------------------------------------------------------------


class Stock:
    """A program that takes from a stock, and does not take more than there is."""

    def __init__(self) -> None:
        self.app = app = hw.App("stock")
        self.left = app.cell("left", 5)
        self.calls: list[int] = []

        @app.handler
        def take(count: int) -> int:
            self.calls.append(count)
            if count > self.left.value:
                raise hw.Reject("not enough", left=self.left.value)
            self.left.value -= count
            return self.left.value

        self.take = take


def test_a_rejection_is_the_same_for_every_client(at: Behind) -> None:
    ann, bob = Stock(), Stock()
    with ann.app.open(at.url, token=at.token):
        with pytest.raises(hw.EventRejectedError, match="not enough") as told:
            ann.take.once("a", by="bank").send(7).result(timeout=f"{DEADLINE_S}s")
        assert told.value.facts["left"] == 5
    with bob.app.open(at.url, token=at.token):
        ticket = bob.take.once("a", by="bank").send(7)
        with pytest.raises(hw.EventRejectedError, match="not enough") as told:
            ticket.result(timeout=f"{DEADLINE_S}s")
        assert (ticket.state, told.value.facts["left"], bob.calls, bob.left.value) == ("rejected", 5, [], 5)
        assert bob.take.send(2).result(timeout=f"{DEADLINE_S}s") == 3


def test_an_id_of_another_clients_event_is_not_used_for_another_payload(at: Behind) -> None:
    ann, bob = Stock(), Stock()
    with ann.app.open(at.url, token=at.token):
        assert ann.take.once("a", by="bank").send(2).result(timeout=f"{DEADLINE_S}s") == 3
    with bob.app.open(at.url, token=at.token):
        with pytest.raises(hw.EventReusedError, match="another payload"):
            bob.take.once("a", by="bank").send(1).result(timeout=f"{DEADLINE_S}s")
        assert bob.take.once("a", by="bank").send(2).result(timeout=f"{DEADLINE_S}s") == 3
        assert (bob.calls, bob.left.value) == ([], 3)
