"""Records of collections: they come back as stored, name their indexes by content, and give each document its keys."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import CorruptError
from headwater.store.collection_record import (
    CollectionRecord,
    Index,
    changed_fields,
    doc_of,
    keys_of,
    kind_of,
    kind_of_index,
    moves_of,
    record_doc,
    record_of,
)
from headwater.store.index_field import IndexField
from headwater.values.address import doc_key, user_scope
from headwater.values.causal import derive_id
from headwater.values.ids import DocKey
from headwater.values.link import LinkRecord
from headwater.values.sortkey import Instant, fields_of
from headwater.values.tree import ABSENT, freeze, get, is_map, same
from tests.values.strategies import scalars, values

names = st.sampled_from(["state", "cents", "due"])
forms: Any = st.sampled_from(["plain", "float", "instant", "duration", "link"])
fields = st.builds(IndexField, names, forms, st.just(ABSENT) | values)
plain_indexes = st.builds(Index, st.lists(fields, min_size=1, max_size=4).map(tuple), st.booleans())
totals = st.builds(
    lambda by, of: Index((*by, *of), total=len(by)), st.lists(fields, max_size=4), st.lists(fields, max_size=1)
)
indexes = plain_indexes | totals
scopes: Any = st.sampled_from(["space", "user"])
records = st.builds(
    CollectionRecord,
    st.just("order"),
    scopes,
    st.lists(indexes, max_size=3).map(tuple),
    st.dictionaries(st.sampled_from(["other", "types"]), values).map(lambda rest: tuple(sorted(rest.items()))),
)
bodies = st.dictionaries(names | st.just("other"), scalars, max_size=4).map(freeze)
maybe_bodies = bodies | st.just(ABSENT)


def member(record: CollectionRecord, name: object = 1) -> DocKey:
    doc = derive_id("order", name) if isinstance(name, int) else f"order:{name}"
    return doc_key(doc) if record.scope == "space" else doc_key(doc, user_scope("an/n é"))


@given(records)
def test_record_comes_back_from_its_document(record: CollectionRecord) -> None:
    found = record_of(record.doc, freeze(record.to_value()))
    assert same(found.to_value(), record.to_value())
    assert [each.name for each in found.named] == [each.name for each in record.named]
    assert found.scope == record.scope


@given(indexes, indexes)
def test_equal_indexes_have_one_name_and_others_another(a: Index, b: Index) -> None:
    record_a, record_b = CollectionRecord("order", indexes=(a,)), CollectionRecord("order", indexes=(b,))
    assert (a.name("order") == b.name("order")) == same(record_a.to_value(), record_b.to_value())
    assert kind_of_index(a.name("order")) == "order"


def test_plain_index_is_named_by_its_fields_alone() -> None:
    plain = Index((IndexField("state"), IndexField("created")))
    assert plain.name("order") == "order#state,created"
    assert CollectionRecord("order").named[0].name == "order#"
    unique = Index((IndexField("number"),), unique=True)
    assert unique.name("order").startswith("order#number~")


@given(records, bodies, st.integers(0, 3) | st.text(min_size=1, max_size=3))
def test_keys_say_their_document_and_the_values_of_its_fields(record: CollectionRecord, body: Any, name: Any) -> None:
    doc = member(record, name)
    keys = keys_of(record, doc, body)
    assert [index for index, _ in keys] == [each.name for each in record.named]
    for _, key in keys:
        assert doc_of(record, key) == doc
    assert keys_of(record, doc, ABSENT) == []


@given(records, maybe_bodies, maybe_bodies)
def test_moves_are_the_differences_of_the_keys(record: CollectionRecord, before: Any, after: Any) -> None:
    doc = member(record)
    old, new = dict(keys_of(record, doc, before)), dict(keys_of(record, doc, after))
    expected = {(name, old.get(name), new.get(name)) for name in {**old, **new} if old.get(name) != new.get(name)}
    moves = moves_of(record, doc, before, after)
    assert {(move.index, move.before, move.after) for move in moves} == expected
    assert len(moves) == len(expected)


@given(values, values)
def test_changed_fields_are_those_whose_values_differ(before: Any, after: Any) -> None:
    found = changed_fields(before, after)
    if not is_map(before) or not is_map(after):
        assert found is None
        return
    assert found is not None
    for name in before.keys() | after.keys():
        assert (name in found) == (not same(get(before, (name,)), get(after, (name,))))


@pytest.mark.parametrize(
    ("doc", "kind"),
    [
        ("space/order:abc", "order"),
        ("user:ann/order:abc", "order"),
        ("space/order", ""),
        ("space/order:", ""),
        ("space/order:instance:abc", ""),
        ("space/order:abc+piece", ""),
        ("space/a/b:c", "a/b"),
    ],
)
def test_kind_is_the_first_word_of_an_id_with_one_name_after_it(doc: str, kind: str) -> None:
    assert kind_of(DocKey(doc)) == kind


def test_documents_of_another_scope_are_no_members() -> None:
    shared, own = CollectionRecord("order"), CollectionRecord("order", "user")
    for doc, members in (("space/order:a", [shared]), ("user:ann/order:a", [own]), ("session:ann:1/order:a", [])):
        for record in (shared, own):
            assert bool(keys_of(record, DocKey(doc), freeze({}))) == (record in members)
            assert bool(moves_of(record, DocKey(doc), ABSENT, freeze({}))) == (record in members)


def test_absent_field_has_its_default_in_the_index() -> None:
    record = CollectionRecord("order", indexes=(Index((IndexField("cents", default=0),)),))
    for body in ({}, {"cents": 0}):
        [_, (_, key)] = keys_of(record, member(record), freeze(body))
        assert fields_of(key) == (0,)


def test_forms_give_datetimes_links_and_floats_their_own_order() -> None:
    record = CollectionRecord(
        "order",
        indexes=(
            Index((IndexField("created", "instant"),)),
            Index((IndexField("customer", "link"),)),
            Index((IndexField("weight", "float"),)),
        ),
    )
    customer = derive_id("customer", 1)
    body = freeze(
        {"created": "1970-01-01T01:00:00.000005+01:00", "customer": LinkRecord(customer).to_value(), "weight": 3}
    )
    _, created, linked, weighed = keys_of(record, member(record), body)
    assert fields_of(created[1]) == (Instant(5),)
    assert fields_of(linked[1]) == (customer,)
    assert fields_of(weighed[1]) == (3.0,)


@pytest.mark.parametrize(
    "value",
    [
        ABSENT,
        None,
        [],
        {"kind": "other", "scope": "space", "indexes": []},
        {"kind": "order", "scope": "session", "indexes": []},
        {"kind": "order", "scope": "space"},
        {"kind": "order", "scope": "space", "indexes": [{"fields": [], "unique": 1}]},
        {"kind": "order", "scope": "space", "indexes": [{"fields": [{"name": "a", "form": "other"}], "unique": False}]},
        {"kind": "order", "scope": "space", "indexes": [{"fields": [], "unique": False, "total": 1}]},
        {"kind": "order", "scope": "space", "indexes": [{"fields": [], "unique": False, "total": -1}]},
        {"kind": "order", "scope": "space", "indexes": [{"fields": [], "unique": False, "total": "0"}]},
    ],
)
def test_document_that_holds_no_record_is_damage(value: Any) -> None:
    with pytest.raises(CorruptError, match="collection:order"):
        record_of(record_doc("order"), value if value is ABSENT else freeze(value))
