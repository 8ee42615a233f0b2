"""Links: written, read back, and followed; missing targets, cycles and nonsense end the chain without harm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import AddressError
from headwater.values.address import Address, doc_key, split_key, user_scope
from headwater.values.codec import decode, encode
from headwater.values.ids import DocId, DocKey, SpaceId
from headwater.values.link import End, LinkRecord, follow, link_to, parse_link, target, write_target
from headwater.values.tree import ABSENT, freeze, get, is_link
from headwater.values.value_limits import KEY_BYTES_MAX, LINK_HOPS_MAX
from tests.values.strategies import link_records, maybes, paths
from tests.values.widths import at_both_widths

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.values.tree import Maybe, Path

HERE = Address(doc_key("here"), ("a", 0), SpaceId("home"))


def reader(**docs: Any) -> Callable[[Address], Maybe]:
    """Documents of the space's own scope, by id."""
    frozen = {doc_key(name): freeze(value) for name, value in docs.items()}
    return lambda at: get(frozen.get(at.doc, ABSENT), at.path)


def link(doc: str | None = None, *path: str | int, redirect: bool = False) -> Any:
    return LinkRecord(doc=None if doc is None else DocId(doc), path=path, redirect=redirect).to_value()


def at(doc: str, *path: str | int) -> Address:
    return Address(doc_key(doc), path)


# --- as values ------------------------------------------------------------------------------------------------


@given(link_records)
def test_link_is_read_back_from_its_value(record: LinkRecord) -> None:
    value = record.to_value()
    assert is_link(value)
    assert parse_link(value) == record
    assert parse_link(decode(encode(value))) == record
    assert freeze(value) is value


def test_link_holds_only_the_fields_it_has() -> None:
    assert LinkRecord().to_value() == {"/": {"link@1": {}}}
    body = {"path": ["a"], "overwrite": "redirect"}
    assert LinkRecord(path=("a",), redirect=True).to_value() == {"/": {"link@1": body}}
    assert link_to(DocKey("space/x")).to_value() == {"/": {"link@1": {"id": "x", "scope": "space"}}}


@at_both_widths
@given(maybes)
def test_only_links_are_links(value: Maybe) -> None:
    assert parse_link(value) is None or is_link(value)


@given(link_records)
def test_fields_that_are_not_known_are_left_alone(record: LinkRecord) -> None:
    body = dict(record.to_value()["/"]["link@1"])  # type: ignore[index,call-overload,arg-type]
    labelled = freeze({"/": {"link@1": {**body, "schema": {"type": "number"}, "label": 1}}})
    assert parse_link(labelled) == record


@pytest.mark.parametrize(
    "body",
    [
        *(5, None, "x", [], [["id", "x"]]),
        *({"id": 5}, {"id": ""}, {"id": ["x"]}, {"id": "x" * (KEY_BYTES_MAX + 1)}),
        *({"path": "a"}, {"path": {"0": "a"}}, {"path": [None]}, {"path": [True]}, {"path": [1.0]}, {"path": [["a"]]}),
        *({"space": ""}, {"space": 1}, {"scope": ""}, {"scope": "users"}, {"scope": "user:"}, {"scope": 1}),
    ],
    ids=lambda body: str(body)[:30],
)
def test_malformed_link_is_no_link_to_follow_but_a_value(body: object) -> None:
    value = freeze({"/": {"link@1": body}})
    assert is_link(value)
    assert parse_link(value) is None
    resolved = follow(reader(d={"x": value}), at("d", "x"))
    assert resolved.end is End.VALUE
    assert resolved.value == value
    assert write_target(reader(d={"x": value}), at("d", "x")) == at("d", "x")


def test_path_longer_than_any_document_is_deep_leads_nowhere() -> None:
    assert parse_link(LinkRecord(path=("a",) * 513).to_value()) is None


# --- one hop --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "place"),
    [
        (LinkRecord(), ("here", (), "home")),
        (LinkRecord(path=("b", 1)), ("here", ("b", 1), "home")),
        (LinkRecord(doc=DocId("there")), ("there", (), "home")),
        (LinkRecord(doc=DocId("there"), path=("x",), space=SpaceId("away")), ("there", ("x",), "away")),
        (LinkRecord(space=SpaceId("away")), ("here", (), "away")),
    ],
)
def test_fields_left_out_are_those_of_where_the_link_stands(record: LinkRecord, place: tuple[str, Path, str]) -> None:
    doc, path, space = place
    assert target(record, HERE) == Address(doc_key(doc), path, SpaceId(space))


def test_scope_is_inherited_unless_the_link_names_one() -> None:
    mine = Address(doc_key("here", user_scope("ann")))
    assert target(LinkRecord(doc=DocId("x")), mine).doc == "user:ann/x"
    assert target(LinkRecord(doc=DocId("x"), scope="space"), mine).doc == "space/x"
    assert target(LinkRecord(scope="session:bob:1"), mine).doc == "session:bob:1/here"


