"""`with space.transaction()`: all or nothing; inside another, a part that can fail alone. What a space remembers."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.cells.context import CONTEXT
from headwater.cells.space_port import UNREPORTED_MAX, RuntimePort, SpacePort
from headwater.cells.transaction import Transaction
from headwater.cells.transaction_states import Status
from headwater.errors import (
    AddressError,
    ClosedError,
    ConflictError,
    HeadwaterError,
    LimitError,
    NestedTransactionError,
    NotOpen,
    PreconditionError,
    RejectedError,
    StoreFullError,
    UsageError,
)
from headwater.store.commit import Absent, OriginCommitted
from headwater.testing import SeededEntropy
from headwater.values.address import doc_key
from headwater.values.ids import LocalSeq, SessionId
from headwater.values.tree import ABSENT
from tests.cells.transactions.stage import A, B, C, Stage, seen
from tests.support.naive import NOTHING
from tests.support.spaces import append, drop, edit, increment, put, remove, replace

FULL = StoreFullError("no room")


class Passes(RuntimePort):
    """Counts its passes; a test may set what else one does."""

    passes = 0
    take_in: Callable[[], None] | None = None

    def catch_up(self) -> None:
        if self.take_in is not None:
            self.take_in()
        else:
            self.passes += 1


class OpenStage(Stage):
    """A stage with a space opened on `here`."""

    def __init__(self, **start: object) -> None:
        super().__init__(**start)
        entropy = SeededEntropy(1)
        self.runtime = Passes(self.here, "notes", SessionId(entropy.token()))
        self.home = SpacePort(self.here, "notes", None, entropy, "ann", self.runtime)

    @property
    def passes(self) -> int:
        return self.runtime.passes


def stray() -> None:
    raise ZeroDivisionError


# --- one block ------------------------------------------------------------------------------------------------


def test_block_commits_when_it_is_left() -> None:
    stage = OpenStage(a={"n": 0})
    with stage.home.transaction() as tx:
        tx.set(A, ("n",), 1)
        tx.set(B, (), 1)
        assert (stage.now("a"), stage.now("b")) == ({"n": 0}, NOTHING)
    assert (stage.now("a"), stage.now("b"), stage.submitted) == ({"n": 1}, 1, 1)
    assert tx.status is Status.PENDING


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, GeneratorExit])
def test_exception_undoes_everything_and_goes_on(error: type[BaseException]) -> None:
    stage = OpenStage(a={"n": 0})
    settled: list[Transaction] = []
    with pytest.raises(error), stage.home.transaction() as tx:
        tx.on_settled(settled.append)
        tx.set(A, ("n",), 1)
        raise error
    assert (stage.now("a"), stage.submitted) == ({"n": 0}, 0)
    assert (tx.status, settled) == (Status.ABORTED, [tx])


def test_block_that_only_read_commits_nothing() -> None:
    stage = OpenStage(a={"n": 0})
    with stage.home.transaction() as tx:
        assert seen(tx, "a", "n") == 0
    assert (tx.status, stage.submitted) == (Status.COMMITTED, 0)


def test_block_is_entered_once() -> None:
    stage = OpenStage()
    block = stage.home.transaction()
    with block:
        pass
    with pytest.raises(UsageError, match=r"call space\.transaction\(\) for each"), block:
        pass


def test_block_cannot_be_entered_inside_itself() -> None:
    stage = OpenStage()
    with stage.home.transaction() as tx:
        tx.set(A, (), 1)
        around = CONTEXT.get()
        block = stage.home.transaction()
        with block, pytest.raises(UsageError), block:
            pass
        assert CONTEXT.get() is around
    assert stage.now("a") == 1


def test_abort_inside_leaves_quietly() -> None:
    stage = OpenStage(a={"n": 0})
    with stage.home.transaction() as tx:
        tx.set(A, ("n",), 1)
        tx.abort()
    assert (stage.now("a"), stage.submitted, tx.status) == ({"n": 0}, 0, Status.ABORTED)


def test_error_after_an_abort_still_goes_on() -> None:
    stage = OpenStage()
    with pytest.raises(ZeroDivisionError), stage.home.transaction() as tx:
        tx.abort()
        stray()


def test_write_after_an_abort_says_that_it_is_too_late() -> None:
    stage = OpenStage()
    with pytest.raises(ClosedError, match="it is aborted"), stage.home.transaction() as tx:
        tx.abort()
        tx.set(A, (), 1)


def test_commit_inside_is_the_end_and_the_block_adds_nothing() -> None:
    stage = OpenStage()
    with stage.home.transaction() as tx:
        tx.set(A, (), 1)
        tx.commit()
    assert stage.submitted == 1


def test_block_that_is_stale_at_its_end_raises_a_conflict() -> None:
    stage = OpenStage(a={"n": 0})
    with pytest.raises(ConflictError) as caught, stage.home.transaction() as tx:
        tx.set(B, (), seen(tx, "a", "n"))
        stage.meanwhile(edit("a", increment("n")))
    error = caught.value
    assert "space 'notes'" in error.message
    assert "a/n changed while the transaction was open" in error.message
    assert "Run it again" in error.message
    assert (error.facts["doc"], error.facts["path"]) == (A, ("n",))
    assert (stage.now("b"), stage.runtime.unreported) == (NOTHING, []), "told once, not by sync again"


def test_block_whose_edit_no_longer_fits_raises_a_conflict() -> None:
    stage = OpenStage(a={"l": [1]})
    with pytest.raises(ConflictError), stage.home.transaction() as tx:
        tx.patch(A, remove("l", 0))
        stage.meanwhile(edit("a", remove("l")))


def test_block_that_is_refused_at_the_door_raises_what_the_door_says() -> None:
    stage = OpenStage()
    stage.error = LimitError("too much of it")
    with pytest.raises(LimitError), stage.home.transaction() as tx:
        tx.set(A, (), 1)
    assert (tx.is_rejected, CONTEXT.get()) == (True, None)


def test_what_follows_is_run_when_something_is_to_be_run_or_taken_in() -> None:
    stage = OpenStage()
    for restless, news, passes in [(False, (), 0), (True, (), 1), (False, ("decided",), 2)]:
        with stage.home.transaction() as tx:
            stage.runtime.has_work, stage.home.inbox = restless, news
            tx.set(A, (), passes)
        stage.runtime.has_work, stage.home.inbox = False, ()
        assert stage.passes == passes


def test_what_is_known_already_is_taken_in_before_a_block_begins() -> None:
    """Or it would be rejected for what it could have seen. An inner block goes on with what the outer one sees."""
    stage = OpenStage(a={"n": 0})
    stage.elsewhere(edit("a", increment("n")))
    stage.home.inbox = ("decided",)

    def catch_up() -> None:
        stage.home.inbox = ()
        stage.tell()

    stage.runtime.take_in = catch_up
    with stage.home.transaction() as tx:
        tx.set(B, (), seen(tx, "a", "n"))
        stage.elsewhere(put("c", 1))
        stage.home.inbox = ("decided",)
        with stage.home.transaction():
            assert stage.home.inbox == ("decided",)
        stage.home.inbox = ()
    stage.settle()
    assert (tx.status, stage.now("b")) == (Status.COMMITTED, 1)


def test_nothing_follows_from_a_block_that_failed() -> None:
    stage = OpenStage()
    stage.runtime.has_work = True
    with pytest.raises(ZeroDivisionError), stage.home.transaction():
        stray()
    assert stage.passes == 0


# --- blocks in blocks -----------------------------------------------------------------------------------------


def test_inner_block_is_part_of_the_outer_one() -> None:
    stage = OpenStage(a={"n": 0})
    with stage.home.transaction() as outer:
        outer.set(A, ("n",), 1)
        with stage.home.transaction() as inner:
            assert inner is outer
            assert seen(inner, "a", "n") == 1
            inner.set(B, (), 2)
        assert stage.submitted == 0
        assert seen(outer, "b") == 2
    assert (stage.now("a"), stage.now("b"), stage.submitted) == ({"n": 1}, 2, 1)


def test_failure_of_an_inner_block_undoes_only_its_part() -> None:
    stage = OpenStage(a={"n": 0, "l": []})
    with stage.home.transaction() as tx:
        tx.set(A, ("n",), 1)
        with pytest.raises(ZeroDivisionError), stage.home.transaction():
            tx.set(A, ("n",), 2)
            tx.set(B, (), "undone")
            tx.require(Absent(A))
            stray()
        assert (seen(tx, "a", "n"), seen(tx, "b")) == (1, NOTHING)
        tx.patch(A, append("l", items=["after"]))
    stage.settle()
    assert tx.status is Status.COMMITTED
    assert (stage.now("a"), stage.now("b")) == ({"n": 1, "l": ["after"]}, NOTHING)


def test_failure_that_nobody_catches_undoes_the_outer_block_too() -> None:
    stage = OpenStage()
    with pytest.raises(ZeroDivisionError), stage.home.transaction() as tx:
        tx.set(A, (), 1)
        with stage.home.transaction():
            tx.set(B, (), 1)
            stray()
    assert (stage.now("a"), stage.now("b"), tx.status) == (NOTHING, NOTHING, Status.ABORTED)


def test_blocks_fail_at_any_depth() -> None:
    stage = OpenStage()
    with stage.home.transaction() as tx:
        tx.set(A, (), 1)
        with pytest.raises(ZeroDivisionError), stage.home.transaction():
            tx.set(A, (), 2)
            with stage.home.transaction():
                tx.set(B, (), 2)
            with pytest.raises(ZeroDivisionError), stage.home.transaction():
                tx.set(C, (), 3)
                stray()
            assert (seen(tx, "a"), seen(tx, "b"), seen(tx, "c")) == (2, 2, NOTHING)
            stray()
        assert (seen(tx, "a"), seen(tx, "b"), seen(tx, "c")) == (1, NOTHING, NOTHING)


def test_abort_in_an_inner_block_ends_the_whole() -> None:
    stage = OpenStage()
    with stage.home.transaction() as tx:
        tx.set(A, (), 1)
        with stage.home.transaction():
            tx.abort()
    assert (tx.status, stage.submitted) == (Status.ABORTED, 0)


def test_what_follows_is_run_once_when_the_outermost_block_is_left() -> None:
    stage = OpenStage()
    stage.runtime.has_work = True
    with stage.home.transaction() as tx:
        with stage.home.transaction():
            tx.set(A, (), 1)
        assert stage.passes == 0
    assert stage.passes == 1


def test_block_of_another_space_inside_a_block_is_a_transaction_of_its_own() -> None:
    mine, other = OpenStage(), OpenStage()
    with pytest.raises(ZeroDivisionError), mine.home.transaction() as outer:
        outer.set(A, (), 1)
        with other.home.transaction() as inner:
            assert inner is not outer
            inner.set(B, (), 3)
        stray()
    assert (mine.now("a"), other.now("b")) == (NOTHING, 3)


def test_run_and_handling_begin_no_block_of_another_space() -> None:
    mine, other = OpenStage(), OpenStage()
    with mine.home.transaction() as outer:
        outer.node = SimpleNamespace(title="sell()")
        with pytest.raises(NestedTransactionError, match=r"cannot be begun in sell\(\)"), other.home.transaction():
            stray()
    assert other.now("a") is NOTHING


# --- what was taken back --------------------------------------------------------------------------------------


def test_single_write_that_is_taken_back_is_remembered_until_sync_tells() -> None:
    stage = OpenStage(a={"l": [1]})
    stage.elsewhere(drop("a"))
    stage.home.commit_one(edit("a", remove("l", 0)))
    assert stage.runtime.unreported == []
    stage.settle()
    [lost] = stage.runtime.unreported
    assert isinstance(lost, ConflictError)
    assert "a transaction in space 'notes' was rejected" in lost.message
    assert stage.runtime.rejected_count == 1


def test_block_that_is_taken_back_after_it_was_left_is_remembered() -> None:
    stage = OpenStage(a={"n": 0})
    stage.elsewhere(edit("a", increment("n")))
    with stage.home.transaction() as tx:
        tx.set(B, (), seen(tx, "a", "n"))
    stage.settle()
    [lost] = stage.runtime.unreported
    assert isinstance(lost, ConflictError)
    assert (tx.is_rejected, stage.runtime.rejected_count) == (True, 1)


def test_transaction_whose_end_somebody_waits_for_is_counted_but_not_remembered() -> None:
    stage = OpenStage(a={"n": 0})
    stage.elsewhere(edit("a", increment("n")))
    tx = stage.home.begin("recount()")
    tx.on_settled(lambda _: None)
    tx.set(B, (), seen(tx, "a", "n"))
    tx.commit()
    stage.settle()
    assert (tx.is_rejected, stage.runtime.unreported, stage.runtime.rejected_count) == (True, [], 1)


def test_what_is_remembered_says_why_and_whose_it_was() -> None:
    stage = OpenStage(a={"n": 0})
    for name, precondition in [("first()", Absent(A)), ("second()", OriginCommitted(LocalSeq(99)))]:
        tx = stage.home.begin(name)
        tx.set(B, (), name)
        tx.require(precondition)
        tx.commit()
    stage.settle()
    stage.home.commit_one(put("b", 1))
    stage.fail(FULL)
    stage.tell()
    kinds: list[type[HeadwaterError]] = [type(lost) for lost in stage.runtime.unreported]
    assert kinds == [PreconditionError, PreconditionError, RejectedError]
    assert [lost.message.split(" in space")[0] for lost in stage.runtime.unreported] == [
        "transaction first()",
        "transaction second()",
        "a transaction",
    ]
    assert stage.runtime.unreported[2].__cause__ is FULL


def test_what_is_remembered_is_bounded_and_the_first_are_kept() -> None:
    stage = OpenStage()
    for number in range(UNREPORTED_MAX + 5):
        stage.home.commit_one(put(f"d{number}", 1))
        stage.fail(StoreFullError(f"no room for number {number}"))
    stage.tell()
    assert (len(stage.runtime.unreported), stage.runtime.rejected_count) == (
        UNREPORTED_MAX,
        UNREPORTED_MAX + 5,
    )
    assert "number 0" in stage.runtime.unreported[0].message
    assert f"number {UNREPORTED_MAX - 1}" in stage.runtime.unreported[-1].message


def test_single_write_runs_what_follows_from_it() -> None:
    stage = OpenStage()
    stage.home.commit_one(put("a", 1))
    assert stage.passes == 0
    stage.runtime.has_work = True
    stage.home.commit_one(put("a", 2))
    assert (stage.passes, stage.now("a")) == (1, 2)


# --- ids ------------------------------------------------------------------------------------------------------


def minted(seed: int, cause: object, count: int = 3) -> list[str]:
    home = SpacePort(Stage().here, "notes", None, SeededEntropy(seed), None)
    tx = home.begin(cause=cause)
    return [home.mint("note", tx) for _ in range(count)]


def test_same_cause_gives_the_same_ids_in_the_same_order_wherever_it_is() -> None:
    assert minted(1, ["event", 7]) == minted(2, ["event", 7])
    assert minted(1, ["event", 7]) != minted(1, ["event", 8])
    assert len(set(minted(1, ["event", 7]))) == 3


def test_what_nothing_caused_gets_a_random_id() -> None:
    assert minted(1, None) != minted(2, None)
    assert len(set(minted(1, None) + minted(2, None))) == 6


def test_ids_without_a_transaction_are_random() -> None:
    home = SpacePort(Stage().here, "notes", None, SeededEntropy(1), None)
    assert len({home.mint("note", None) for _ in range(10)}) == 10


def test_kind_is_part_of_the_id_and_the_cause() -> None:
    home = SpacePort(Stage().here, "notes", None, SeededEntropy(1), None)
    notes, tasks = (home.mint(kind, home.begin(cause="same")) for kind in ("note", "task"))
    assert (notes.partition(":")[0], tasks.partition(":")[0]) == ("note", "task")
    assert notes.partition(":")[2] != tasks.partition(":")[2]


def test_ids_that_were_undone_are_not_given_again() -> None:
    """A document of the undone part may have been handed out; the next one must not be taken for it."""
    stage = OpenStage()
    with stage.home.transaction() as tx:
        with pytest.raises(ZeroDivisionError), stage.home.transaction():
            first = stage.home.mint("note", tx)
            stray()
        assert stage.home.mint("note", tx) != first


# --- scopes ---------------------------------------------------------------------------------------------------


def test_scopes_name_the_instance_of_whoever_opened_the_space() -> None:
    home = OpenStage().home
    assert home.key("prefs", "space") == doc_key("prefs")
    assert home.key("prefs", "user") == "user:ann/prefs"
    assert home.key("prefs", "session") == f"session:ann:{home.session}/prefs"


@pytest.mark.parametrize("scope", ["user", "session"])
def test_own_documents_need_to_know_whose(scope: str) -> None:
    home = SpacePort(Stage().here, "notes", None, SeededEntropy(1), None)
    assert home.key("prefs", "space") == doc_key("prefs")
    with pytest.raises(NotOpen, match="actor="):
        home.key("prefs", scope)


# --- without a transaction ------------------------------------------------------------------------------------


def test_untracked_reads_show_what_is_visible_now_and_note_nothing() -> None:
    stage = OpenStage(a={"n": 0})
    source: Any = stage.home.untracked
    assert source.read(A, ("n",)) == 0
    stage.home.commit_one(edit("a", replace("n", to=1)))
    assert source.read(A, ("n",)) == 1
    assert source.document(A) is stage.here.read(A)
    assert source.read(B, ("n",)) is ABSENT
    source.record(A, (), None)


def test_closed_space_says_how_to_go_on() -> None:
    stage = OpenStage()
    stage.home.closed = stage.home.needs_check = True
    with pytest.raises(ClosedError, match="open it again"), stage.home.transaction():
        pass
    assert CONTEXT.get() is None


def test_misfit_inside_a_block_undoes_it() -> None:
    stage = OpenStage(a={"n": 0})
    with pytest.raises(AddressError), stage.home.transaction() as tx:
        tx.set(A, ("n",), 1)
        tx.patch(A, remove("gone"))
    assert stage.now("a") == {"n": 0}
