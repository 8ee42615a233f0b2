"""Reads and writes through links: chains, redirects, what has no target, what leads in a circle, who is woken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import pytest

import headwater as hw
from headwater.cells import traverse
from headwater.errors import AddressError, ConflictError, LimitError, SchemaError, SpaceNotOpenError
from tests.cells.kit import ABSENT, DEEP, checks, depends, freeze, inside, link, put, stored, twice


@pytest.fixture
def app() -> hw.App:
    return hw.App("t")


@pytest.fixture
def space(app: hw.App) -> Iterator[hw.Space]:
    with app.open("memory:") as space:
        yield space


# --- following --------------------------------------------------------------------------------------------------


def test_a_link_reads_as_what_it_leads_to(space: hw.Space) -> None:
    put(space, "target", {"name": "Ann", "tags": ["a", "b"]})
    put(space, "a", link("target"))
    put(space, "b", link("target", "tags"))
    put(space, "c", link("target", "tags", 1))
    assert space.cell("a").value == {"name": "Ann", "tags": ["a", "b"]}
    assert space.cell("b").value == ["a", "b"]
    assert space.cell("c").value == "b"
    assert space.cell("b", list[str]).value == ["a", "b"]
    assert space.cell("c", str).value == "b"


def test_links_in_the_middle_of_a_path_are_followed(space: hw.Space) -> None:
    put(space, "target", {"deep": {"name": "Ann"}})
    put(space, "a", {"x": link("target", "deep")})
    put(space, "b", link("a"))
    assert space.cell("b").at("x", "name").value == "Ann"
    assert space.cell("b/x/name", str).value == "Ann"
    assert space.cell("a/x").exists
    assert not space.cell("a/x/nothing").exists


def test_a_chain_of_links_is_followed_to_its_end(space: hw.Space) -> None:
    put(space, "n0", "end")
    for n in range(1, 60):
        put(space, f"n{n}", link(f"n{n - 1}"))
    assert space.cell("n59").value == "end"


def test_a_chain_that_is_too_long_is_told_of(space: hw.Space) -> None:
    put(space, "n0", "end")
    for n in range(1, 70):
        put(space, f"n{n}", link(f"n{n - 1}"))
    with pytest.raises(AddressError, match=r"followed 64 links to n\d without reaching a value"):
        _ = space.cell("n69").value


def test_a_link_without_an_id_means_its_own_document(space: hw.Space) -> None:
    put(space, "doc", {"here": 5, "there": link(None, "here")})
    assert space.cell("doc/there").value == 5
    assert space.cell("doc").value == {"here": 5, "there": 5}


def test_the_same_link_may_be_passed_twice_on_the_way_down(space: hw.Space) -> None:
    # x/b/c: x leads to b, in which b leads back to x, of which c is asked for.
    put(space, "a", {"x": link("b")})
    put(space, "b", {"b": link("a", "x"), "c": "found"})
    assert space.cell("a").at("x", "b", "c").value == "found"
    assert space.cell("a").at("x", "b", "b", "b", "c").value == "found"


def test_values_without_a_type_are_read_through_links_at_any_depth(space: hw.Space) -> None:
    put(space, "one", {"list": [1, link("two")], "map": {"x": link("two", "b")}})
    put(space, "two", {"b": [link("three"), 2]})
    put(space, "three", "end")
    assert space.cell("one").value == {"list": [1, {"b": ["end", 2]}], "map": {"x": ["end", 2]}}


@dataclass
class Note:
    title: str
    tags: list[str]


class Row(TypedDict):
    note: Note
    count: int


def test_values_of_a_type_are_read_through_links_where_the_type_has_none(space: hw.Space) -> None:
    put(space, "row", {"note": link("note"), "count": link("count")})
    put(space, "note", {"title": link("title"), "tags": ["a", link("title")]})
    put(space, "title", "milk")
    put(space, "count", 3)
    assert space.cell("row", Row).value == {"note": Note("milk", ["a", "milk"]), "count": 3}
    assert space.cell("row", Row).at("note", "tags", 1).value == "milk"


def test_a_malformed_link_is_a_value(space: hw.Space) -> None:
    odd = {"/": {"link@1": 5}}
    put(space, "odd", {"a": odd})
    put(space, "odder", odd)
    assert space.cell("odd").value == {"a": odd}
    assert space.cell("odder").value == odd
    with pytest.raises(SchemaError, match=r"cannot read odder: expected str, got .*"):
        _ = space.cell("odder", str).value
    space.cell("odder").value = 5
    assert space.cell("odder").value == 5


def test_a_link_into_a_space_that_is_not_open_is_not_followed(space: hw.Space) -> None:
    put(space, "far", {"/": {"link@1": {"id": "x", "space": "elsewhere"}}})
    with pytest.raises(SpaceNotOpenError, match=r"x is in the space elsewhere, which is not open in this program"):
        _ = space.cell("far").value


# --- missing targets and circles --------------------------------------------------------------------------------


def test_a_missing_target_reads_as_absent(space: hw.Space) -> None:
    put(space, "a", {"gone": link("nowhere"), "part": link("target", "x", "y"), "list": [1, link("nowhere"), 2]})
    put(space, "target", {"x": 5})
    assert space.cell("a").value == {"list": [1, None, 2]}
    assert space.cell("a/gone").value is None
    assert not space.cell("a/gone").exists
    assert space.cell("a/part").value is None
    assert space.cell("a/gone", int, default=7).value == 7
    with pytest.raises(SchemaError, match=r"a/gone has no value yet"):
        _ = space.cell("a/gone", int).value
    with pytest.raises(SchemaError, match=r"cannot read a/list/1: expected int, got None"):
        _ = space.cell("a/list", list[int]).value


def test_a_whole_that_is_missing_behind_a_link_has_its_default_and_so_have_its_parts(space: hw.Space) -> None:
    put(space, "a", link("nowhere"))
    cell = space.cell("a", dict[str, list[int]], default={"x": [1]})
    assert cell.value == {"x": [1]}
    assert cell.key("x").value == [1]
    assert cell.key("x").at(0).value == 1
    cell.key("x").append(2)
    assert stored(space, "a") == link("nowhere")
    assert stored(space, "nowhere") == {"x": [1, 2]}
    assert cell.value == {"x": [1, 2]}


CIRCLES: dict[str, dict[str, Any]] = {
    "itself": {"a": link("a")},
    "two": {"a": link("b"), "b": link("a")},
    "three": {"a": link("b"), "b": link("c"), "c": link("a")},
    "into-itself": {"a": link("a", "x")},
    "deeper-each-time": {"a": {"x": link("a", "x", "y")}, "b": 1},
    "redirects": {"a": link("b", redirect=True), "b": link("a", redirect=True)},
    "through-a-list": {"a": [link("b", 0)], "b": [link("a", 0)]},
    "relative": {"a": {"x": link(None, "y"), "y": link(None, "x")}},
}


@pytest.mark.parametrize("name", CIRCLES)
def test_links_that_lead_in_a_circle_read_as_absent(space: hw.Space, name: str) -> None:
    for doc, value in CIRCLES[name].items():
        put(space, doc, value)
    found = space.cell("a").value
    assert found in (None, {}, [None])
    for path in ("a/x", "a/0"):
        assert space.cell(path).value is None
    assert space.cell("a/x", int, default=3).value == 3
    assert not space.cell("a/x").exists


@pytest.mark.parametrize("name", ["itself", "two", "three", "into-itself"])
def test_a_circle_of_plain_links_is_mended_by_writing(space: hw.Space, name: str) -> None:
    for doc, value in CIRCLES[name].items():
        put(space, doc, value)
    with pytest.raises(AddressError, match=r"cannot write a/x: the links on its path form a cycle or leave its scope"):
        space.cell("a/x").value = 1
    with pytest.raises(AddressError, match=r"form a cycle"):
        space.cell("a", list).append(1)
    space.cell("a").value = 5
    assert space.cell("a").value == 5


def test_a_circle_of_redirects_cannot_be_written_through(space: hw.Space) -> None:
    put(space, "b", link("a", redirect=True))
    put(space, "a", link("b", redirect=True))
    with pytest.raises(AddressError, match=r"cannot write a: the links on its path form a cycle"):
        space.cell("a").value = 5


def test_values_that_contain_themselves_are_cut_where_they_come_back(space: hw.Space) -> None:
    put(space, "a", {"name": "a", "me": link("a"), "b": link("b")})
    put(space, "b", {"name": "b", "back": [link("a"), link("b"), 1]})
    assert space.cell("a").value == {"name": "a", "b": {"name": "b", "back": [None, None, 1]}}
    assert space.cell("b").value == {"name": "b", "back": [{"name": "a"}, None, 1]}


def test_a_link_to_what_it_is_part_of_is_cut_wherever_that_stands(space: hw.Space) -> None:
    put(space, "a", {"x": {"n": 1, "up": link("a", "x")}, "top": link("a")})
    assert space.cell("a").value == {"x": {"n": 1}}
    assert space.cell("a/x").value == {"n": 1}


def test_a_target_that_is_reached_twice_is_read_twice(space: hw.Space) -> None:
    put(space, "shared", {"n": 1})
    put(space, "a", {"x": link("shared"), "y": [link("shared"), link("shared", "n")]})
    assert space.cell("a").value == {"x": {"n": 1}, "y": [{"n": 1}, 1]}


def test_a_value_that_is_shared_over_and_over_is_refused_before_it_fills_the_memory(
    space: hw.Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traverse, "LINKS_MAX", 2_000)
    put(space, "n0", 1)
    for n in range(1, 41):
        put(space, f"n{n}", [link(f"n{n - 1}"), link(f"n{n - 1}")])
    assert space.cell("n3").value == [[[1, 1], [1, 1]], [[1, 1], [1, 1]]]
    with pytest.raises(LimitError, match=r"followed 2,000 links below n40: .* or read a part of it"):
        _ = space.cell("n40").value
    assert space.cell("n40").at(*[1] * 40).value == 1


def test_a_tangle_of_documents_is_refused_with_the_way_out(space: hw.Space, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traverse, "LINKS_MAX", 2_000)
    names = [f"n{n}" for n in range(14)]
    for name in names:
        put(space, name, {other: link(other) for other in names})
    with pytest.raises(LimitError, match=r"followed [\d,]+ links below n0: .* give it a type"):
        _ = space.cell("n0").value


# --- writing ----------------------------------------------------------------------------------------------------


def test_a_write_replaces_a_plain_link(space: hw.Space) -> None:
    put(space, "target", 1)
    put(space, "a", {"x": link("target")})
    space.cell("a/x").value = 2
    assert stored(space, "target") == 1
    assert stored(space, "a") == {"x": 2}
    with space.transaction():
        space.cell("a/x").value = link("target")
    assert space.cell("a/x").value == 1


def test_a_write_goes_through_a_redirect_to_its_target(space: hw.Space) -> None:
    put(space, "target", {"v": 1})
    put(space, "second", link("target", "v", redirect=True))
    put(space, "a", {"x": link("second", redirect=True)})
    space.cell("a/x").value = 2
    assert stored(space, "target") == {"v": 2}
    with space.transaction():
        space.cell("a/x", int).increment()
        space.cell("a/x").update(lambda old: old + 1)  # type: ignore[operator]
    assert stored(space, "target") == {"v": 4}
    assert stored(space, "a") == {"x": link("second", redirect=True)}
    space.cell("a/x").clear()
    assert stored(space, "target") == {}


def test_a_redirect_that_meets_a_plain_link_replaces_that(space: hw.Space) -> None:
    put(space, "target", 1)
    put(space, "middle", link("target"))
    put(space, "a", link("middle", redirect=True))
    assert space.cell("a").value == 1
    space.cell("a").value = 2
    assert stored(space, "middle") == 2
    assert stored(space, "target") == 1


@pytest.mark.parametrize("redirect", [False, True])
def test_a_write_below_a_link_lands_in_the_target(space: hw.Space, redirect: bool) -> None:
    put(space, "target", {"n": 1, "list": [1]})
    put(space, "a", {"x": link("target", redirect=redirect)})
    space.cell("a").at("x", "n").value = 2
    space.cell("a").at("x", "new", "deep").value = 3
    space.cell("a").at("x", "list", type=list).append(4)
    space.cell("a").at("x", "list", 0).clear()
    assert stored(space, "target") == {"n": 2, "new": {"deep": 3}, "list": [4]}
    assert stored(space, "a") == {"x": link("target", redirect=redirect)}


@pytest.mark.parametrize("redirect", [False, True])
def test_an_edit_of_a_linked_list_edits_the_target(space: hw.Space, redirect: bool) -> None:
    put(space, "target", [1])
    put(space, "a", link("target", redirect=redirect))
    space.cell("a", list).append(2)
    space.cell("a", list).insert(0, 0)
    space.cell("a", list).remove(1)
    assert stored(space, "target") == [0, 2]


def test_a_write_to_a_missing_target_makes_it(space: hw.Space) -> None:
    put(space, "a", {"x": link("nowhere"), "y": link("new", redirect=True)})
    space.cell("a").at("x", "n").value = 1
    space.cell("a").at("y").value = 2
    assert stored(space, "nowhere") == {"n": 1}
    assert stored(space, "new") == 2


def test_clearing_a_link_leaves_its_target(space: hw.Space) -> None:
    put(space, "target", 1)
    put(space, "a", {"x": link("target")})
    space.cell("a/x").clear()
    assert stored(space, "a") == {}
    assert stored(space, "target") == 1


def test_deleting_a_document_leaves_the_links_to_it(space: hw.Space) -> None:
    put(space, "target", 1)
    put(space, "a", link("target"))
    hw.delete(space.cell("target"))
    assert stored(space, "target") is ABSENT
    assert space.cell("a").value is None
    put(space, "target", 2)
    assert space.cell("a").value == 2


def test_writes_are_seen_through_links_within_the_transaction(space: hw.Space) -> None:
    put(space, "target", {"n": 1})
    put(space, "a", link("target"))
    with space.transaction():
        space.cell("a/n").value = 2
        assert space.cell("target").value == {"n": 2}
        put(space, "other", {"n": 9})
        put(space, "a", link("other"))
        assert space.cell("a/n").value == 9
        space.cell("a").at("n").value = 10
    assert stored(space, "target") == {"n": 2}
    assert stored(space, "other") == {"n": 10}


# --- the journal ------------------------------------------------------------------------------------------------


def test_every_hop_is_in_the_journal(space: hw.Space) -> None:
    put(space, "target", {"deep": {"n": 1}, "other": 2})
    put(space, "middle", {"m": link("target", "deep"), "other": 3})
    put(space, "a", {"x": link("middle", "m"), "other": 4})
    with space.transaction() as tx:
        assert space.cell("a").at("x", "n").value == 1
        hops = {("a", ("x",), DEEP), ("middle", ("m",), DEEP), ("target", ("deep", "n"), DEEP)}
        assert hops <= depends(tx)
        assert {(doc, path[0]) for doc, path, _ in depends(tx)} == {("a", "x"), ("middle", "m"), ("target", "deep")}
        assert hops <= checks(tx)


def test_what_a_value_holds_through_links_is_in_the_journal(space: hw.Space) -> None:
    put(space, "target", {"n": 1})
    put(space, "a", {"list": [link("target")]})
    with space.transaction() as tx:
        assert space.cell("a").value == {"list": [{"n": 1}]}
        assert depends(tx) == {("a", (), DEEP), ("target", (), DEEP)}


def test_a_missing_target_is_in_the_journal(space: hw.Space) -> None:
    put(space, "a", link("nowhere"))
    with space.transaction() as tx:
        assert space.cell("a").value is None
        assert {doc for doc, _, _ in depends(tx)} == {"a", "nowhere"}


def test_a_circle_is_in_the_journal(space: hw.Space) -> None:
    put(space, "a", link("b"))
    put(space, "b", link("a"))
    with space.transaction() as tx:
        assert space.cell("a").value is None
        assert {doc for doc, _, _ in depends(tx)} == {"a", "b"}


def test_a_write_below_a_link_conflicts_with_turning_the_link(app: hw.App, tmp_path: Path) -> None:
    with twice(app, tmp_path) as (one, two):
        put(two, "a", link("old"))
        two.sync()
        one.settle()
        with two.transaction() as tx:
            two.cell("a/n").value = 1
            assert depends(tx) == set()
            put(one, "a", link("new"))
            one.sync()
        with pytest.raises(ConflictError):
            two.sync()
        with inside(one):
            assert stored(one, "old") is ABSENT


# --- waking -----------------------------------------------------------------------------------------------------


def test_turning_a_link_elsewhere_wakes_who_followed_it() -> None:
    app = hw.App("wake")
    source: hw.Cell[Any] = app.cell("source", None)
    runs: list[object] = []
    shown: list[Any] = []

    @app.computed
    def name() -> str:
        runs.append(source.at("who", "name").value)
        return str(source.at("who", "name").value)

    @app.sink
    def show() -> None:
        shown.append(name())

    with app.open("memory:") as space:
        put(space, "ann", {"name": "Ann", "age": 30})
        put(space, "bob", {"name": "Bob"})
        source.value = {"who": link("ann"), "note": 1}
        assert shown[-1] == "Ann"
        before = len(runs)
        space.cell("ann/age").value = 31
        space.cell("bob/name").value = "Bobby"
        source.at("note").value = 2
        assert len(runs) == before
        space.cell("ann/name").value = "Anna"
        assert shown[-1] == "Anna"
        source.at("who").value = link("bob")
        assert shown[-1] == "Bobby"
        before = len(runs)
        space.cell("ann/name").value = "nobody's"
        assert len(runs) == before
        hw.delete(space.cell("bob"))
        assert shown[-1] == "None"
        put(space, "bob", {"name": "again"})
        assert shown[-1] == "again"


def test_a_link_that_is_turned_to_an_equal_value_runs_the_follower_and_nobody_below_it() -> None:
    app = hw.App("wake")
    source: hw.Cell[Any] = app.cell("source", None)
    runs = {"name": 0, "show": 0}

    @app.computed
    def name() -> str:
        runs["name"] += 1
        return str(source.value)

    @app.sink
    def show() -> None:
        runs["show"] += 1
        name()

    with app.open("memory:") as space:
        put(space, "one", "same")
        put(space, "two", "same")
        source.value = link("one")
        before = dict(runs)
        source.value = link("two")
        assert runs == {"name": before["name"] + 1, "show": before["show"]}


def test_links_are_leaves_that_compare_by_where_they_lead(space: hw.Space) -> None:
    assert freeze(link("a")) == link("a")
    assert link("a") != link("a", redirect=True)
    with space.transaction() as tx:
        put(space, "a", link("b"))
        put(space, "a", link("b"))
        assert tx.has_writes