def test_link_that_names_only_a_scope_leads_to_the_instance_of_who_follows_it() -> None:
    declared = LinkRecord(doc=DocId("draft"), scope="user")
    assert target(declared, HERE, lambda _name: user_scope("bob")).doc == "user:bob/draft"
    with pytest.raises(AddressError, match="is followed without a"):
        target(declared, HERE)


@given(st.sampled_from(["space/x", "user:ann/x", "session:a%2Fb:1/x/y"]), paths, st.booleans())
def test_absolute_link_means_the_same_wherever_it_stands(key: str, path: Path, redirect: bool) -> None:
    record = link_to(DocKey(key), path, redirect=redirect)
    assert record.redirect == redirect
    for stands in (HERE, Address(doc_key("other", user_scope("bob")), (), SpaceId("home"))):
        assert target(record, stands) == Address(DocKey(key), path, SpaceId("home"))
    scope, doc = split_key(DocKey(key))
    assert (record.doc, record.scope) == (doc, scope.text)


# --- chains ---------------------------------------------------------------------------------------------------


def test_chain_is_followed_to_its_value_and_every_hop_is_told() -> None:
    read = reader(a={"x": link("b", "y")}, b={"y": link("c")}, c={"v": 1})
    resolved = follow(read, at("a", "x"))
    assert resolved.end is End.VALUE
    assert resolved.address == at("c")
    assert resolved.value == {"v": 1}
    assert resolved.hops == (at("a", "x"), at("b", "y"))


def test_what_is_no_link_is_its_own_end() -> None:
    resolved = follow(reader(a=None), at("a"))
    assert (resolved.end, resolved.value, resolved.hops) == (End.VALUE, None, ())


def test_missing_target_reads_as_absent() -> None:
    for start in (at("a", "x"), at("a", "nothing"), at("nowhere")):
        resolved = follow(reader(a={"x": link("gone", "y")}), start)
        assert resolved.end is End.MISSING
        assert resolved.value is ABSENT


@pytest.mark.parametrize(
    ("docs", "hops"),
    [
        ({"a": {"x": link(None, "x")}}, 1),
        ({"a": {"x": link("a", "x")}}, 1),
        ({"a": {"x": link("b")}, "b": link("a", "x")}, 2),
        ({"a": {"x": link("b")}, "b": link("c"), "c": link("b")}, 3),
    ],
)
def test_cycle_reads_as_absent(docs: dict[str, Any], hops: int) -> None:
    resolved = follow(reader(**docs), at("a", "x"))
    assert resolved.end is End.CYCLE
    assert resolved.value is ABSENT
    assert len(resolved.hops) == hops


def test_same_place_in_another_scope_is_no_cycle() -> None:
    ann = doc_key("a", user_scope("ann"))
    docs = {doc_key("a"): LinkRecord(scope="user:ann").to_value(), ann: freeze("hers")}
    assert follow(lambda place: docs[place.doc], at("a")).value == "hers"


def test_longest_chain_is_followed_and_a_longer_one_refused() -> None:
    def chain(links: int) -> Callable[[Address], Maybe]:
        return reader(d=[*(link("d", n + 1) for n in range(links)), "end"])

    assert follow(chain(LINK_HOPS_MAX), at("d", 0)).value == "end"
    with pytest.raises(AddressError, match=f"followed {LINK_HOPS_MAX} links from d/0 without") as refused:
        follow(chain(LINK_HOPS_MAX + 1), at("d", 0))
    assert refused.value.facts["start"] == at("d", 0)


# --- writing --------------------------------------------------------------------------------------------------


def test_write_goes_on_through_redirects_and_stops_at_a_plain_link() -> None:
    read = reader(a={"x": link("b", redirect=True)}, b=link("c", "y", redirect=True), c={"y": link("d")}, d=1)
    assert write_target(read, at("a", "x")) == at("c", "y")
    assert write_target(read, at("c", "y")) == at("c", "y")
    assert follow(read, at("a", "x")).address == at("d")


def test_write_through_a_redirect_to_nothing_lands_where_it_points() -> None:
    assert write_target(reader(a=link("new", "k", redirect=True)), at("a")) == at("new", "k")


def test_write_into_a_cycle_of_redirects_is_refused_with_the_whole_chain() -> None:
    read = reader(a=link("b", "k", redirect=True), b={"k": link("a", redirect=True)})
    with pytest.raises(AddressError, match=r"cannot write a: .* form a cycle \(a -> b/k\)"):
        write_target(read, at("a"))


def test_cycle_of_plain_links_can_be_written_over() -> None:
    assert write_target(reader(a=link("a")), at("a")) == at("a")
