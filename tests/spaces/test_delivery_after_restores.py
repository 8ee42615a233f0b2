"""Rules 23 to 26, where the file of one of the two spaces is restored, replaced, compacted or closed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import ClosedError, EventTimeoutError, NotOpen
from headwater.scheduler.events import outgoing
from tests.cli.conftest import Run


class Till:
    """`near` counts what it sends to `far`, which lists what it has handled."""

    def __init__(self) -> None:
        self.near, self.far = hw.App("near"), hw.App("far")
        self.sent = self.near.cell("sent", 0)
        self.got = self.far.cell("got", list[int]())
        self.posted = self.far.cell("posted", 0)
        self.add = self.far.handler(name="add")(self._add)
        self.pay = self.near.handler(name="pay")(self._pay)

    def _add(self, number: int) -> None:
        self.got.value = [*self.got.value, number]

    def _pay(self, number: int) -> None:
        self.sent.value += 1
        self.add.send(number)
        self.posted.post.increment(1)

    def open_near(self) -> hw.Space:
        return self.near.open("near.db")

    def open_far(self) -> hw.Space:
        return self.far.open("far.db")

    def deliver(self, *numbers: int) -> None:
        """Pay and deliver, with both spaces open."""
        with self.open_far(), self.open_near() as near:
            for number in numbers:
                self.pay.send(number)
            near.delivered()

    def leave(self, number: int) -> None:
        """Pay, and close the other space before anything is delivered."""
        with self.open_near() as near:
            with near.transaction(), self.open_far():
                self.sent.value += 1
                self.add.send(number)
                self.posted.post.increment(1)
            near.sync()
            assert near.stats.undelivered == 2

    def handled(self) -> tuple[list[int], int, int]:
        """What the other space has handled: events, posts and runs of this opening."""
        with self.open_far() as far, self.open_near() as near:
            near.delivered()
            assert near.stats.undelivered == 0
            return list(self.got.value), self.posted.value, far.runs(self.add)


@pytest.fixture
def till() -> Till:
    return Till()


def outgoing_of(run: Run, url: str) -> list[dict[str, object]]:
    found = json.loads(run("events", "ls", "--outgoing", "--json", "--url", url).stdout)
    assert isinstance(found, list)
    return found


# --- the sending space is restored ------------------------------------------------------------------------


def test_what_an_older_backup_of_the_sender_sends_again_is_answered_by_receipts(till: Till, run: Run) -> None:
    till.leave(1)
    run("backup", "older", "--url", "near.db")
    assert till.handled() == ([1], 1, 1)
    run("restore", "older", "--url", "near.db", "--force")
    assert len(outgoing_of(run, "near.db")) == 2
    assert till.handled() == ([1], 1, 0)
    assert outgoing_of(run, "near.db") == []


def test_what_only_an_older_backup_of_the_sender_has_is_delivered_after_its_restore(till: Till, run: Run) -> None:
    till.leave(1)
    run("backup", "older", "--url", "near.db")
    for record in outgoing_of(run, "near.db"):
        run("events", "drop", record["event"], "--url", "near.db")
    assert till.handled() == ([], 0, 0)
    run("restore", "older", "--url", "near.db", "--force")
    assert till.handled() == ([1], 1, 1)


def test_what_a_restored_sender_sends_newly_is_handled(till: Till, run: Run) -> None:
    """It comes to sequence numbers and positions that it had before: no receipt answers for other events."""
    till.deliver(1)
    run("backup", "older", "--url", "near.db")
    till.deliver(2, 3)
    run("restore", "older", "--url", "near.db", "--force")
    till.deliver(4, 5)
    assert till.handled() == ([1, 2, 3, 4, 5], 5, 0)
    with till.open_near():
        assert till.sent.value == 3


def test_what_a_restored_sender_does_again_is_sent_again_unless_it_has_an_id_of_its_own(till: Till, run: Run) -> None:
    def pay_again() -> None:
        with till.open_far(), till.open_near() as near:
            with near.transaction():
                till.add.once("sale 1", by="till").send(1)
                till.add.send(2)
            near.delivered()

    till.deliver()
    run("backup", "older", "--url", "near.db")
    pay_again()
    run("restore", "older", "--url", "near.db", "--force")
    pay_again()
    assert till.handled() == ([1, 2, 2], 0, 0)


# --- the other space is restored --------------------------------------------------------------------------


def test_what_still_waits_when_the_other_space_is_restored_is_handled_once(till: Till, run: Run) -> None:
    till.deliver(1)
    run("backup", "older", "--url", "far.db")
    till.deliver(2)
    till.leave(3)
    run("restore", "older", "--url", "far.db", "--force")
    # What was handled after the backup, and taken out by its sender, is lost with the restore.
    assert till.handled() == ([1, 3], 2, 1)
    assert till.handled() == ([1, 3], 2, 0)


def test_what_was_handled_but_not_taken_out_is_handled_again_by_a_restored_space(till: Till, run: Run) -> None:
    """The restore has undone the first handling: together it is one."""
    till.deliver()
    run("backup", "far.older", "--url", "far.db")
    till.leave(1)
    run("backup", "near.older", "--url", "near.db")
    assert till.handled() == ([1], 1, 1)
    run("restore", "far.older", "--url", "far.db", "--force")
    run("restore", "near.older", "--url", "near.db", "--force")
    assert till.handled() == ([1], 1, 1)


def test_a_restored_space_has_the_order_of_what_is_delivered_afterwards(till: Till, run: Run) -> None:
    till.deliver(1, 2)
    run("backup", "older", "--url", "far.db")
    till.deliver(3, 4)
    run("restore", "older", "--url", "far.db", "--force")
    till.deliver(5, 6, 7)
    assert till.handled() == ([1, 2, 5, 6, 7], 5, 0)


# --- another file in its place ----------------------------------------------------------------------------


def test_nothing_is_delivered_to_another_space_in_the_place_of_the_first(till: Till, run: Run) -> None:
    with till.open_far() as far:
        first = far.id
    till.leave(1)
    Path("far.db").rename("moved.db")
    with till.open_far() as other, till.open_near() as near:
        assert other.id != first
        with pytest.raises(EventTimeoutError, match=f"waits for space {first}, which is not open here"):
            near.delivered(timeout="10ms")
        assert (till.got.value, till.posted.value, near.stats.undelivered) == ([], 0, 2)
        listed = outgoing_of(run, "near.db")
    assert [(record["state"], record["to"]) for record in listed] == [("undelivered", first)] * 2
    assert [record["event"] for record in outgoing_of(run, "near.db")] == [record["event"] for record in listed]
    assert {record["reason"] for record in listed} == {f"waits for space {first}, which is not open here"}
    with till.far.open("moved.db"), till.open_near() as near:
        near.delivered()
        assert (till.got.value, till.posted.value) == ([1], 1)


def test_a_copy_with_an_id_of_its_own_gets_nothing_that_was_sent_to_the_first(till: Till, run: Run) -> None:
    till.deliver()
    till.leave(1)
    run("backup", "copy.db", "--as-new", "--url", "far.db")
    with till.far.open("copy.db"), till.open_near() as near:
        near.settle()
        assert (till.got.value, near.stats.undelivered) == ([], 2)
    assert till.handled() == ([1], 1, 1)


# --- closing the other space first ------------------------------------------------------------------------


def test_what_is_sent_before_the_other_space_is_closed_is_handled_by_its_next_opening(till: Till) -> None:
    with till.open_near() as near:
        far = till.open_far()
        with near.transaction():
            ticket = till.add.send(1)
            till.posted.post.increment(1)
            far.close()
        assert near.stats.undelivered == 2
        with pytest.raises(ClosedError, match="It is handled when the space is opened again"):
            ticket.result()
        with till.open_far() as far:
            near.delivered()
            assert (till.got.value, till.posted.value, far.runs(till.add)) == ([1], 1, 1)
        assert near.stats.undelivered == 0


def test_sending_to_a_closed_space_raises_and_the_transaction_leaves_nothing(till: Till) -> None:
    with till.open_near() as near:
        till.open_far().close()
        with pytest.raises(NotOpen), near.transaction():
            till.sent.value += 1
            till.add.send(1)
        assert (till.sent.value, near.stats.undelivered) == (0, 0)


# --- large payloads ---------------------------------------------------------------------------------------


def large_till() -> tuple[hw.App, hw.App, hw.Cell[int], hw.Handler[[str], None]]:
    near, far = hw.App("near"), hw.App("far")
    letters = far.cell("letters", 0)

    @far.handler
    def read(text: str) -> None:
        letters.value += len(text)

    return near, far, letters, read


@pytest.mark.parametrize("extra", [-100, 0, 1_000_000])
def test_a_payload_around_and_above_the_limit_survives_restarts_and_a_restored_sender(run: Run, extra: int) -> None:
    near, far, letters, read = large_till()
    size = outgoing.INLINE_MAX + extra
    with near.open("near.db") as space, space.transaction(), far.open("far.db"):
        read.send("x" * size)
    run("backup", "older", "--url", "near.db")
    for _ in range(2):
        with near.open("near.db") as space, far.open("far.db"):
            space.delivered()
            assert letters.value == size
        documents = json.loads(run("ls", "--all", "--json", "--url", "near.db").stdout)
        assert not [each for each in documents if "outgoing:" in each["document"]]
        run("restore", "older", "--url", "near.db", "--force")
    (record,) = outgoing_of(run, "near.db")
    # A list has no long payloads.
    assert "payload" not in record
    shown = json.loads(run("events", "show", record["event"], "--json", "--url", "near.db").stdout)
    assert shown["payload"] == {"text": "x" * size}


# --- compaction -------------------------------------------------------------------------------------------


def test_compaction_keeps_the_receipts_and_the_cursor_of_a_sender(till: Till, run: Run) -> None:
    till.leave(1)
    run("backup", "older", "--url", "near.db")
    assert till.handled() == ([1], 1, 1)
    till.deliver(2, 3)

    def kept() -> list[str]:
        listed = json.loads(run("ls", "--all", "--json", "--url", "far.db").stdout)
        return sorted(each["document"] for each in listed)

    before = kept()
    assert sum("receipt:" in name for name in before) == 6
    assert sum("events:from:" in name for name in before) == 1
    head = max(each["seq"] for each in json.loads(run("ls", "--all", "--json", "--url", "far.db").stdout))
    run("compact", "--before", head, "--url", "far.db")
    assert kept() == before
    run("restore", "older", "--url", "near.db", "--force")
    assert till.handled() == ([1, 2, 3], 3, 0)
