"""Who is told of a commit, and in which order."""

from __future__ import annotations

import random

from headwater.store.commit import Commit, CommitOutcome, Committed, SetDoc
from headwater.sync.frames import Judged, Written
from headwater.sync.span_watches import WatchedSpan
from headwater.sync.watches import READERS_OF_MAX, Watches
from headwater.values.address import doc_key
from headwater.values.ids import DocKey, LocalSeq, Seq, SessionId

A, B = doc_key("a"), doc_key("b")


class Seat:
    """A session."""

    def __init__(self, name: str) -> None:
        self.session = SessionId(name)
        self.watched: dict[DocKey, None] = {}
        self.prefixes: dict[str, None] = {}
        self.spans: dict[int, WatchedSpan] = {}

    def __repr__(self) -> str:
        return self.session

    def may_see(self, _doc: DocKey) -> bool:
        return True


def write(seat: Seat, seq: int, *docs: DocKey) -> CommitOutcome:
    commit = Commit(seat.session, LocalSeq(seq), tuple(SetDoc(doc, seq) for doc in docs))
    return CommitOutcome(commit, Committed(Seq(seq)))


def seats(watches: Watches[Seat], count: int) -> list[Seat]:
    made = [Seat(f"s{number}") for number in range(count)]
    for each in made:
        watches.enter(each)
    return made


def test_those_that_wait_to_see_a_commit_are_told_before_its_writer() -> None:
    watches: Watches[Seat] = Watches()
    writer, second, reader = seats(watches, 3)
    watches.add(writer, [A])
    watches.add(second, [A])
    watches.add(reader, [A])
    told = list(watches.tell([write(writer, 1, A), write(second, 2, A)], Seq(0), Seq(2)))
    assert [watcher for watcher, _, _ in told] == [reader, writer, second]
    assert [[type(new) for new in news] for _, _, news in told] == [
        [Written, Written],
        [Judged, Written],
        [Written, Judged],
    ]


def test_who_watches_the_same_gets_the_same_bytes() -> None:
    watches: Watches[Seat] = Watches()
    writer, *readers = seats(watches, 5)
    for each in readers:
        watches.add(each, [A])
    told = list(watches.tell([write(writer, 1, A)], Seq(0), Seq(1)))
    frames = {id(frame) for watcher, frame, _ in told if watcher is not writer}
    assert len(told) == 5
    assert len(frames) == 1


def test_those_that_are_told_are_those_that_watch_then() -> None:
    rng = random.Random(7)
    watches: Watches[Seat] = Watches()
    everybody = seats(watches, 6)
    docs = [doc_key(name) for name in ("ab", "ac", "b")]
    prefixes = [doc_key("a"), doc_key("ab")]
    for seq in range(1, 400):
        seat = rng.choice(everybody)
        match rng.randrange(4):
            case 0:
                watches.add(seat, rng.sample(docs, 1))
            case 1:
                watches.add(seat, (), rng.sample(prefixes, 1))
            case 2:
                watches.remove(seat, rng.sample(docs, 1), rng.sample(prefixes, 1))
            case _:
                watches.leave(seat)
                watches.enter(seat)
        doc, writer = rng.choice(docs), Seat("elsewhere")
        wanted = {
            each.session
            for each in everybody
            if doc in each.watched or any(doc.startswith(prefix) for prefix in each.prefixes)
        }
        told = [each.session for each, _, _ in watches.tell([write(writer, seq, doc)], Seq(seq - 1), Seq(seq))]
        assert sorted(told) == sorted(wanted)


def test_watchers_of_many_documents_are_not_all_remembered() -> None:
    watches: Watches[Seat] = Watches()
    writer, reader = seats(watches, 2)
    watches.add(reader, (), [doc_key("d")])
    many = [doc_key(f"d{number}") for number in range(READERS_OF_MAX + 10)]
    for seq, doc in enumerate(many, 1):
        assert len(list(watches.tell([write(writer, seq, doc)], Seq(seq - 1), Seq(seq)))) == 2
    assert len(watches._readers_of) <= READERS_OF_MAX
