"""What `commit` refuses at the door: whatever is accepted can be encoded, read again, and found under its name."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from headwater.cells import replica as replica_module
from headwater.core import (
    ABSENT,
    Add,
    AddUnique,
    Append,
    Increment,
    Move,
    PatchDoc,
    RemoveByValue,
    Replace,
    SetDoc,
    Splice,
    array_of,
    doc_key,
    freeze,
    open_space,
)
from headwater.errors import AddressError, HeadwaterError, NameRefusedError
from headwater.store.applying import apply_operation

D = doc_key("d")
NAN, INF = float("nan"), float("inf")


class Number(int):
    pass


MALFORMED: list[Any] = [
    *(SetDoc(D, value) for value in (NAN, INF, {"a": 1}, [1], {1, 2}, bytearray(b"x"), ABSENT, object(), 2**70)),
    *(SetDoc(D, value) for value in ("\ud800", Number(3), {1: 2}, (1,))),
    *(PatchDoc(D, (Append(("l",), items),)) for items in ("abc", {"a": 1}, 5, [1], (1,))),
    *(PatchDoc(D, (kind(("l",), "abc"),)) for kind in (AddUnique, RemoveByValue)),
    PatchDoc(D, (Splice(("l",), 0, 0, "abc"),)),
    PatchDoc(D, (Splice(("l",), 0, True, array_of([3])),)),
    PatchDoc(D, (Splice(("l",), "0", 0, array_of([3])),)),
    *(PatchDoc(D, (Add(("q",), value),)) for value in (NAN, {"l": [INF]}, [1])),
    *(PatchDoc(D, (Increment(("n",), by),)) for by in (NAN, True, "1", 2**70)),
    PatchDoc(D, (Replace("n", 5),)),
    PatchDoc(D, (Replace(["n"], 5),)),
    PatchDoc(D, (Move("n", ("m",)),)),
    PatchDoc(D, (5,)),
    PatchDoc(D, Replace(("n",), 5)),
    PatchDoc(D, [Replace(("n",), 5)]),
    Replace(("n",), 5),
    5,
]


@pytest.mark.parametrize("operation", MALFORMED, ids=range(len(MALFORMED)))
@pytest.mark.parametrize("alone", [True, False])
def test_malformed_operation_is_refused_and_changes_nothing(tmp_path: Path, operation: Any, alone: bool) -> None:
    path = str(tmp_path / "space.db")
    with open_space(path) as space:
        replica = space.attach()
        replica.commit([SetDoc(D, freeze({"l": [1], "n": 1}))])
        with pytest.raises(HeadwaterError):
            replica.commit([operation] if alone else [SetDoc(doc_key("other"), 1), operation])
        replica.sync()
    with open_space(path) as space:
        assert space.call(lambda engine: engine.head) == 1
        assert space.attach().read(D) == {"l": [1], "n": 1}


@pytest.mark.parametrize(
    "key",
    [
        *["shopping", "", "space/", "/x", "user:/n", "nobody/x", "space/\ud800"],
        *[pytest.param(key, marks=pytest.mark.pure("compiled functions check types themselves")) for key in (5, None)],
    ],
)
def test_key_that_doc_key_would_not_make_is_refused(key: Any) -> None:
    with open_space("memory:") as space:
        replica = space.attach()
        with pytest.raises(NameRefusedError):
            replica.commit([SetDoc(key, 1)])
        with pytest.raises(NameRefusedError):
            replica.read(key)
        assert space.call(lambda engine: engine.head) == 0


def test_single_operation_in_place_of_a_list_is_told_as_such() -> None:
    with open_space("memory:") as space, pytest.raises(HeadwaterError, match="a commit takes a list of operations"):
        space.attach().commit(SetDoc(D, 1))  # type: ignore[arg-type]


def test_value_that_was_not_frozen_is_told_how_to() -> None:
    with open_space("memory:") as space, pytest.raises(AddressError, match="pass it through freeze"):
        space.attach().commit([SetDoc(D, {"a": 1})])  # type: ignore[arg-type]


def test_threads_that_share_a_replica_take_turns() -> None:
    with open_space("memory:") as space:
        replica = space.attach()

        def work() -> None:
            for _ in range(300):
                replica.commit([PatchDoc(D, (Increment(("n",), 1),))])
                replica.refresh()

        replica.commit([SetDoc(D, freeze({"n": 0}))])
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        replica.sync()
        assert replica.read(D) == {"n": 1200}
        assert replica.pending_count == 0


def test_layers_are_laid_anew_once_per_step_however_many_commits_it_takes_in(monkeypatch: pytest.MonkeyPatch) -> None:
    applied = 0
    original = apply_operation

    def counting(*args: Any) -> Any:
        nonlocal applied
        applied += 1
        return original(*args)

    with open_space("memory:") as space:
        ann, bob = space.attach(), space.attach()
        ann.commit([SetDoc(D, freeze({"n": 0, "m": 0}))])
        ann.sync()
        bob.refresh()
        for number in range(1000):
            ann.commit([PatchDoc(D, (Increment(("n",), 1),))])
            if number % 50 == 0:
                bob.commit([PatchDoc(D, (Increment(("m",), 1),))])
        monkeypatch.setattr(replica_module, "apply_operation", counting)
        ann.sync()
        assert ann.read(D) == {"n": 1000, "m": 20}
        assert applied <= 1000
