"""The guard of collections: types are checked for every writer, rules for sessions of a server."""

from __future__ import annotations

import random
from typing import Any

import pytest

from headwater.errors import CorruptError, RuleError
from headwater.store import branching
from headwater.store.backends.memory_backend import MemoryBackend
from headwater.store.collection_record import CollectionRecord, Index, record_of
from headwater.store.collection_rules import Access, Rule, Rules, rules_of, rules_tree
from headwater.store.commit import (
    Commit,
    Committed,
    DeleteDoc,
    Operation,
    PatchDoc,
    Refused,
    SetDoc,
    Submission,
    Verdict,
)
from headwater.store.declaring import declare
from headwater.store.engine import Engine
from headwater.store.index_field import IndexField
from headwater.testing.sim_clock import SimClock
from headwater.values.address import doc_key
from headwater.values.ids import MAIN, BranchId, LocalSeq, SessionId
from headwater.values.patch import Append, Increment, Remove, Replace
from headwater.values.tree import ABSENT, Maybe, Value, freeze

OWNER = Access(may_write=True, may_own=True)
WRITER = Access(may_write=True)
FIELDS: Any = {"n": "int", "state": "str", "who": "str", "tags": {"list": "str"}}


def record(*rules: Rule, **more: Any) -> CollectionRecord:
    rest: dict[str, Value] = {"fields": freeze(FIELDS), "types": freeze({}), "required": freeze(["n"]), "owner": "who"}
    if rules:
        rest["rules"] = rules_tree(rules)
    return CollectionRecord("order", rest=tuple(sorted({**rest, **more}.items())))


class Orders:
    """A space with a collection of orders; each commit is of a session with these rights."""

    def __init__(self, *rules: Rule) -> None:
        self.engine = Engine(MemoryBackend(), SimClock())
        declare(self.engine, record(*rules))
        self._number = 0

    def write(self, *operations: Operation, access: Access | None = None, branch: str = MAIN) -> Verdict:
        self._number += 1
        commit = Commit(SessionId("s"), LocalSeq(self._number), operations, branch=BranchId(branch))
        [outcome] = self.engine.admit([Submission(commit, access=access)])
        return outcome.verdict

    def value(self, doc: str) -> Maybe:
        return self.engine.states.get(MAIN, doc_key(doc)).value


def put(doc: str, value: object) -> SetDoc:
    return SetDoc(doc_key(doc), freeze(value))


def patch(doc: str, *ops: Any) -> PatchDoc:
    return PatchDoc(doc_key(doc), ops)


def is_rule(verdict: Verdict, *parts: str, code: str = "HW216") -> bool:
    assert isinstance(verdict, Refused), verdict
    assert verdict.code == code, verdict
    assert all(part in verdict.reason for part in parts), verdict.reason
    return True


# --- types ----------------------------------------------------------------------------------------------------


def test_each_operation_is_checked_by_what_it_leaves() -> None:
    made = Orders()
    assert isinstance(made.write(put("order:a", {"n": 1, "tags": ["x"]})), Committed)
    is_rule(made.write(put("order:b", {"n": "one"})), "order:b/n", "expected int", "'one'")
    is_rule(made.write(put("order:b", {"state": "open"})), "order:b/n", "it is missing")
    is_rule(made.write(put("order:b", [1])), "order:b: expected the fields of order")
    is_rule(made.write(patch("order:a", Append(("tags",), freeze([7])))), "order:a/tags/1", "expected str")  # type: ignore[arg-type]
    is_rule(made.write(patch("order:a", Increment(("n",), 0.5))), "order:a/n", "expected int")
    is_rule(made.write(patch("order:a", Remove(("n",)))), "order:a/n", "missing")
    # The net of a commit counts.
    assert isinstance(made.write(put("order:b", {"n": "x"}), patch("order:b", Replace(("n",), 3))), Committed)
    assert made.value("order:a") == {"n": 1, "tags": ["x"]}


def test_documents_of_no_collection_are_not_checked() -> None:
    made = Orders()
    for doc in ("order", "orders:a", "order:a:b", "order:a+b", "other:a"):
        assert isinstance(made.write(put(doc, {"n": "x"})), Committed)


