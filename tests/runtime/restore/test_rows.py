"""What the store keeps of runs, by itself: on memory and in files, opened again, compacted, forked and rejected."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from headwater.store.backend import ObservationRow
from headwater.store.branching import fork
from headwater.store.commit import Commit, Committed, Conflict, NewObservation, Read, Submission
from headwater.store.compaction import compact
from headwater.store.observations import Called, Extra, GateSettings, decode_observation, digest_of, encode_observation
from headwater.store.resumption import drop_stale, heads_of, listing, overlapping_writes, readers_of
from headwater.values.address import Depth, doc_key
from headwater.values.ids import MAIN, BranchId, LocalSeq, Seq, SessionId
from headwater.values.tree import Path as TreePath
from tests.support.spaces import EITHER, Space, drop, edit, put, replace

CODE = b"12345678"
RESULT = doc_key("sum")


@pytest.fixture(params=EITHER)
def space(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Space]:
    made = Space(request.param, tmp_path)
    yield made
    made.close()


def body(*reads: tuple[str, TreePath, bool] | str) -> bytes:
    places = [(read, (), False) if isinstance(read, str) else read for read in reads]
    return encode_observation(CODE, [(doc_key(name), path, int(shallow)) for name, path, shallow in places])


class Runner:
    """Commits as runs do: with what they have read."""

    def __init__(self, space: Space, name: str = "runner", branch: str = MAIN) -> None:
        self._space = space
        self._session = SessionId(name)
        self._branch = BranchId(branch)
        self._last = 0

    def ran(self, value: object, seen: bytes, *reads: Read, notes: tuple[NewObservation, ...] = ()) -> Seq | None:
        """Its place, or None if it was rejected."""
        self._last += 1
        commit = Commit(
            self._session,
            LocalSeq(self._last),
            (put("sum", value),),
            reads=reads,
            branch=self._branch,
            seen=(0, seen),
        )
        [outcome] = self._space.engine.admit([Submission(commit, observations=notes)])
        return outcome.verdict.seq if isinstance(outcome.verdict, Committed) else None

    def note(self, seen: bytes, *reads: Read) -> NewObservation:
        return NewObservation(RESULT, seen, Commit(self._session, LocalSeq(0), reads=reads, branch=self._branch))


def at(name: str, seq: int) -> Read:
    return Read(doc_key(name), (), Seq(seq))


def row_of(space: Space, branch: str = MAIN) -> ObservationRow | None:
    return listing(space.engine, BranchId(branch)).rows.get(RESULT)


# -- rows ----------------------------------------------------------------------------------------------------


def test_row_is_kept_with_its_commit_and_found_after_a_crash(space: Space) -> None:
    space.writer("w").accept(put("a", 1))
    seq = Runner(space).ran(1, body("a"))
    space.reopen()
    assert row_of(space) == ObservationRow(RESULT, seq or Seq(0), body("a"))


def test_digest_stands_for_the_body_before_it_in_the_tail_and_in_the_table(space: Space) -> None:
    runner = Runner(space)
    runner.ran(1, body("a"))
    second = runner.ran(2, digest_of(body("a")))
    assert row_of(space) == ObservationRow(RESULT, second or Seq(0), body("a"))
    third = runner.ran(3, digest_of(body("a")))
    space.reopen()
    assert row_of(space) == ObservationRow(RESULT, third or Seq(0), body("a"))


def test_digest_whose_body_is_missing_is_no_row_and_takes_the_older_one_with_it(space: Space) -> None:
    runner = Runner(space)
    runner.ran(1, body("a"))
    assert row_of(space) is not None
    runner.ran(2, digest_of(body("b")))
    assert row_of(space) is None
    runner.ran(3, body("b"))
    assert row_of(space) is not None


def test_rejected_commit_leaves_the_row_before_it(space: Space) -> None:
    writer, runner = space.writer("w"), Runner(space)
    writer.accept(put("a", 1))
    first = runner.ran(1, body("a"), at("a", 1))
    writer.accept(put("a", 2))
    assert runner.ran(9, body("a", "b"), at("a", 1)) is None
    assert row_of(space) == ObservationRow(RESULT, first or Seq(0), body("a"))


def test_group_that_could_not_be_written_leaves_nothing(space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = Runner(space)

    def full(*_: object) -> None:
        raise OSError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(space.backend, "append", full)
        with pytest.raises(OSError, match="no room"):
            runner.ran(1, body("a"), notes=(runner.note(body("b")),))
    space.reopen()
    assert row_of(space) is None


# -- notes ---------------------------------------------------------------------------------------------------


def test_note_moves_the_row_on_without_a_commit(space: Space) -> None:
    writer, runner = space.writer("w"), Runner(space)
    writer.accept(put("a", 1))
    runner.ran(1, body("a"))
    place = writer.accept(put("a", 2))
    head = space.engine.head
    assert space.engine.observe([runner.note(body("a", "b"), at("a", place))]) == 1
    assert space.engine.head == head
    assert row_of(space) == ObservationRow(RESULT, Seq(place), body("a", "b"))
    space.reopen()
    assert row_of(space) == ObservationRow(RESULT, Seq(place), body("a", "b"))


def test_note_whose_reads_are_not_so_any_more_is_dropped_alone_and_keeps_the_dirt(space: Space) -> None:
    writer, runner = space.writer("w"), Runner(space)
    place = writer.accept(put("a", 1))
    first = runner.ran(1, body("a"))
    writer.accept(put("a", 2))
    other = NewObservation(doc_key("other"), body("b"), Commit(SessionId("x"), LocalSeq(0)))
    assert space.engine.observe([runner.note(body("a"), at("a", place)), other]) == 1
    found = listing(space.engine, MAIN)
    assert found.rows[RESULT].seq == first
    assert found.is_newer(doc_key("a"), found.rows[RESULT].seq)


def test_note_rides_on_the_next_commit_and_is_of_the_place_before_it(space: Space) -> None:
    writer, runner = space.writer("w"), Runner(space)
    place = writer.accept(put("a", 1))
    note = NewObservation(doc_key("other"), body("a"), Commit(SessionId("x"), LocalSeq(0), reads=(at("a", place),)))
    runner.ran(1, body("a"), notes=(note,))
    assert listing(space.engine, MAIN).rows[doc_key("other")].seq == place


def test_older_row_from_the_log_does_not_replace_a_newer_note(space: Space) -> None:
    runner = Runner(space)
    runner.ran(1, body("a"))
    place = space.writer("w").accept(put("a", 2))
    space.engine.observe([runner.note(body("b"))])
    assert row_of(space) == ObservationRow(RESULT, Seq(place), body("b"))


def test_row_of_the_log_does_not_replace_a_note_that_was_made_after_that_commit(space: Space) -> None:
    runner = Runner(space)
    runner.ran(1, body("a"))
    space.engine.observe([runner.note(body("b"))])
    place = space.engine.head
    assert row_of(space) == ObservationRow(RESULT, place, body("b"))


def test_note_is_not_taken_away_by_a_digest_of_the_same_place_whose_body_is_missing(space: Space) -> None:
    runner = Runner(space)
    runner.ran(1, digest_of(body("gone")))
    space.engine.observe([runner.note(body("b"))])
    assert row_of(space) == ObservationRow(RESULT, space.engine.head, body("b"))


# -- what has changed since ----------------------------------------------------------------------------------


DEEP, SHALLOW = Depth.DEEP, Depth.SHALLOW


@pytest.mark.parametrize(
    ("path", "depth", "touched"),
    [
        ((), DEEP, True),
        (("a",), DEEP, True),
        (("a", "b"), DEEP, True),
        (("a", "c"), DEEP, False),
        (("z",), DEEP, False),
        ((), SHALLOW, False),
        (("a",), SHALLOW, False),
        (("a", "b"), SHALLOW, True),
    ],
)
def test_overlap_is_path_precise_deep_and_shallow(space: Space, path: TreePath, depth: Depth, touched: bool) -> None:
    writer = space.writer("w")
    first = writer.accept(put("d", {"a": {"b": 1, "c": 2}, "z": 0}))
    second = writer.accept(edit("d", replace("a", "b", to=9)))
    for _ in range(2):
        found = overlapping_writes(space.engine, MAIN, doc_key("d"), [(path, depth)], Seq(first))
        assert found == ([second] if touched else [])
        space.engine.fold()
        space.reopen()


def test_write_of_an_equal_value_is_no_overlap(space: Space) -> None:
    writer = space.writer("w")
    first = writer.accept(put("d", {"a": 1}))
    writer.accept(put("d", {"a": 1}))
    assert overlapping_writes(space.engine, MAIN, doc_key("d"), [((), DEEP)], Seq(first)) == []


def test_below_the_horizon_nothing_is_proven_but_what_was_not_written_is_not_newer(space: Space) -> None:
    writer, runner = space.writer("w"), Runner(space)
    writer.accept(put("a", 1))
    writer.accept(put("b", 1))
    seq = runner.ran(2, body("a", "b")) or Seq(0)
    writer.accept(put("a", 1))
    writer.accept(put("a", 2))
    end = writer.accept(put("c", 1))
    compact(space.engine, Seq(end))
    found = listing(space.engine, MAIN)
    assert found.rows[RESULT].seq == seq
    assert found.is_newer(doc_key("a"), seq)
    assert not found.is_newer(doc_key("b"), seq)
    assert overlapping_writes(space.engine, MAIN, doc_key("a"), [((), DEEP)], seq) is None


def test_document_that_was_deleted_is_newer_however_much_was_compacted(space: Space) -> None:
    writer, runner = space.writer("w"), Runner(space)
    writer.accept(put("a", 1))
    seq = runner.ran(1, body("a")) or Seq(0)
    writer.accept(drop("a"))
    end = writer.accept(put("c", 1))
    compact(space.engine, Seq(end))
    space.reopen()
    assert listing(space.engine, MAIN).is_newer(doc_key("a"), seq)


def test_readers_of_a_place_are_those_that_read_at_above_or_below_it(space: Space) -> None:
    for name, seen in {
        "whole": body("d"),
        "part": body(("d", ("a",), False)),
        "other": body(("d", ("z",), False)),
        "shape": body(("d", (), True)),
        "elsewhere": body("e"),
    }.items():
        space.engine.observe([NewObservation(doc_key(name), seen, Commit(SessionId("x"), LocalSeq(0)))])
    found = readers_of(space.engine, MAIN, doc_key("d"), ("a", "b"))
    assert sorted(found) == [doc_key("part"), doc_key("whole")]
    assert sorted(readers_of(space.engine, MAIN, doc_key("d"), ("a",))) == sorted(
        map(doc_key, ("part", "shape", "whole"))
    )


# -- branches ------------------------------------------------------------------------------------------------


def test_fork_sees_its_parents_row_until_that_is_overwritten(space: Space) -> None:
    runner = Runner(space)
    first = runner.ran(1, body("a"))
    fork(space.engine, space.clock, "draft")
    found = listing(space.engine, BranchId("draft"))
    assert found.rows[RESULT].seq == first
    assert found.inherited == {RESULT}
    assert not listing(space.engine, MAIN).inherited
    runner.ran(2, body("a"))
    assert row_of(space, "draft") is None
    assert Runner(space, "drafter", "draft").ran(3, body("b")) is not None
    row = row_of(space, "draft")
    assert row is not None
    assert row.body == body("b")


def test_places_of_a_fork_are_its_own_or_its_parents_as_of_the_fork(space: Space) -> None:
    writer = space.writer("w")
    first = writer.accept(put("a", 1))
    writer.accept(put("b", 1))
    fork(space.engine, space.clock, "draft")
    writer.accept(put("a", 2))
    mine = space.writer("d", "draft").accept(put("b", 2))
    row = ObservationRow(RESULT, Seq(1), body("a", "b", "c"))
    for _ in range(2):
        # Before and after the fold, and one by one as well as all together.
        places = heads_of(space.engine, listing(space.engine, BranchId("draft")), row, ()).heads
        assert places == {doc_key("a"): (first, True), doc_key("b"): (mine, True), doc_key("c"): (0, False)}
        space.reopen()


# -- care ----------------------------------------------------------------------------------------------------


def test_rows_of_results_that_are_gone_are_collected_and_no_others(space: Space) -> None:
    writer, runner = space.writer("w"), Runner(space)
    runner.ran(1, body("a"))
    assert drop_stale(space.engine) == 0
    assert row_of(space) is not None
    writer.accept(drop("sum"))
    assert drop_stale(space.engine) == 1
    assert row_of(space) is None


@pytest.mark.parametrize(
    "damaged",
    [
        *(b"", b"\xff", b"\x93", CODE, body("a")[:-1], encode_observation(CODE, [])[:3]),
        # As the version before kept it.
        msgspec.msgpack.encode((1, CODE, ["space/a"])),
        # Of later versions: what they keep besides may restrict what a row is good for.
        *(msgspec.msgpack.encode((2, CODE, [], {key: 1})) for key in ("f", "s", "l", "x", "calls")),
        msgspec.msgpack.encode((2, CODE, [], {}, 1)),
        msgspec.msgpack.encode((2, CODE, [], {"c": [[0, None, None, 1]]})),
        msgspec.msgpack.encode((2, CODE, [], {"g": [1.0]})),
    ],
)
def test_what_is_no_observation_is_none(damaged: bytes) -> None:
    assert decode_observation(damaged) is None


def test_extra_is_a_map_that_is_left_out_when_it_is_empty() -> None:
    read = (doc_key("a"), (), 0)
    assert msgspec.msgpack.decode(encode_observation(CODE, [read])) == [2, CODE, ["space/a"]]
    extra = Extra(error=b"e", calls=(Called(0, (("text", "x"),), b"f"),), gate=GateSettings(1.0, None, None, 2.0))
    stored = encode_observation(CODE, [read], extra)
    told = {"e": b"e", "c": [[0, [["text", "x"]], b"f"]], "g": [1.0, None, None, 2.0]}
    assert msgspec.msgpack.decode(stored) == [2, CODE, ["space/a"], told]
    found = decode_observation(stored)
    assert found is not None
    assert found.extra == extra


def test_conflict_of_a_note_is_told_to_nobody(space: Space) -> None:
    writer, runner = space.writer("w"), Runner(space)
    place = writer.accept(put("a", 1))
    writer.accept(put("a", 2))
    assert runner.ran(1, body("a"), notes=(runner.note(body("a"), at("a", place)),)) is not None
    assert not isinstance(writer.commit(put("z", 1)), Conflict)
