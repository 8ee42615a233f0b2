"""An event that was not handled is kept with all that is known of it, told once, and holds up nobody."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headwater.core import Transaction, doc_key, freeze
from headwater.errors import HeadwaterError, NotFoundError, PoisonedError, UnavailableError
from headwater.scheduler.events.failed_events import stored
from headwater.values.ids import DocKey
from headwater.values.value_limits import DOCUMENT_BYTES_MAX
from tests.scheduler.events.office import CONFIRMED, FAILED, WALL_MS, Clerk, Office, failing, put, states
from tests.support.compiled import needs_sources


def test_a_handler_that_raises_commits_nothing_and_the_next_event_is_handled(office: Office, ann: Clerk) -> None:
    failing(ann)
    ann.adder()
    bad, good = ann.send("bad", 1), ann.send("add", 1)
    assert ann.run() == ["bad 1", "add 1"]
    office.decide()
    assert states(bad, good) == ["failed", "confirmed"]
    assert ann.see("half") is None
    assert ann.see(f"receipt:{bad.letters}") is None
    [error] = ann.errors
    assert isinstance(error.__cause__, ValueError)
    assert error.facts["event"] == bad.id and error.facts["payload"] == 1


def test_a_failed_event_is_kept_with_payload_cause_and_traceback(office: Office, ann: Clerk) -> None:
    failing(ann)
    event = ann.send("bad", {"deep": [1, 2]})
    ann.run()
    office.decide()
    [record] = stored(ann.replica)
    assert record["event"] == event.id
    assert record["stream"] == "bad"
    assert record["payload"] == freeze({"deep": [1, 2]})
    assert record["error"] == record["reason"] == "ValueError: cannot do {'deep': [1, 2]}"
    assert 'raise ValueError(f"cannot do {payload}")' in str(record["traceback"])
    assert (record["attempts"], record["at"]) == (1, WALL_MS)
    assert event.error is ann.errors[0].__cause__


def test_a_result_that_cannot_be_stored_fails_the_event(office: Office, ann: Clerk) -> None:
    def odd(tx: Transaction, _: object) -> object:
        put(tx, "half", True)
        return object()

    ann.handler("odd", odd)
    event = ann.send("odd")
    ann.run()
    office.decide()
    assert (event.state, ann.see("half"), len(stored(ann.replica))) == (FAILED, None, 1)
    assert "object" in event.reason


def test_a_commit_that_is_too_large_fails_the_event(office: Office, ann: Clerk) -> None:
    ann.handler("big", lambda tx, size: put(tx, "big", "x" * size))
    event, after = ann.send("big", DOCUMENT_BYTES_MAX + 1), ann.send("big", 10)
    ann.run()
    office.decide()
    assert states(event, after) == ["failed", "confirmed"]
    assert ann.see("big") == "x" * 10
    [record] = stored(ann.replica)
    assert "bytes" in str(record["reason"]) and record["attempts"] == 1, "trying again would be of no use"
    office.rest()


def test_a_write_that_is_refused_at_the_door_fails_the_event_at_once(office: Office, ann: Clerk) -> None:
    # Not passed through `freeze`: found when it is sent.
    ann.handler("raw", lambda tx, _: tx.set(doc_key("raw"), (), {"a": object()}))
    ann.adder()
    event, after = ann.send("raw"), ann.send("add", 1)
    assert ann.run() == ["raw", "add 1"]
    office.decide()
    assert states(event, after) == ["failed", "confirmed"]
    assert len(ann.errors) == 1
    office.advance(60_000)
    assert ann.run() == []


def test_a_handler_that_ends_its_transaction_itself_fails_the_event(office: Office, ann: Clerk) -> None:
    ann.handler("own", lambda tx, _: tx.abort())
    event = ann.send("own")
    ann.run()
    office.decide()
    assert (event.state, len(ann.errors), len(stored(ann.replica))) == (FAILED, 1, 1)
    assert "by tx.abort() or tx.commit()" in str(ann.errors[0])


def test_an_interrupted_handler_fails_its_event_and_the_others_wait(office: Office, ann: Clerk) -> None:
    def stopped(tx: Transaction, _: object) -> None:
        put(tx, "half", True)
        raise KeyboardInterrupt

    ann.handler("stopped", stopped)
    ann.adder()
    event, after = ann.send("stopped"), ann.send("add", 1)
    with pytest.raises(KeyboardInterrupt):
        ann.run()
    assert states(event, after) == ["failed", "queued"]
    assert ann.run() == ["add 1"]
    office.decide()
    assert (ann.see("half"), after.state) == (None, CONFIRMED)
    assert "KeyboardInterrupt" in str(stored(ann.replica)[0]["reason"])


def test_an_event_whose_handler_was_removed_fails_and_is_kept(office: Office, ann: Clerk) -> None:
    handler = ann.adder()
    event = ann.send("add", 1)
    ann.scheduler.remove_handler(handler)
    ann.run()
    office.decide()
    assert (event.state, stored(ann.replica)[0]["payload"]) == (FAILED, 1)
    with pytest.raises(NotFoundError, match="no handler for stream add"):
        ann.send("add", 2)


def test_an_event_whose_handler_was_declared_anew_is_handled_by_the_new_one(office: Office, ann: Clerk) -> None:
    ann.scheduler.remove_handler(ann.handler("add", lambda *_: "old", backlog_max=2))
    old = ann.handler("add", lambda *_: "old", backlog_max=2)
    events = [ann.send("add", number) for number in (1, 2)]
    ann.scheduler.remove_handler(old)
    new = ann.handler("add", lambda *_: "new", backlog_max=2)
    ann.run()
    office.decide()
    assert [event.result for event in events] == ["new", "new"]
    assert (old.backlog, new.backlog) == (0, 0), "the new one has as much room as any"


# --- a store that cannot be read --------------------------------------------------------------------------------


def break_reads(ann: Clerk, patch: pytest.MonkeyPatch, start: str, error: HeadwaterError) -> None:
    """No document whose name begins so can be read."""
    needs_sources("replaces a method")
    for name in ("read", "snapshot"):
        read = getattr(ann.replica, name)

        def broken(doc: DocKey, read: Callable[[DocKey], object] = read) -> object:
            if doc.startswith(doc_key(start)):
                raise error
            return read(doc)

        patch.setattr(ann.replica, name, broken)


def test_an_event_whose_receipt_cannot_be_read_after_a_failure_of_the_disk_fails(office: Office, ann: Clerk) -> None:
    ann.adder()
    event = ann.send("add", 1, outside=("shop", "order 1"))
    with pytest.MonkeyPatch.context() as patch:
        break_reads(ann, patch, "receipt:", PoisonedError("the disk failed"))
        assert ann.run() == []
    assert event.state is FAILED and isinstance(event.error, PoisonedError)
    assert not ann.scheduler.outcomes.live
    office.decide()


def test_an_event_whose_receipt_cannot_be_read_now_is_tried_again(office: Office, ann: Clerk) -> None:
    ann.adder()
    event = ann.send("add", 1, outside=("shop", "order 1"))
    with pytest.MonkeyPatch.context() as patch:
        break_reads(ann, patch, "receipt:", UnavailableError("not now"))
        assert ann.run() == []
    office.advance(1000)
    assert ann.run() == ["add 1"]
    office.decide()
    assert event.state is CONFIRMED


def test_an_event_whose_known_reads_cannot_be_read_after_a_failure_of_the_disk_fails(ann: Clerk) -> None:
    ann.handler("show", lambda *_: None, reads=(doc_key("board"),))
    with pytest.MonkeyPatch.context() as patch:
        break_reads(ann, patch, "board", PoisonedError("the disk failed"))
        event = ann.send("show")
        assert ann.run() == []
    assert event.state is FAILED and isinstance(event.error, PoisonedError)


def test_an_event_that_was_handled_elsewhere_fails_if_its_receipt_cannot_be_read(office: Office, ann: Clerk) -> None:
    bob = office.clerk("bob")
    events = []
    for clerk in (ann, bob):
        clerk.adder()
        events.append(clerk.send("add", 1, outside=("shop", "order 1")))
        clerk.run()
    with pytest.MonkeyPatch.context() as patch:
        break_reads(bob, patch, "receipt:", PoisonedError("the disk failed"))
        office.decide()
        bob.run()
    assert states(*events) == ["confirmed", "failed"]
    office.decide()