def test_what_did_not_fit_before_blocks_no_write_to_another_field() -> None:
    made = Orders()
    forced = Access(may_write=True, may_own=True, is_forced=True)
    assert isinstance(made.write(put("order:a", {"n": "old", "state": "open"}), access=forced), Committed)
    assert isinstance(made.write(patch("order:a", Replace(("state",), "paid"))), Committed)
    # Also not if the document is written as a whole, with the same value.
    assert isinstance(made.write(put("order:a", {"n": "old", "state": "sent"})), Committed)
    is_rule(made.write(put("order:a", {"n": "other", "state": "sent"})), "order:a/n")
    is_rule(made.write(patch("order:a", Replace(("state",), 1))), "order:a/state")


def test_a_merge_is_checked_too() -> None:
    made = Orders()
    branching.fork(made.engine, SimClock(), "side")
    assert isinstance(made.write(DeleteDoc(doc_key("collection:order")), branch="side"), Committed)
    assert isinstance(made.write(put("order:a", {"n": "x"}), branch="side"), Committed)
    # By the record of the branch that takes it in.
    with pytest.raises(RuleError, match="order:a/n: expected int"):
        branching.merge(made.engine, BranchId("side"), MAIN)
    assert made.value("order:a") is ABSENT
    assert isinstance(made.write(put("order:a", {"n": 1}), branch="side"), Committed)
    assert isinstance(branching.merge(made.engine, BranchId("side"), MAIN).verdict, Committed)


def test_a_refused_commit_leaves_no_trace() -> None:
    made = Orders()
    head = made.engine.head
    is_rule(made.write(put("order:ok", {"n": 1}), put("order:bad", {"n": None})), "order:bad/n")
    assert made.engine.head == head
    assert made.value("order:ok") is ABSENT


# --- rules ----------------------------------------------------------------------------------------------------

VERBS: list[Any] = [False, True, "own"]
WRITES: list[Any] = [*VERBS, ("state",), ("state", "n")]


def allowed(rules: list[Rule], roles: frozenset[str], actor: str, before: Maybe, after: Maybe) -> bool:
    """A small evaluator of the table: one line for each verb."""
    mine = [rule for rule in rules if rule.role in roles]
    was: Any = before
    now: Any = after

    def own(*values: Any) -> bool:
        return bool(actor) and all(value.get("who") == actor for value in values)

    if before is ABSENT:
        return any(rule.create is True or (rule.create == "own" and own(now)) for rule in mine)
    if after is ABSENT:
        return any(rule.delete is True or (rule.delete == "own" and own(was)) for rule in mine)
    if any(rule.write is True or (rule.write == "own" and own(was, now)) for rule in mine):
        return True
    changed = {name for name in {**was, **now} if was.get(name) != now.get(name)}
    fields = {name for rule in mine if isinstance(rule.write, tuple) for name in rule.write}
    may_look = any(rule.read for rule in mine) or bool(fields)
    return changed <= fields and (bool(changed) or may_look)


@pytest.mark.parametrize("seed", range(40))
def test_random_commits_are_decided_as_the_table_says(seed: int) -> None:
    rng = random.Random(seed)
    names = ["a", "b", "c"]
    rules = [
        Rule(name, rng.random() < 0.5, rng.choice(VERBS), rng.choice(WRITES), rng.choice(VERBS))
        for name in rng.sample(names, rng.randrange(1, 4))
    ]
    made = Orders(*rules)
    for _ in range(60):
        doc = f"order:{rng.randrange(3)}"
        before = made.value(doc)
        value: Any = {"n": rng.randrange(2), "state": rng.choice("xy"), "who": rng.choice(["ann", "bob"])}
        operation: Operation = put(doc, value)
        after: Maybe = freeze(value)
        if before is not ABSENT and rng.random() < 0.7:
            field = rng.choice(list(value))
            operation, after = patch(doc, Replace((field,), value[field])), freeze({**before, field: value[field]})  # type: ignore[dict-item]
            if rng.random() < 0.3:
                operation, after = DeleteDoc(doc_key(doc)), ABSENT
        roles = frozenset(rng.sample(names, rng.randrange(3)))
        access = Access(rng.random() < 0.5, rng.random() < 0.1, roles, rng.choice(["ann", "bob", ""]))
        verdict = made.write(operation, access=access)
        wanted = access.may_own or allowed(rules, roles, access.actor, before, after)
        assert isinstance(verdict, Committed) == wanted, (rules, access, before, operation, verdict)
        if not wanted:
            is_rule(verdict, doc)
        assert made.value(doc) == (after if wanted else before)


