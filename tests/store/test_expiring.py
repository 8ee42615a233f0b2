"""Expired documents are deleted by ordinary commits, and compaction drops what is left of them."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headwater.errors import CorruptError
from headwater.store.branching import fork
from headwater.store.collection_record import EXPIRES, CollectionRecord, ExpiryRule, Index, record_of
from headwater.store.commit import Absent, Commit, Committed, Conflict, NewObservation, Refused
from headwater.store.compaction import compact
from headwater.store.declaring import declare
from headwater.store.engine import Engine
from headwater.store.expiring import EXPIRED_MAX, EXPIRY_SESSION, ExpiryRound, expire, has_expiry
from headwater.store.index_field import IndexField
from headwater.store.observations import encode_observation
from headwater.store.resumption import changed_since
from headwater.store.verification import verify
from headwater.values.address import Depth, doc_key
from headwater.values.ids import MAIN, BranchId, LocalSeq, Seq, SessionId
from headwater.values.tree import freeze
from tests.support.naive import NOTHING
from tests.support.spaces import Space, drop, pending_read, put, read

UNTIL = Index((IndexField("until", "instant"),))
DAY_MS = 86_400_000
START = datetime(2026, 5, 1, tzinfo=UTC)
NOW = int(START.timestamp() * 1000)


def logins(after_ms: int = 0, scope: str = "space") -> CollectionRecord:
    rule = ExpiryRule("login#until~" + UNTIL.name("login").partition("~")[2], after_ms)
    return CollectionRecord("login", scope, (UNTIL,), ((EXPIRES, rule.to_value()),))  # type: ignore[arg-type]


def at(**delta: float) -> str:
    return (START + timedelta(**delta)).isoformat()


def run(engine: Engine, now_ms: int = NOW, branch: str = MAIN) -> list[int]:
    """One round, to the end; the number of deletions of each step that had some."""
    counts, this = [], ExpiryRound(BranchId(branch))
    while True:
        (count, is_over), outcome = expire(engine, this, now_ms)
        assert (outcome is not None) == bool(count)
        counts += [count] * bool(count)
        if is_over:
            return counts


@pytest.fixture
def declared(space: Space) -> Space:
    declare(space.engine, logins())
    return space


def test_what_has_expired_is_deleted_and_nothing_else(declared: Space) -> None:
    ann = declared.writer("ann")
    ann.accept(
        put("login:past", {"until": at(seconds=-1)}),
        put("login:now", {"until": at()}),
        put("login:zone", {"until": "2026-05-01T03:00:00+05:00"}),
        put("login:soon", {"until": at(milliseconds=1)}),
        put("login:never", {"until": None}),
        put("login:absent", {}),
        put("login:naive", {"until": "2020-01-01T00:00:00"}),
        put("login:odd", {"until": 5}),
        put("other:past", {"until": at(days=-9)}),
    )
    assert run(declared.engine) == [3]
    for _ in range(2):
        kept = {"login:soon", "login:never", "login:absent", "login:naive", "login:odd", "other:past"}
        assert {doc.partition("/")[2] for doc in declared.values()} == {*kept, "collection:login"}
        assert verify(declared.engine).findings == []
        declared.reopen()
    assert run(declared.engine) == []
    assert declared.value("login:past", at=declared.engine.head - 1) == {"until": at(seconds=-1)}


def test_a_deletion_is_a_commit_of_its_own_session_that_is_in_the_history(declared: Space) -> None:
    declared.writer("ann").accept(put("login:a", {"until": at(days=-1)}))
    (count, _), outcome = expire(declared.engine, ExpiryRound(), NOW)
    assert count == 1
    assert outcome is not None
    assert outcome.commit.session == EXPIRY_SESSION == "headwater:expiry"
    assert outcome.commit.operations == (drop("login:a"),)
    assert [(effect.doc, effect.before) for effect in outcome.effects] == [
        (doc_key("login:a"), freeze({"until": at(days=-1)}))
    ]


def test_a_commit_deletes_at_most_500(declared: Space) -> None:
    ann = declared.writer("ann")
    ann.accept(*[put(f"login:n{number:04}", {"until": at(days=-1)}) for number in range(1100)])
    assert run(declared.engine) == [EXPIRED_MAX, EXPIRED_MAX, 100] == [500, 500, 100]


def test_a_time_after_the_field_counts(space: Space) -> None:
    declare(space.engine, logins(after_ms=30 * DAY_MS))
    ann = space.writer("ann")
    ann.accept(put("login:old", {"until": at(days=-30)}), put("login:new", {"until": at(days=-29)}))
    assert run(space.engine) == [1]
    assert space.value("login:old") is NOTHING
    assert run(space.engine, NOW + DAY_MS) == [1]


def test_documents_of_each_user_expire(space: Space) -> None:
    declare(space.engine, logins(scope="user"))
    ann = space.writer("ann")
    users = [f"u{number:03}" for number in range(450)]
    for user in users:
        name = f"user:{user}/login:a"
        ann.accept(put_at(name, at(days=-1)), put_at(name + "b", at(days=1)))
    assert sum(run(space.engine)) == 450
    assert len([doc for doc in space.values() if doc.endswith("login:ab")]) == 450
    assert not [doc for doc in space.values() if doc.endswith("login:a")]


def put_at(doc: str, until: str) -> object:
    made = put("login:a", {"until": until})
    return type(made)(doc, made.value)  # type: ignore[call-arg, arg-type]


def test_a_branch_has_expiry_of_its_own(declared: Space) -> None:
    ann = declared.writer("ann")
    ann.accept(put("login:a", {"until": at(days=-1)}))
    fork(declared.engine, declared.clock, "trial")
    assert run(declared.engine, branch="trial") == [1]
    assert declared.value("login:a", "trial") is NOTHING
    assert declared.value("login:a") == {"until": at(days=-1)}
    assert run(declared.engine) == [1]
    assert verify(declared.engine).findings == []


def test_without_a_rule_nothing_expires(space: Space) -> None:
    assert not has_expiry(space.engine)
    declare(space.engine, CollectionRecord("login", indexes=(UNTIL,)))
    space.writer("ann").accept(put("login:a", {"until": at(days=-1)}))
    assert not has_expiry(space.engine)
    assert run(space.engine) == []


@pytest.mark.parametrize("rule", [{"index": "login#x"}, {"index": "login#"}, {"index": 5}, "soon"])
def test_a_rule_that_is_not_known_is_refused(declared: Space, rule: object) -> None:
    tree = {"kind": "login", "scope": "space", "indexes": [], EXPIRES: rule}
    with pytest.raises(CorruptError, match=r"collection:login does not hold the record"):
        record_of(doc_key("collection:login"), freeze(tree))
    verdict = declared.writer("ann").commit(put("collection:login", tree))
    assert isinstance(verdict, Refused)


def test_of_a_random_set_exactly_the_expired_go(space: Space) -> None:
    chance = random.Random(11)
    declare(space.engine, logins())
    ann = space.writer("ann")
    times: dict[str, int | None] = {}
    for step in range(120):
        name = f"login:{chance.randrange(40)}"
        if chance.random() < 0.2 and times.get(name) is not None:
            ann.accept(drop(name))
            del times[name]
        else:
            offset = chance.choice([None, *range(-200, 200)])
            ann.accept(put(name, {"until": None if offset is None else at(minutes=offset)}))
            times[name] = offset
        if step % 10 == 9:
            now = chance.randrange(-200, 200)
            due = {each for each, offset in times.items() if offset is not None and offset <= now}
            assert sum(run(space.engine, NOW + now * 60_000)) == len(due)
            times = {each: offset for each, offset in times.items() if each not in due}
            assert {doc.partition("/")[2] for doc in space.values()} == {*times, "collection:login"}
        if step % 17 == 0:
            space.engine.fold()
            space.reopen()
    assert verify(space.engine).findings == []


# --- compaction -----------------------------------------------------------------------------------------------


@pytest.fixture
def expired(declared: Space) -> Space:
    """One that has expired, one that an author deleted, one that expired and was made again, one that lives."""
    ann = declared.writer("ann")
    for name in ("a", "again"):
        ann.accept(put(f"login:{name}", {"until": at(days=-1)}))
    ann.accept(put("login:lives", {"until": None}), put("login:deleted", {"until": None}))
    run(declared.engine)
    ann.accept(drop("login:deleted"))
    ann.accept(put("login:again", {"until": None}))
    ann.accept(put("x", 1))
    return declared


def absent(space: Space, name: str, writer: str = "bob") -> object:
    return space.writer(writer).commit(put(name, {"until": None}), given=[Absent(doc_key(name))])


def test_a_document_that_has_expired_is_as_if_never_written(expired: Space) -> None:
    assert isinstance(absent(expired, "login:a", "before"), Refused)
    report = compact(expired.engine, Seq(expired.engine.head))
    assert report.documents_dropped == 1
    for _ in range(2):
        assert verify(expired.engine).findings == []
        assert expired.engine.backend.head(MAIN, doc_key("login:a")) is None
        assert expired.engine.backend.head(MAIN, doc_key("login:deleted")) is not None
        assert expired.value("login:again") == {"until": None}
        expired.reopen()
    assert isinstance(absent(expired, "login:deleted", "bob"), Refused)
    assert isinstance(absent(expired, "login:a", "carl"), Committed)
    expired.engine.fold()
    assert verify(expired.engine).findings == []
    assert expired.value("login:a") == {"until": None}


def test_documents_that_expire_after_the_horizon_stay(expired: Space) -> None:
    report = compact(expired.engine, Seq(3))
    assert report.documents_dropped == 0
    assert expired.engine.backend.head(MAIN, doc_key("login:a")) is not None
    assert verify(expired.engine).findings == []


def test_a_later_compaction_drops_what_expired_since(expired: Space) -> None:
    assert compact(expired.engine, Seq(expired.engine.head)).documents_dropped == 1
    expired.writer("ann2").accept(put("login:b", {"until": at(days=-1)}))
    run(expired.engine)
    assert compact(expired.engine, Seq(expired.engine.head)).documents_dropped == 1
    assert compact(expired.engine, Seq(expired.engine.head)).documents_dropped == 0
    assert verify(expired.engine).findings == []


def test_a_read_of_what_was_dropped_conflicts(expired: Space) -> None:
    horizon = expired.engine.head
    compact(expired.engine, Seq(horizon))
    for _ in range(2):
        bob = expired.writer(f"bob{expired.engine.head}")
        assert isinstance(bob.commit(put("y", 1), reads=[read("login:a", at=2)]), Conflict)
        layered = [pending_read("login:a", basis=2, layers=[])]
        assert isinstance(bob.commit(put("y", 1), reads=layered), Conflict)
        assert isinstance(bob.commit(put("y", 1), reads=[read("login:a", at=horizon)]), Committed)
        expired.reopen()
    assert changed_since(expired.engine, MAIN, [(doc_key("login:a"), [((), Depth.DEEP)], Seq(2))]) == [[()]]
    assert changed_since(expired.engine, MAIN, [(doc_key("login:a"), [((), Depth.DEEP)], Seq(horizon))]) == [[]]


def test_runs_that_read_what_is_dropped_are_forgotten(declared: Space) -> None:
    ann = declared.writer("ann")
    seq = ann.accept(put("login:a", {"until": at(days=-1)}), put("login:b", {"until": None}))
    for result, doc in (("one", "login:a"), ("two", "login:b")):
        basis = Commit(SessionId(result), LocalSeq(1), reads=(read(doc, at=seq),))
        body = encode_observation(b"print", [(doc_key(doc), (), False)])
        assert declared.engine.observe([NewObservation(doc_key(result), body, basis)]) == 1
    run(declared.engine)
    compact(declared.engine, Seq(declared.engine.head))
    assert [row.doc for row in declared.engine.backend.observations(MAIN)] == [doc_key("two")]


def test_a_branch_that_has_its_own_version_keeps_it(declared: Space) -> None:
    ann = declared.writer("ann")
    ann.accept(put("login:a", {"until": at(days=-1)}))
    run(declared.engine)
    fork(declared.engine, declared.clock, "trial")
    declared.writer("bea", "trial").accept(put("login:a", {"until": None}))
    ann.accept(put("x", 1))
    assert compact(declared.engine, Seq(declared.engine.head)).documents_dropped == 1
    for _ in range(2):
        assert declared.value("login:a", "trial") == {"until": None}
        assert declared.value("login:a") is NOTHING
        assert verify(declared.engine).findings == []
        declared.reopen()
    assert isinstance(absent(declared, "login:a"), Committed)
    assert verify(declared.engine).findings == []


def test_the_file_shrinks_to_what_is_left(tmp_path: Path) -> None:
    space = Space("sqlite", tmp_path)
    try:
        declare(space.engine, logins())
        ann = space.writer("ann")
        space.engine.fold()
        for first in range(0, 4000, 500):
            ann.accept(*[put(f"login:n{first + each}", {"until": at(days=-1)}) for each in range(500)])
        space.engine.fold()
        assert sum(run(space.engine)) == 4000
        plain = compact(space.engine, None).bytes_after
        report = compact(space.engine, Seq(space.engine.head))
        assert report.documents_dropped == 4000
        assert verify(space.engine).findings == []
        empty = Space("sqlite", tmp_path, file=tmp_path / "empty.db")
        declare(empty.engine, logins())
        compact(empty.engine, Seq(empty.engine.head))
        assert report.bytes_after <= empty.engine.backend.bytes_used() + 64 * 1024 < plain / 4
        empty.close()
    finally:
        space.close()
