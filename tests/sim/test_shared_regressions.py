"""What worlds with a server and clients have found, as plans."""

from __future__ import annotations

from headwater.store.backend import LogRow
from headwater.store.commit import CommitEntry, SetDoc, encode_entry
from headwater.values.ids import MAIN, DocKey, LocalSeq, Millis, Seq, SessionId
from sim.apart import play
from sim.faults import Eio, Full, Kill, SlowDisk
from sim.oracles.commits import check_commits
from sim.oracles.history import History
from sim.plan import Knobs, Plan
from sim.shared.records import begin
from sim.shared.workload import Act, ClientNode, ServerNode, Sync

ANN = SessionId("ann")
NUMBER = 1_000_700


def row(seq: int, local_seq: int, value: int, name: str = "rec0") -> LogRow:
    operations = (SetDoc(DocKey(f"space/shared.{name}"), {"a": value}),)
    entry = CommitEntry(MAIN, ANN, LocalSeq(local_seq), Millis(seq), operations)
    return LogRow(Seq(seq), encode_entry(entry), b"")


def violations(history: History, *more: tuple[str, ...]) -> list[str]:
    found: list[str] = []
    put = begin(Act(at=0.0, node="a", number=7, steps=(("put", "0", "a"), *more)), "a", 1, 0.0, has_folder=False)
    check_commits(history, [put], lambda rule, _: found.append(rule))
    return found


def test_value_that_another_transaction_writes_again_is_no_second_commit() -> None:
    """A value read outside a block may be written in it, whatever became of the commit that it came from."""
    rows = [row(1, 1, NUMBER), row(2, 2, 5), row(3, 3, NUMBER)]
    assert violations(History(rows, {(NUMBER, ANN, LocalSeq(3))})) == []


def test_value_that_another_transaction_has_written_before_is_not_missing() -> None:
    """The first attempt of a handler was rolled back. Its value was written again: the second has no need to."""
    rows, put = [row(1, 1, NUMBER), row(2, 2, NUMBER + 1, "rec1")], ("put", "1", "a")
    assert violations(History(rows, {(NUMBER, ANN, LocalSeq(1))}), put) == []
    assert violations(History(rows[1:]), put) == ["INV-1"]
    rows = [row(1, 2, NUMBER + 1, "rec1"), row(2, 1, NUMBER)]
    assert violations(History(rows, {(NUMBER, ANN, LocalSeq(1))}), put) == ["INV-1"]


def test_transaction_that_is_in_the_log_twice_violates_a_rule() -> None:
    assert "INV-11" in violations(History([row(1, 1, NUMBER), row(2, 2, 5), row(3, 3, NUMBER)]))


def test_commit_that_is_in_the_log_twice_violates_a_rule_although_it_writes_a_value_again() -> None:
    rows = [row(1, 1, NUMBER), row(2, 2, 5), row(3, 3, NUMBER), row(4, 4, 6), row(5, 3, NUMBER)]
    assert violations(History(rows, {(NUMBER, ANN, LocalSeq(3))})) == ["INV-11"]


def test_value_of_a_rejected_commit_that_a_later_transaction_writes_violates_no_rule() -> None:
    """Transaction 19 is rejected. Number 37 has seen its value before it began, writes it without a read, and wins."""
    plan = Plan(
        kind="shared",
        features=("documents", "records", "contention", "bursts"),
        knobs=Knobs(window=1),
        nodes=(ServerNode(), ClientNode(name="a"), ClientNode(name="b")),
        operations=(
            Act(
                at=0.49095886620666773,
                node="b",
                number=19,
                steps=(("key", "0", "c"), ("append", "1"), ("append", "2"), ("put", "0", "a")),
                settles=False,
            ),
            Act(at=2.053785696905505, node="b", number=37, steps=(("keys",), ("of", "1"), ("same", "0", "a"))),
            Sync(at=2.294939664499742, node="a"),
            Sync(at=2.324939664499742, node="a"),
            Act(at=2.325939664499742, node="a", number=48, steps=(("chain",), ("put", "0", "a"), ("append", "1"))),
        ),
        faults=(
            Eio(at=0.2213030109590549, node="s", kind="sync", count=3),
            Eio(at=0.27067646742801965, node="s", kind="sync", count=3),
            Kill(at=0.27985926952136725, node="s", keep=0.0, down=1.0),
            Kill(at=2.310692436281886, node="s", keep=1.0, down=0.1),
        ),
    )
    assert play(plan, seed=533).violations == ()


def test_function_without_room_for_its_result_need_not_run_again() -> None:
    """The folder is full at the first run of `total`. Nothing that it reads changes, so its readers have no value."""
    plan = Plan(
        kind="shared",
        nodes=(ServerNode(), ClientNode(name="b", mode="async", local=True)),
        operations=(
            Act(at=0.07, node="b", number=16, steps=(("rec", "0"), ("set", "0", "c"), ("append", "0")), how="event"),
        ),
        faults=(Full(at=0.07640439127544485, node="b", seconds=2.0, room=100),),
    )
    assert play(plan, seed=344).violations == ()


def test_commit_that_is_made_while_the_folder_refuses_documents_waits_for_no_other_write() -> None:
    """The folder was told to wait for the next group, and the commit was in it: it was neither kept nor refused."""
    plan = Plan(
        kind="shared",
        features=("local",),
        nodes=(ServerNode(), ClientNode(name="a", local=True), ClientNode(name="b")),
        operations=(
            Act(at=1.01, node="b", number=1, steps=(("append", "0"),)),
            Act(at=1.06, node="a", number=2, steps=(("reg", "0"),)),
            Act(at=1.1, node="a", number=3, steps=(("append", "1"),), settles=False),
        ),
        faults=(
            SlowDisk(at=1.0, node="a", seconds=0.5, sync_ms=0.0, write_ms=200.0),
            Full(at=1.0, node="a", seconds=1.0),
            # Until then, the world is not calm.
            SlowDisk(at=3.0, node="a", seconds=0.0, sync_ms=0.0),
        ),
    )
    assert play(plan, seed=1).violations == ()
