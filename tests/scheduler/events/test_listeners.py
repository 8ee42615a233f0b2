"""Whoever asks is told once how an event ended; whoever sends too much is told at once; ids follow from causes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headwater.core import Event, Transaction, derive_id, freeze
from headwater.errors import HandlerTakenError, LimitError, NotFoundError
from headwater.scheduler.scheduler_limits import BACKLOG_MAX, RETRY_WINDOW_MS
from headwater.values.value_limits import DOCUMENT_BYTES_MAX
from tests.scheduler.events.office import Clerk, Office, failing, look, put, states, void

# --- every end ------------------------------------------------------------------------------------------------


def confirmed(ann: Clerk, _: Clerk) -> Event:
    return ann.send("add", 1)


def confirmed_in_the_end(ann: Clerk, bob: Clerk) -> Event:
    event = ann.send("add", 1)
    ann.run()
    bob.overtake(count=5)
    ann.office.advance(1)
    return event


def overtaken_for_too_long(ann: Clerk, bob: Clerk) -> Event:
    event = ann.send("add", 1)
    ann.run()
    bob.overtake(count=5)
    ann.office.advance(RETRY_WINDOW_MS)
    ann.run()
    bob.overtake(count=6)
    return event


def raises(ann: Clerk, _: Clerk) -> Event:
    return ann.send("bad", 1)


def too_large(ann: Clerk, _: Clerk) -> Event:
    return ann.send("big", DOCUMENT_BYTES_MAX)


def removed(ann: Clerk, _: Clerk) -> Event:
    event = ann.send("add", 1)
    ann.scheduler.remove_handler(event.handler)
    return event


def handled_before(ann: Clerk, _: Clerk) -> Event:
    ann.send("add", 1, outside=("shop", "1"))
    ann.office.rest()
    return ann.send("add", 1, outside=("shop", "1"))


def handled_elsewhere(ann: Clerk, bob: Clerk) -> Event:
    bob.send("add", 1, outside=("shop", "1"))
    bob.run()
    return ann.send("add", 1, outside=("shop", "1"))


def sent_in_vain(ann: Clerk, _: Clerk) -> Event:
    tx = Transaction(ann.replica, "work")
    event = ann.send("add", 1, origin=tx)
    tx.abort()
    return event


def sent_too_late(ann: Clerk, _: Clerk) -> Event:
    tx = Transaction(ann.replica, "work")
    tx.abort()
    return ann.send("add", 1, origin=tx)


def taken_back_with_its_origin(ann: Clerk, bob: Clerk) -> Event:
    tx = Transaction(ann.replica, "work")
    look(tx, "other")
    event = ann.send("add", 1, origin=tx)
    tx.commit()
    ann.run()
    bob.overtake(other=1)
    return event


ENDS: dict[Callable[[Clerk, Clerk], Event], str] = {
    confirmed: "confirmed",
    confirmed_in_the_end: "confirmed",
    overtaken_for_too_long: "failed",
    raises: "failed",
    too_large: "failed",
    removed: "failed",
    handled_before: "refused",
    handled_elsewhere: "refused",
    sent_in_vain: "refused",
    sent_too_late: "refused",
    taken_back_with_its_origin: "refused",
}


@pytest.mark.parametrize("way", ENDS, ids=lambda way: way.__name__)
def test_whoever_sent_it_is_told_once_whatever_becomes_of_it(
    office: Office, ann: Clerk, way: Callable[[Clerk, Clerk], Event]
) -> None:
    bob = office.clerk("bob")
    for clerk in (ann, bob):
        clerk.adder()
    failing(ann)
    ann.handler("big", lambda tx, size: put(tx, "big", "x" * size))
    event = way(ann, bob)
    office.rest()
    assert (event.state.value, ann.sent[event]) == (ENDS[way], 1)
    office.advance(60_000)
    office.rest()
    assert ann.sent[event] == 1
    counts = ann.scheduler.outcomes.counts
    assert sum(counts.values()) == len(ann.sent)
    assert event.handler.backlog == 0 and not ann.scheduler.outcomes.live


def test_nobody_is_told_before_the_end(office: Office, ann: Clerk) -> None:
    ann.adder()
    event = ann.send("add", 1)
    ann.run()
    assert ann.sent[event] == 0, "it is visible here, and not decided"
    office.decide()
    assert ann.ticks[-1], "there is something to do: to tell"
    ann.run()
    assert ann.sent[event] == 1


def test_each_of_several_who_ask_is_told(office: Office, ann: Clerk) -> None:
    told: list[str] = []
    ann.adder()
    event = ann.scheduler.queue_event("add", 1, outside=("shop", "1"), on_commit=lambda _: told.append("first"))
    ann.scheduler.queue_event("add", 1, outside=("shop", "1"), on_commit=lambda _: told.append("second"))
    ann.scheduler.outcomes.on_end(event, lambda _: told.append("third"))
    office.rest()
    ann.scheduler.outcomes.on_end(event, lambda _: told.append("late"))
    office.rest()
    assert told == ["first", "second", "third", "late"]


def test_one_who_raises_keeps_none_of_the_others_from_being_told(office: Office, ann: Clerk) -> None:
    told: list[int] = []
    ann.adder()

    def tell(event: Event) -> None:
        told.append(event.ordinal)
        if len(told) == 1:
            raise ValueError("not now")

    events = [ann.scheduler.queue_event("add", 1, on_commit=tell) for _ in range(2)]
    ann.scheduler.outcomes.on_end(events[0], lambda event: told.append(-event.ordinal))
    ann.run()
    office.decide()
    with pytest.raises(ValueError, match="not now"):
        ann.run()
    ann.run()
    assert told == [1, -1, 2]


def test_whoever_is_told_may_send(office: Office, ann: Clerk) -> None:
    ann.adder()
    ann.scheduler.queue_event("add", 1, on_commit=lambda event: void(ann.send("add", event.result)))
    office.rest()
    assert ann.see("count") == 2


def test_the_verdict_alone_runs_no_callback(office: Office, ann: Clerk) -> None:
    """They are called in the scheduler's turn, not in that of whoever hears of the verdict."""
    told: list[bool] = []
    ann.adder()
    ann.scheduler.queue_event("add", 1, on_commit=lambda _: told.append(True))
    ann.run()
    office.decide()
    assert told == []
    ann.scheduler.settle()
    assert told == [True]


