"""Of what was elided nobody is told but its own session, also when it was decided together with what it equals."""

from __future__ import annotations

from headwater.store.commit import Commit, CommitOutcome, Committed, Effect, SetDoc
from headwater.sync.frames import Judged, Written
from headwater.sync.span_watches import WatchedSpan
from headwater.sync.watches import Watches
from headwater.values.address import doc_key
from headwater.values.ids import DocKey, LocalSeq, Seq, SessionId

RESULT = doc_key("result")


class Watching:
    """One that is connected, and watches the result."""

    def __init__(self, watches: Watches[Watching], name: str) -> None:
        self.session = SessionId(name)
        self.watched: dict[DocKey, None] = {}
        self.prefixes: dict[str, None] = {}
        self.spans: dict[int, WatchedSpan] = {}
        watches.enter(self)
        watches.add(self, [RESULT])

    def may_see(self, doc: DocKey) -> bool:
        return doc.startswith("space/")


def came_to(session: str, number: int, seq: int) -> CommitOutcome:
    """A run has come to 10, and that is at a place of the log."""
    commit = Commit(SessionId(session), LocalSeq(number), (SetDoc(RESULT, 10),), seen=(0, b"what it has read"))
    return CommitOutcome(commit, Committed(Seq(seq)), (Effect(RESULT, 10, 10, ()),))


def test_elided_commit_in_the_group_of_the_first_is_told_to_its_session_alone() -> None:
    watches: Watches[Watching] = Watches()
    everybody = [Watching(watches, name) for name in ("ann", "bob", "cyd")]
    decided = [came_to("ann", 1, 5), came_to("bob", 1, 5), came_to("cyd", 1, 5)]
    told = {watcher.session: news for watcher, _, news in watches.tell(decided, Seq(4), Seq(5))}
    assert told.keys() == {each.session for each in everybody}
    assert [type(new) for new in told[SessionId("ann")]] == [Judged]
    assert [type(new) for new in told[SessionId("bob")]] == [Written, Judged]
    assert [type(new) for new in told[SessionId("cyd")]] == [Written, Judged]


def test_elided_commit_in_a_later_group_is_told_to_its_session_alone() -> None:
    watches: Watches[Watching] = Watches()
    for name in ("ann", "bob", "cyd"):
        Watching(watches, name)
    told = [(watcher.session, news) for watcher, _, news in watches.tell([came_to("bob", 1, 5)], Seq(7), Seq(7))]
    assert told == [(SessionId("bob"), [Judged(LocalSeq(1), Committed(Seq(5)))])]