def test_without_rules_the_right_to_the_space_counts() -> None:
    made = Orders()
    assert isinstance(made.write(put("order:a", {"n": 1}), access=WRITER), Committed)
    reader = Access(may_write=False, roles=frozenset({"clerk"}))
    is_rule(made.write(put("order:b", {"n": 1}), access=reader), "write", code="HW403")


def test_only_an_owner_writes_records() -> None:
    made = Orders()
    for operation in (DeleteDoc(doc_key("collection:order")), put("collection:other", {})):
        is_rule(made.write(operation, access=WRITER), "own", code="HW403")
    assert isinstance(made.write(DeleteDoc(doc_key("collection:order")), access=OWNER), Committed)


def test_a_receipt_comes_with_an_allowed_write_only() -> None:
    made = Orders(Rule("courier", read=True, write=("state",)))
    made.write(put("order:a", {"n": 1, "state": "open"}))
    courier = Access(may_write=False, roles=frozenset({"courier"}))
    write, receipt = patch("order:a", Replace(("state",), "sent")), put("receipt:1", 1)
    is_rule(made.write(receipt, access=courier), "receipt:1", code="HW403")
    is_rule(made.write(write, put("note", 1), access=courier), "note", code="HW403")
    assert isinstance(made.write(write, receipt, access=courier), Committed)
    # Nor is one changed.
    is_rule(made.write(patch("order:a", Replace(("state",), "x")), put("receipt:1", 2), access=courier), code="HW403")


def test_a_duplicate_is_told_only_to_those_who_may_read() -> None:
    space = Orders(Rule("box", create=True), Rule("clerk", read=True, create=True))
    unique = CollectionRecord("order", indexes=(Index((IndexField("n"),), unique=True),), rest=record().rest)
    declare(space.engine, unique)
    space.write(put("order:secret", {"n": 1}))
    for role, is_told in (("box", False), ("clerk", True)):
        access = Access(may_write=False, roles=frozenset({role}))
        verdict = space.write(put("order:new", {"n": 1}), access=access)
        is_rule(verdict, code="HW215")
        assert ("secret" in str(verdict)) == is_told


def test_a_unique_index_that_an_owner_adds_over_duplicates_is_refused() -> None:
    space = Orders()
    space.write(put("order:a", {"n": 1}), put("order:b", {"n": 1}))
    unique = CollectionRecord("order", indexes=(Index((IndexField("n"),), unique=True),), rest=record().rest)
    verdict = space.write(SetDoc(unique.doc, unique.to_value()), access=OWNER)
    is_rule(verdict, "order:a", "order:b", code="HW215")


# --- the record -----------------------------------------------------------------------------------------------


def test_rules_are_the_same_after_they_were_stored() -> None:
    rules = (Rule("a", True, "own", ("state",), False), Rule("b", False, True, True, "own"))
    assert rules_of("who", rules_tree(rules)) == Rules("who", rules)
    assert rules_of(ABSENT, ABSENT) == Rules()
    stored = record(*rules)
    assert record_of(stored.doc, stored.to_value()).rules == Rules("who", rules)


@pytest.mark.parametrize(
    "stored",
    [
        5,
        [5],
        [{}],
        [{"role": ""}],
        [{"role": "a", "read": "own"}],
        [{"role": "a", "write": [1]}],
        [{"role": "a", "create": "mine"}],
        [{"role": "a", "publish": True}],
        [{"role": "a b"}],
    ],
    ids=str,
)
def test_damaged_rules_are_refused_and_not_ignored(stored: object) -> None:
    damaged = record(rules=freeze(stored))
    with pytest.raises(CorruptError):
        record_of(damaged.doc, damaged.to_value())
    made = Orders()
    verdict = made.write(SetDoc(damaged.doc, damaged.to_value()), access=OWNER)
    assert isinstance(verdict, Refused)