# --- too many -------------------------------------------------------------------------------------------------


def test_no_more_than_so_many_of_a_stream_may_wait(ann: Clerk) -> None:
    ann.handler("note", lambda *_: None, backlog_max=3)
    ann.handler("other", lambda *_: None)
    for number in range(3):
        ann.send("note", number)
    with pytest.raises(LimitError, match="note\\(\\) was not sent an event: 3 of stream note wait") as refused:
        ann.scheduler.queue_event("note", freeze(None))
    assert (refused.value.facts["waiting"], refused.value.facts["limit"]) == (3, 3)
    ann.send("other")
    assert ann.run() == ["note 0", "note 1", "note 2", "other"]
    ann.send("note", 3)
    assert ann.run() == ["note 3"]


def test_what_may_wait_is_bounded_unless_said_otherwise(ann: Clerk) -> None:
    assert ann.handler("note", lambda *_: None).spec.backlog_max == BACKLOG_MAX == 10_000


def test_what_was_taken_back_waits_again_and_counts(office: Office, ann: Clerk) -> None:
    bob = office.clerk("bob")
    handler = ann.adder()
    events = [ann.send("add", 1) for _ in range(2)]
    ann.run()
    bob.overtake(count=5)
    assert states(*events) == ["queued", "queued"] and handler.waiting == 2
    office.advance(10)
    office.rest()
    office.advance(10)
    office.rest()
    assert handler.waiting == handler.backlog == 0


