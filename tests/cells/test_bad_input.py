"""What cannot be stored, wherever it is tried: the error says what and where, and nothing is written."""

# ruff: noqa: PLW0108  # a lambda looks for the space when it is called, not when the table is made

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

import headwater as hw
from headwater.errors import (
    AddressError,
    AmbiguousError,
    ClosedError,
    FrozenError,
    HeadwaterError,
    LimitError,
    SchemaError,
    UsageError,
)
from tests.cells.kit import ABSENT, Sent, put, stored


@dataclass
class Note:
    text: str = ""
    number: float = 0.0
    extra: Any = None
    many: list[Any] = field(default_factory=list)


class Doc(hw.Doc):
    text: str = ""
    number: float = 0.0
    extra: Any = None
    words: hw.List[str] = hw.List()
    things: hw.List[Any] = hw.List()
    by_key: hw.Map[str, Any] = hw.Map()


app = hw.App("bad")
free: hw.Cell[Any] = app.cell("free", None)
text = app.cell("text", "")
number = app.cell("number", 0.0)
listed: hw.Cell[list[Any]] = app.cell("listed", list[Any]())
mapped: hw.Cell[dict[str, Any]] = app.cell("mapped", dict[str, Any]())
note = app.cell("note", Note())
doc = app.doc("doc", Doc)


def circle() -> list[Any]:
    made: list[Any] = [1]
    made.append(made)
    return made


def ring() -> dict[str, Any]:
    made: dict[str, Any] = {}
    made["me"] = [made]
    return made


def deep() -> list[Any]:
    made: list[Any] = []
    for _ in range(600):
        made = [made]
    return made


LARGE = "x" * (20 * 1024 * 1024)

BAD: dict[str, tuple[Callable[[], Any], type[HeadwaterError], str]] = {
    "a set": (lambda: {1, 2}, AddressError, r"set is not a value: .* is expected; make it a list first"),
    "a frozen set": (lambda: frozenset(), AddressError, r"frozenset is not a value: .*; make it a list first"),
    "a function": (
        lambda: len,
        AddressError,
        r"builtin_function_or_method is not a value: None, bool, int",
    ),
    "a class": (lambda: Note, AddressError, r"type is not a value"),
    "an object": (object, AddressError, r"object is not a value"),
    "an object of a class": (lambda: Note("x"), AddressError, r"Note is not a value"),
    "a date": (lambda: datetime.now(UTC), AddressError, r"datetime is not a value"),
    "a decimal": (lambda: Decimal(1), AddressError, r"Decimal is not a value"),
    "a complex number": (lambda: 1j, AddressError, r"complex is not a value"),
    "not a number": (lambda: float("nan"), AddressError, r"nan is not a number that JSON has; use None or text"),
    "infinity": (lambda: float("-inf"), AddressError, r"-inf is not a number that JSON has; use None or text"),
    "a circle": (circle, LimitError, r"nested deeper than 512 levels \(does it contain itself\?\)"),
    "a ring": (ring, LimitError, r"nested deeper than 512 levels \(does it contain itself\?\)"),
    "too deep": (deep, LimitError, r"nested deeper than 512 levels \(does it contain itself\?\)"),
    "20 MB": (lambda: LARGE, LimitError, r"larger than a document may be \(16,777,216 bytes\)"),
    "20 MB of bytes": (lambda: LARGE.encode(), LimitError, r"larger than a document may be"),
    "20 MB in parts": (lambda: [LARGE[: 2**20]] * 20, LimitError, r"larger than a document may be"),
    "a lone surrogate": (
        lambda: "a\ud800",
        AddressError,
        r"the text holds a lone surrogate \(U\+D800 at 1\), which",
    ),
    "a surrogate as key": (lambda: {"\udc00": 1}, AddressError, r"lone surrogate"),
    "a number as key": (lambda: {1: 2}, AddressError, r"the key 1 is int; keys are text"),
    "a long key": (lambda: {"k" * 5000: 1}, LimitError, r"a key of more than 4,096 bytes"),
    "a large number": (lambda: 2**64, AddressError, r"an integer beyond 64 bits; store it as text or bytes"),
    "a small number": (lambda: -(2**63) - 1, AddressError, r"an integer beyond 64 bits"),
}

