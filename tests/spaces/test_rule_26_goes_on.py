"""Rule 26: delivery goes on when something that it waits for is there; people can wait, count, drop and redirect."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner

import headwater as hw
from headwater.cli.main import cli
from headwater.errors import EventTimeoutError, NameRefusedError, UsageError
from headwater.runtime.delivery import AGAIN_MS
from headwater.runtime.options import Options
from headwater.scheduler.events import failed_events, outgoing


class Mail:
    """`near` sends to `far`, which may fail."""

    def __init__(self, folder: Path) -> None:
        self.near, self.far = hw.App("near"), hw.App("far")
        self.here = self.near.cell("here", 0)
        self.got = self.far.cell("got", 0)
        self.add = self.far.handler(name="add")(self._add)
        self.fails = False
        self.urls = str(folder / "near.db"), str(folder / "far.db")
        self.errors: list[hw.UserCodeError] = []

    def _add(self, by: int) -> int:
        if self.fails:
            raise ValueError("not now")
        self.got.value += by
        return self.got.value

    def open_near(self) -> hw.Space:
        return self.near.open(self.urls[0], on_error=self.errors.append)

    def open_far(self) -> hw.Space:
        return self.far.open(self.urls[1], on_error=self.errors.append)

    def leave_one(self, near: hw.Space) -> str:
        """Send one to a space that is closed before it is delivered. Returns its id."""
        with near.transaction(), self.open_far():
            self.add.send(5)
        (entry,) = outgoing.entries(near._opening.replica)
        return entry.event


@pytest.fixture
def mail(tmp_path: Path) -> Mail:
    return Mail(tmp_path)


# --- when it goes on --------------------------------------------------------------------------------------


def test_opening_the_other_space_delivers_what_waits(mail: Mail) -> None:
    with mail.open_near() as near:
        mail.leave_one(near)
        assert near.stats.undelivered == 1
        with mail.open_far():
            assert mail.got.value == 5
    with mail.open_near() as near, mail.open_far():
        assert (near.stats.undelivered, mail.got.value) == (0, 5)


def test_opening_the_sending_space_delivers_what_an_earlier_opening_left(mail: Mail) -> None:
    with mail.open_near() as near:
        mail.leave_one(near)
    with mail.open_far(), mail.open_near() as near:
        near.delivered()
        assert mail.got.value == 5


def test_closing_delivers_what_open_spaces_can_handle(mail: Mail) -> None:
    with mail.open_far():
        with mail.open_near() as near, near.transaction():
            mail.add.send(5)
        assert mail.got.value == 5
    with mail.open_near() as near:
        assert near.stats.undelivered == 0


@pytest.mark.parametrize("hops", range(6))
def test_nothing_is_handed_to_a_space_that_is_being_closed(tmp_path: Path, hops: int) -> None:
    """It would never answer: closing the sender would wait for that, and a later opening would not get it."""
    one, two = hw.App("one"), hw.App("two")
    passed = {app: app.cell("passed", 0) for app in (one, two)}
    posted = {app: app.cell("posted", 0) for app in (one, two)}

    def pass_on(app: hw.App, other: hw.App, left: int) -> None:
        passed[app].value += 1
        if left and not closed:
            takes[other].send(left - 1)
            posted[other].post.increment(1)
            sent.append(left)

    takes = {
        one: one.handler(name="take")(lambda left: pass_on(one, two, left)),
        two: two.handler(name="take")(lambda left: pass_on(two, one, left)),
    }
    one.sink(name="show")(lambda: shown.append(passed[two].value))
    shown: list[int] = []
    sent: list[int] = []
    closed: list[hw.Space] = []
    urls = [(one, tmp_path / "one.db"), (two, tmp_path / "two.db")]
    with hw.together(*(app.opening(url) for app, url in urls)) as (near, far):
        takes[one].send(hops)
        closed.append(far)
        far.close()
        closed.clear()
        assert not near._opening.delivery.is_moving
        with two.open(urls[1][1]) as again:
            for _ in range(hops + 1):
                near.delivered(timeout="20s")
                again.delivered(timeout="20s")
            assert passed[one].value + passed[two].value == 1 + len(sent)
            assert posted[one].value + posted[two].value == len(sent)


def test_what_waits_is_tried_again_every_five_seconds(mail: Mail) -> None:
    now = [0.0]
    options = Options(now=lambda: now[0], on_error=mail.errors.append)
    with mail.near.open_with(mail.urls[0], options) as near:
        mail.leave_one(near)
        assert near._opening.timers.due_in() == AGAIN_MS
        with mail.open_far() as far:
            far._opening.delivery.is_ready = False
            near.settle()
            far._opening.delivery.is_ready = True
            now[0] += AGAIN_MS + 1
            near.settle()
            far.settle()
            assert mail.got.value == 5


# --- waiting ----------------------------------------------------------------------------------------------


def test_waiting_ends_with_what_is_waited_for_in_the_message(mail: Mail) -> None:
    with mail.open_near() as near:
        event = mail.leave_one(near)
        with pytest.raises(EventTimeoutError, match=f"{event} waits for space .*, which is not open here"):
            near.delivered(timeout="10ms")
        with mail.open_far():
            near.delivered(timeout="1m")


def test_waiting_in_the_transaction_that_sends_is_refused(mail: Mail) -> None:
    with mail.open_far(), mail.open_near() as near, near.transaction():
        mail.add.send(1)
        with pytest.raises(UsageError, match="would wait for itself"):
            near.delivered()


def test_waiting_for_nothing_returns_at_once(mail: Mail) -> None:
    with mail.open_near() as near:
        near.delivered(timeout=0)


def test_async_code_awaits_the_delivery(mail: Mail) -> None:
    async def main() -> None:
        async with mail.near.aopen(mail.urls[0]) as near:
            async with mail.far.aopen(mail.urls[1]):
                with near.transaction():
                    mail.add.send(5)
                await near.delivered(timeout="1m")
                assert (mail.got.value, near.stats.undelivered) == (5, 0)
            with mail.open_far():
                with near.transaction():
                    mail.add.send(5)
                await near.delivered(timeout="1m")
                assert (mail.got.value, near.stats.undelivered) == (10, 0)
            with near.transaction():
                async with mail.far.aopen(mail.urls[1]):
                    mail.add.send(5)
            with pytest.raises(EventTimeoutError):
                await near.delivered(timeout="10ms")

    asyncio.run(main())


# --- people -----------------------------------------------------------------------------------------------


def test_what_waits_can_be_dropped(mail: Mail) -> None:
    with mail.open_near() as near:
        event = mail.leave_one(near)
        near.scheduler.drop_event(event)
        assert near.stats.undelivered == 0
        with mail.open_far():
            assert mail.got.value == 0


def test_what_failed_is_delivered_again_under_the_same_id_and_once(mail: Mail) -> None:
    with mail.open_far(), mail.open_near() as near:
        mail.fails = True
        with near.transaction():
            mail.add.send(5)
        near.delivered()
        (record,) = failed_events.stored(near._opening.replica)
        mail.fails = False
        entry = near._opening.delivery.redeliver(str(record["event"]).removeprefix("event:"))
        assert entry is not None
        near.delivered()
        assert (entry.event, mail.got.value, failed_events.stored(near._opening.replica)) == (record["event"], 5, [])


def test_what_waits_for_a_space_that_is_gone_can_be_sent_to_another(mail: Mail, tmp_path: Path) -> None:
    with mail.open_near() as near:
        event = mail.leave_one(near)
        with mail.far.open(str(tmp_path / "other.db")) as other:
            near._opening.delivery.redeliver(event.removeprefix("event:"), other.id)
            near.delivered()
            assert (mail.got.value, near.stats.undelivered) == (5, 0)


@pytest.mark.parametrize("to", ["xx", "other", "00000000-0000-0000-00", "ABCDEFGH0123456789JK"])
def test_what_is_no_id_of_a_space_gets_nothing(mail: Mail, to: str) -> None:
    """An entry for it would wait for ever."""
    with mail.open_near() as near:
        event = mail.leave_one(near)
        with pytest.raises(NameRefusedError, match="is not a space id"):
            near._opening.delivery.redeliver(event.removeprefix("event:"), to)
    asked = ["events", "redeliver", event, "--to", to, "--url", mail.urls[0]]
    done = CliRunner().invoke(cli, asked)
    assert done.exit_code == 2
    assert "HW105: --to: " in done.output
    assert "`headwater spaces ls` lists ids" in done.output
    with mail.open_far(), mail.open_near() as near:
        near.delivered()
        assert (mail.got.value, near.stats.undelivered) == (5, 0)


# --- the command line -------------------------------------------------------------------------------------


def test_the_command_line_lists_shows_and_drops_what_waits_for_another_space(mail: Mail) -> None:
    with mail.open_near() as near:
        event = mail.leave_one(near)
    listed = CliRunner().invoke(cli, ["events", "ls", "--outgoing", "--json", "--url", mail.urls[0]])
    (record,) = json.loads(listed.output)
    assert (record["event"], record["state"], record["payload"]) == (event, "undelivered", {"by": 5})
    shown = CliRunner().invoke(cli, ["events", "show", event, "--json", "--url", mail.urls[0]])
    assert json.loads(shown.output)["to"] == record["to"]
    assert CliRunner().invoke(cli, ["events", "drop", event, "--url", mail.urls[0]]).exit_code == 0
    with mail.open_near() as near:
        assert near.stats.undelivered == 0


def test_the_command_line_lists_what_was_rejected_by_the_other_space(mail: Mail) -> None:
    @mail.far.handler
    def never(by: int) -> None:
        raise hw.Reject("no", by=by)

    with mail.open_far(), mail.open_near() as near:
        with near.transaction():
            never.send(1)
        near.delivered()
    listed = CliRunner().invoke(cli, ["events", "ls", "--outgoing", "--json", "--url", mail.urls[0]])
    (record,) = json.loads(listed.output)
    assert (record["state"], record["reason"], record["facts"]) == ("rejected", "no", {"by": 1})


@pytest.mark.parametrize("is_open", [False, True], ids=["closed", "open"])
def test_the_command_line_knows_an_event_by_the_id_of_its_ticket_too(mail: Mail, is_open: bool) -> None:
    """A ticket has the id that the event has in the other space. Its sender lists it under an id of its own."""

    @mail.far.handler
    def never(by: int) -> None:
        raise hw.Reject("no", by=by)

    def run(*words: str) -> list[dict[str, object]]:
        done = CliRunner().invoke(cli, ["events", *words, "--json", "--url", mail.urls[0]])
        assert done.exit_code == 0, done.output
        found = json.loads(done.stdout)
        return found if isinstance(found, list) else [found]

    with ExitStack() as exits:
        near = exits.enter_context(mail.open_near())
        mail.fails = True
        with mail.open_far():
            with near.transaction():
                failed, rejected = mail.add.send(5), never.send(6)
                named = mail.add.once("x", by="till").send(7)
            near.delivered()
        with near.transaction(), mail.open_far():
            waits, late = mail.add.send(8), mail.add.once("y", by="till").send(9)
        mail.fails = False
        if not is_open:
            near.close()
        listed = {each["event"]: each["state"] for each in [*run("ls"), *run("ls", "--outgoing")]}
        assert sorted(map(str, listed.values())) == ["failed", "failed", "rejected", "undelivered", "undelivered"]
        assert not {failed.id, rejected.id, waits.id} & set(listed)
        for ticket in (failed, rejected, named, waits, late):
            (shown,) = run("show", ticket.id)
            assert (shown["event"], shown["state"]) in listed.items()
        assert run("drop", waits.id)[0]["event"] in listed
        run("drop", named.id)
        missing = CliRunner().invoke(cli, ["events", "show", waits.id, "--url", mail.urls[0]])
        assert (missing.exit_code, "there is no event" in missing.output) == (3, True)
    with mail.open_far(), mail.open_near() as near:
        near.delivered()
        assert (run("redeliver", failed.id)[0]["event"] in listed, run("ls")) == (True, [])
        near.delivered()
        assert mail.got.value == 5 + 9