def test_a_handler_that_sends_too_much_fails_and_has_sent_nothing(office: Office, ann: Clerk) -> None:
    ann.handler("note", lambda *_: None, backlog_max=2)
    ann.handler("start", lambda tx, _: void([ann.send("note", number, origin=tx) for number in range(3)]))
    event = ann.send("start")
    office.rest()
    assert event.state.value == "failed" and isinstance(event.error, LimitError)
    assert [other.state.value for other in ann.sent if other is not event] == ["refused", "refused"]
    assert "note 0" not in ann.log
    ann.errors.clear()


def test_a_stream_has_one_handler_and_the_second_is_told_of_the_first(ann: Clerk) -> None:
    ann.handler("note", lambda *_: None)
    with pytest.raises(HandlerTakenError, match="note\\(\\) does already") as taken:
        ann.handler("note", lambda *_: None)
    assert (taken.value.facts["stream"], taken.value.facts["taken_by"]) == ("note", "note")


def test_a_stream_without_a_handler_takes_nothing(ann: Clerk) -> None:
    with pytest.raises(NotFoundError, match="no handler for stream none"):
        ann.scheduler.queue_event("none", freeze(None))


# --- ids ------------------------------------------------------------------------------------------------------


class Maker:
    """Handles `make`: makes two documents, named as documents are that a handler makes."""

    def __init__(self, clerk: Clerk) -> None:
        self.made: list[list[str]] = []
        clerk.handler("make", self.make)

    def make(self, tx: Transaction, _: object) -> list[str]:
        names: list[str] = []
        look(tx, "count")
        for _number in range(2):
            tx.minted += 1
            names.append(derive_id("person", tx.cause, tx.minted))
            put(tx, names[-1], True)
        self.made.append(names)
        return names


def test_what_a_handler_makes_has_the_same_ids_in_every_attempt(office: Office, ann: Clerk) -> None:
    bob = office.clerk("bob")
    maker = Maker(ann)
    event = ann.send("make")
    ann.run()
    for number in range(3):
        bob.overtake(count=number)
        office.advance(10)
        ann.run()
    office.decide()
    assert len(maker.made) == 4 and len({tuple(names) for names in maker.made}) == 1
    assert event.result == freeze(maker.made[0])
    assert all(office.space.value(name) is True for name in maker.made[0])


def test_what_a_handler_makes_has_the_same_ids_in_every_process(office: Office) -> None:
    makers = [Maker(office.clerk(name)) for name in ("ann", "bob")]
    for clerk in office.clerks:
        clerk.send("make", outside=("shop", "1"))
        clerk.run()
    office.decide()
    assert makers[0].made == makers[1].made


def test_what_two_events_make_has_different_ids(ann: Clerk) -> None:
    maker = Maker(ann)
    for _ in range(2):
        ann.send("make")
    ann.run()
    assert len({name for names in maker.made for name in names}) == 4


def test_an_event_carries_its_handler_and_itself_in_its_transaction(ann: Clerk) -> None:
    seen: list[Transaction] = []
    handler = ann.handler("note", lambda tx, _: seen.append(tx), change_group="drawing")
    event = ann.send("note")
    ann.run()
    [tx] = seen
    assert (tx.node, tx.event, tx.name, tx.change_group) == (handler, event, "note()", "drawing")
    assert tx.cause == ("event", event.id)


def test_no_two_sessions_send_events_of_the_same_id(office: Office) -> None:
    ids = set()
    for name in ("ann", "bob"):
        clerk = office.clerk(name)
        clerk.handler("note", lambda *_: None)
        tx = Transaction(clerk.replica, "work")
        ids |= {clerk.send("note").id, clerk.send("note").id, clerk.send("note", origin=tx).id}
        tx.abort()
        clerk.run()
    assert len(ids) == 6