PLACES: dict[str, tuple[Callable[[Any], object], str]] = {
    "a cell": (lambda value: setattr(free, "value", value), r"bad\.free"),
    "a part of a cell": (lambda value: setattr(mapped.at("a"), "value", value), r"bad\.mapped/a"),
    "a new part": (lambda value: setattr(free.at("x", "y"), "value", value), r"bad\.free/x/y"),
    "within a value": (lambda value: setattr(free, "value", {"a": [1, value]}), r"a/1.* in bad\.free"),
    "an append": (lambda value: listed.append(value), r"bad\.listed"),
    "an insert": (lambda value: listed.insert(0, value), r"bad\.listed"),
    "an add_unique": (lambda value: listed.add_unique(value), r"bad\.listed"),
    "a field": (lambda value: setattr(doc, "extra", value), r"bad\.doc/extra"),
    "a new document": (lambda value: Doc(extra=value), r"Doc\.extra"),
    "a list": (lambda value: doc.things.append(value), r"bad\.doc/things"),
    "an element": (lambda value: doc.things.__setitem__(0, value), r"bad\.doc/things/0"),
    "a map": (lambda value: doc.by_key.__setitem__("k", value), r"bad\.doc/by_key/k"),
    "a record": (lambda value: setattr(note, "value", Note(extra=value)), r"extra.* in bad\.note"),
    "an update": (lambda value: free.update(lambda _: value), r"bad\.free"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_stored_is_refused_wherever_it_is_written(name: str, place: str) -> None:
    make, _, message = BAD[name]
    write, where = PLACES[place]
    for in_transaction in (False, True):
        with app.open("memory:") as space:
            doc.things = [0]
            before = stored(space, "bad.doc")
            sent = Sent(space)
            with space.transaction() if in_transaction else nullcontext():
                # As a value of the type Any it is told by what it is; inside of a declared type, as a misfit of that.
                with pytest.raises((AddressError, LimitError, SchemaError), match=message) as caught:
                    write(make())
                assert caught.match(where)
                assert len(str(caught.value)) < 600
            assert sent.commits == []
            assert stored(space, "bad.doc") == before
            assert stored(space, "bad.free") is ABSENT
            assert not note.exists


@pytest.mark.parametrize("name", BAD)
def test_the_class_of_the_error_tells_a_limit_from_a_misfit(name: str) -> None:
    make, kind, message = BAD[name]
    with app.open("memory:"):
        with pytest.raises(kind, match=message) as caught:
            free.value = make()
        assert type(caught.value) is kind


TYPED: dict[str, tuple[Callable[[], object], type[HeadwaterError], str]] = {
    "text": (lambda: setattr(text, "value", "\ud800"), SchemaError, r"bad\.text: .*lone surrogate \(U\+D800 at 0\)"),
    "long text": (lambda: setattr(text, "value", LARGE), LimitError, r"bad\.text: larger than a document may be"),
    "text field": (lambda: setattr(doc, "text", "a\ud800"), SchemaError, r"bad\.doc/text: .*lone surrogate"),
    "long text field": (lambda: setattr(doc, "text", LARGE), LimitError, r"bad\.doc/text: larger than a document"),
    "number": (lambda: setattr(number, "value", float("nan")), SchemaError, r"bad\.number: .*nan"),
    "number field": (lambda: setattr(doc, "number", float("inf")), SchemaError, r"bad\.doc/number: .*inf"),
    "step": (lambda: number.increment(float("nan")), SchemaError, r"the step added to bad\.number: .*nan"),
    "word": (lambda: doc.words.append("\ud800"), SchemaError, r"bad\.doc/words: .*lone surrogate"),
    "long word": (lambda: doc.words.append(LARGE), LimitError, r"bad\.doc/words: larger than a document may be"),
    "record": (
        lambda: setattr(note, "value", Note(text="\ud800")),
        SchemaError,
        r"text in bad\.note: .*lone surrogate",
    ),
    "record number": (
        lambda: setattr(note, "value", Note(number=float("nan"))),
        SchemaError,
        r"number in bad\.note: .*nan",
    ),
    "record list": (
        lambda: setattr(note, "value", Note(many=circle())),
        LimitError,
        r"bad\.note: nested deeper than 512",
    ),
}


@pytest.mark.parametrize("name", TYPED)
def test_what_does_not_fit_a_declared_type_is_refused(name: str) -> None:
    write, kind, message = TYPED[name]
    for in_transaction in (False, True):
        with app.open("memory:") as space:
            sent = Sent(space)
            with space.transaction() if in_transaction else nullcontext(), pytest.raises(kind, match=message) as caught:
                write()
            assert type(caught.value) is kind
            assert sent.commits == []


def test_a_document_that_would_grow_too_large_piece_by_piece_is_refused() -> None:
    with app.open("memory:") as space:
        for n in range(16):
            listed.append("x" * (2**20 - 100))
            assert len(listed.value) == n + 1
        space.sync()
        listed.append("x" * 2**20)
        with pytest.raises(LimitError, match=r"bad\.listed would be .* bytes; a document may have 16,777,216"):
            space.sync()
        assert len(listed.value) == 16


# --- dead and ambiguous spaces ----------------------------------------------------------------------------------


def test_writing_through_a_dead_space_is_refused() -> None:
    with app.open("memory:") as space:
        cell: hw.Cell[Any] = space.cell("x")
        made = Doc()
        held = made.things
        open_tx = space._opening.begin()
    writes: list[Callable[[], object]] = [
        lambda: setattr(cell, "value", 1),
        lambda: cell.append(1),
        lambda: cell.update(lambda old: old),
        lambda: cell.clear(),
        lambda: cell.value,
        lambda: cell.exists,
        lambda: setattr(made, "text", "x"),
        lambda: made.text,
        lambda: held.append(1),
        lambda: list(held),
        lambda: hw.delete(made),
        lambda: hw.exists(made),
        lambda: space.cell("y"),
        lambda: space.doc("y"),
        lambda: space.transaction().__enter__(),
    ]
    for write in writes:
        with pytest.raises(ClosedError, match=r"(cannot be used|is closed|was closed).*"):
            write()
    assert open_tx.is_open


def test_a_space_that_is_left_is_closed_also_for_threads() -> None:
    with app.open("memory:") as space:
        cell: hw.Cell[Any] = space.cell("x")
    found: list[BaseException] = []

    def use() -> None:
        try:
            cell.value = 1
        except ClosedError as error:
            found.append(error)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert len(found) == 1


def test_a_cell_that_could_mean_two_openings_is_refused_in_code_that_is_in_neither() -> None:
    with app.open("memory:"), app.open("memory:"):
        found: list[BaseException] = []

        def use() -> None:
            try:
                free.value = 1
            except AmbiguousError as error:
                found.append(error)

        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
        assert "could mean any of 2 openings" in str(found[0])
        assert free.value is None


def test_a_cell_is_refused_in_another_event_loop() -> None:
    async def main() -> None:
        async with app.aopen("memory:") as space:
            free.value = 1
            cell: hw.Cell[Any] = space.cell("bad.free")
            errors: list[str] = []

            def other() -> None:
                async def use() -> None:
                    for do in (lambda: cell.value, lambda: setattr(cell, "value", 2), lambda: cell.increment()):
                        try:
                            do()
                        except UsageError as error:
                            errors.append(str(error))

                asyncio.run(use())

            await asyncio.to_thread(other)
            assert len(errors) == 3
            assert all("was opened in another one; open it here as well" in error for error in errors)
            await space.settle()
            assert free.value == 1

    asyncio.run(main())


# --- other misuse -----------------------------------------------------------------------------------------------


def test_what_was_read_is_never_changed_in_place() -> None:
    with app.open("memory:"):
        listed.value = [[1], {"a": 1}]
        doc.things = [[1], {"a": [1]}]
        doc.by_key["k"] = {"a": [1]}
        changes: list[Callable[[], object]] = [
            lambda: listed.value.append(1),
            lambda: listed.value[0].append(1),
            lambda: listed.value[1].update(a=2),
            lambda: doc.things[0].append(2),
            lambda: doc.things[1]["a"].clear(),
            lambda: doc.by_key["k"].pop("a"),
            lambda: doc.by_key["k"]["a"].sort(),
            lambda: next(iter(doc.things)).append(3),
        ]
        for change in changes:
            with pytest.raises(FrozenError, match=r"what is read is shared and frozen"):
                change()
        assert listed.value == [[1], {"a": 1}]
        assert list(doc.things) == [[1], {"a": [1]}]


def test_a_dict_that_looks_like_a_link_is_not_stored_as_a_plain_dict_of_a_type() -> None:
    typed: hw.Cell[dict[str, Any]] = hw.App("typed").cell("x", type=dict[str, dict[str, int]])
    looks_like_one: Any = {"/": {"link@1": 5}}
    with app.open("memory:") as space:
        cell = space.cell("x", dict[str, dict[str, int]])
        with pytest.raises(SchemaError, match=r"would be read as a link; use another key"):
            cell.value = looks_like_one
        assert typed.address == "typed.x"
        assert stored(space, "x") is ABSENT


def test_a_part_is_not_written_into_what_has_none() -> None:
    with app.open("memory:") as space:
        put(space, "bad.free", "text")
        sent = Sent(space)
        with pytest.raises(AddressError, match=r"cannot add a: the root holds text"):
            free.at("a").value = 1
        put(space, "bad.free", [1])
        with pytest.raises(AddressError, match=r"cannot add a: the root (is|holds) a list"):
            free.at("a").value = 1
        assert len(sent.commits) == 1
