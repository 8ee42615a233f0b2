"""Addresses as keys and as text, scopes in their one spelling, and when paths overlap."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.errors import AddressError, NameRefusedError
from headwater.values.address import (
    SPACE_SCOPE,
    Address,
    Depth,
    Scope,
    address_text,
    doc_key,
    is_prefix,
    overlaps,
    parse_address,
    parse_far_address,
    parse_scope,
    path_text,
    session_scope,
    settle_path,
    split_key,
    user_scope,
)
from headwater.values.ids import DocKey, SessionId, SpaceId
from headwater.values.overlap import may_touch
from headwater.values.space_ids import space_id_from
from headwater.values.tree import ABSENT, freeze
from headwater.values.value_limits import KEY_BYTES_MAX
from tests.values.oracle import look, paths_of, thaw
from tests.values.strategies import depths, paths, values
from tests.values.widths import at_both_widths

if TYPE_CHECKING:
    from headwater.values.tree import Maybe, Path, Value

names = st.sampled_from(["a", "did:key:z6", "a/b", "a!b", "user:x!y", "space!z", "~", "%", "é", "😀", "\0"]) | st.text(
    min_size=1, max_size=8
)
space_ids = st.binary(min_size=16, max_size=16).map(space_id_from)
scopes = st.one_of(
    st.just(SPACE_SCOPE),
    st.builds(user_scope, names),
    st.builds(session_scope, names, names.map(SessionId)),
)


# --- scopes and keys ------------------------------------------------------------------------------------------


@given(scopes)
def test_scope_is_read_back_from_its_text(scope: Scope) -> None:
    assert parse_scope(scope.text) == scope
    assert "/" not in scope.text
    assert "!" not in scope.text


@given(scopes, scopes)
def test_scopes_are_equal_exactly_when_their_texts_are(a: Scope, b: Scope) -> None:
    assert (a == b) == (a.text == b.text)


@given(names, scopes)
def test_document_key_is_taken_apart_again(doc: str, scope: Scope) -> None:
    assert split_key(doc_key(doc, scope)) == (scope, doc)


@given(names, scopes, names, scopes)
def test_different_documents_have_different_keys(a: str, in_a: Scope, b: str, in_b: Scope) -> None:
    assert (doc_key(a, in_a) == doc_key(b, in_b)) == ((a, in_a) == (b, in_b))


@pytest.mark.parametrize(
    "text",
    [
        *("", "Space", "space:", "space:x", "user", "user:", "user::", "user:a:b", "users:a", " user:a", "user:a "),
        *("session:a", "session:a:", "session::b", "session:a:b:c", "user:a/b", "user:a b", "user:a!b", "user:é"),
        *("user:%61", "user:%2f", "user:%C3", "user:%", "user:%ff", "session:a:%62", "user:a%3ab"),
    ],
)
def test_scope_in_any_other_spelling_is_refused(text: str) -> None:
    with pytest.raises(NameRefusedError, match="is not a scope: space, user:NAME or session:NAME:ID"):
        parse_scope(text)


def test_percent_encoding_is_in_capitals_as_the_standard_has_it() -> None:
    assert user_scope("a/b:c").text == "user:a%2Fb%3Ac"
    assert parse_scope("user:a%2Fb%3Ac") == user_scope("a/b:c")


def test_scope_without_an_identity_is_refused() -> None:
    for user, session in (("", ""), ("", "s"), ("u", "")):
        with pytest.raises(NameRefusedError, match="is empty"):
            session_scope(user, SessionId(session))
    with pytest.raises(NameRefusedError, match="the user of a scope is empty"):
        user_scope("")
    with pytest.raises(NameRefusedError, match="the user of a scope is empty"):
        Scope(session="s")


@pytest.mark.parametrize(
    ("name", "reason"),
    [("", "is empty"), ("\ud800", "lone surrogate"), ("x" * (KEY_BYTES_MAX + 1), "4,097 bytes; at most 4,096")],
)
def test_name_that_cannot_be_stored_is_refused(name: str, reason: str) -> None:
    for refused in (doc_key, user_scope, lambda name: session_scope("u", name)):
        with pytest.raises(NameRefusedError, match=reason) as caught:
            refused(name)
        str(caught.value).encode()  # it can be printed
    if name:
        with pytest.raises(NameRefusedError, match=reason):
            Scope("u", name)
    assert doc_key("é" * (KEY_BYTES_MAX // 2))


# --- text -----------------------------------------------------------------------------------------------------


@at_both_widths
@given(names, scopes, values)
@example("user:x!y", SPACE_SCOPE, freeze({"": {"": [1]}}))
@example("spaceship!x", SPACE_SCOPE, freeze([]))
@example("a!b", user_scope("ann"), freeze([]))
def test_address_of_anything_is_read_back_from_its_text(doc: str, scope: Scope, value: Value) -> None:
    key = doc_key(doc, scope)
    for path in paths_of(thaw(value)):
        text = address_text(key, path)
        parsed, steps = parse_address(text)
        assert parsed == key
        assert settle_path(value, steps) == path


@given(names, scopes, paths)
def test_address_text_keeps_all_but_the_kind_of_a_step(doc: str, scope: Scope, path: Path) -> None:
    key = doc_key(doc, scope)
    parsed, steps = parse_address(address_text(key, path))
    assert parsed == key
    assert steps == tuple(map(str, path))


@given(names, scopes, paths, space_ids | st.just(SpaceId("")))
def test_an_address_that_names_its_space_is_read_back_from_its_text(
    doc: str, scope: Scope, path: Path, space: SpaceId
) -> None:
    key = doc_key(doc, scope)
    text = str(Address(key, path, space))
    assert text.startswith("hw://") == bool(space)
    assert parse_far_address(text) == (space, key, tuple(map(str, path)))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("hw://", "is not a space id"),
        ("hw://shop/cart", "is not a space id"),
        ("hw://7K3Q9D4M2X8V1N6P0C5R/cart", "small letters"),
        ("hw://7k3q9d4m2x8v1n6p0c5/cart", "is not a space id"),
        ("hw://7k3q9d4m2x8v1n6p0c5i/cart", "is not a space id"),
        ("hw://7k3q9d4m2x8v1n6p0c5r", "document after the space is missing"),
        ("hw://7k3q9d4m2x8v1n6p0c5r/", "document after the space is missing"),
        ("hw://7k3q9d4m2x8v1n6p0c5r/cart//x", "with ~1 for a slash"),
        ("hw://7k3q9d4m2x8v1n6p0c5r/user!cart", "does not say whose"),
        ("", "with ~1 for a slash"),
        ("cart/~2", "with ~1 for a slash"),
    ],
)
def test_a_text_that_is_no_address_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(AddressError, match=reason):
        parse_far_address(text)


@given(st.text(max_size=30) | st.text(max_size=30).map(lambda text: f"hw://7k3q9d4m2x8v1n6p0c5r/{text}"))
def test_any_text_is_an_address_or_refused_as_none(text: str) -> None:
    try:
        space, key, steps = parse_far_address(text)
    except AddressError:
        return
    assert parse_far_address(str(Address(key, steps, space))) == (space, key, steps)


@given(paths, paths)
def test_path_texts_are_equal_exactly_when_the_steps_read_alike(a: Path, b: Path) -> None:
    assert (path_text(a) == path_text(b)) == ([*map(str, a)] == [*map(str, b)])


def test_addresses_look_as_people_write_them() -> None:
    assert address_text(doc_key("cart"), ("items", 3, "title")) == "cart/items/3/title"
    assert address_text(doc_key("cart", user_scope("ann")), ("a/b", "~", "")) == "user:ann!cart/a~1b/~0/~"
    assert address_text(doc_key("a/b!c")) == "space!a~1b!c"
    assert str(Address(doc_key("cart"), (0,))) == "cart/0"
    assert str(Address(doc_key("cart"), (0,), SpaceId("7k3q9d4m2x8v1n6p0c5r"))) == "hw://7k3q9d4m2x8v1n6p0c5r/cart/0"
    assert path_text(()) == ""
    assert path_text(("",)) == "~"


@pytest.mark.parametrize(
    ("text", "key", "steps"),
    [
        ("cart", "space/cart", ()),
        ("space!cart/0", "space/cart", ("0",)),
        ("user:ann!cart/a", "user:ann/cart", ("a",)),
        ("session:ann:7!cart", "session:ann:7/cart", ()),
        ("user:ann!a!b", "user:ann/a!b", ()),
        ("a!b", "space/a!b", ()),
        ("spaceship!x", "space/spaceship!x", ()),
        ("space!user!x", "space/user!x", ()),
        ("user:x", "space/user:x", ()),
        ("session:x/y", "space/session:x", ("y",)),
        ("of:abc/~", "space/of:abc", ("",)),
        ("d/~01/~1", "space/d", ("~1", "/")),
    ],
)
def test_address_text_means(text: str, key: str, steps: tuple[str, ...]) -> None:
    assert parse_address(text) == (key, steps)


@pytest.mark.parametrize(
    "text", ["", "/", "a/", "a//b", "/a", "user:ann!", "user:ann!/a", "a/~2", "a/b~", "~~", "a/~/~~"]
)
def test_text_that_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(NameRefusedError, match="is not an address: document/key/key is expected") as refused:
        parse_address(text)
    assert refused.value.facts["text"] == text


@pytest.mark.parametrize("text", ["user:a%2fb!x", "user:!x", "session:a!x", "~"])
def test_text_that_names_no_possible_document_is_refused(text: str) -> None:
    with pytest.raises(NameRefusedError):
        parse_address(text)


@pytest.mark.parametrize(
    ("value", "steps", "path"),
    [
        ([1], ("0",), (0,)),
        ([1], ("1", "0"), (1, "0")),
        ({"0": [[1]]}, ("0", "0", "0"), ("0", 0, 0)),
        ([1], ("-1",), ("-1",)),
        ([1], ("00",), ("00",)),
        ([1], ("01",), ("01",)),
        ([1], ("1_0",), ("1_0",)),
        ([1], ("٣",), ("٣",)),
        ([1], ("9" * 5000,), ("9" * 5000,)),
        (1, ("0",), ("0",)),
        ({"/": {"link@1": {}}}, ("/", "link@1"), ("/", "link@1")),
    ],
    ids=lambda part: str(part)[:20],
)
def test_digits_are_an_index_into_an_array_and_a_key_elsewhere(
    value: object, steps: tuple[str, ...], path: Path
) -> None:
    assert settle_path(freeze(value), steps) == path


def test_steps_into_nothing_stay_text() -> None:
    nothing: Maybe = ABSENT
    assert settle_path(nothing, ("0", "a")) == ("0", "a")


# --- overlap --------------------------------------------------------------------------------------------------


def is_slow_prefix(short: Path, long: Path) -> bool:
    return len(short) <= len(long) and all(a == b for a, b in zip(short, long, strict=False))


@st.composite
def near_paths(draw: st.DrawFn) -> tuple[Path, Path]:
    common = draw(paths)
    return common + draw(paths)[: draw(st.integers(0, 2))], common + draw(paths)[: draw(st.integers(0, 2))]


@given(near_paths(), depths)
def test_overlap_and_sight_are_what_the_plain_rules_say(pair: tuple[Path, Path], depth: Depth) -> None:
    a, b = pair
    assert is_prefix(a, b) == is_slow_prefix(a, b)
    assert overlaps(a, b) == overlaps(b, a) == (is_slow_prefix(a, b) or is_slow_prefix(b, a))
    at_most_one_below = len(b) <= len(a) + 1
    assert may_touch(a, depth, b) == (overlaps(a, b) and (depth is Depth.DEEP or at_most_one_below))
    assert may_touch(a, depth, b, reshaped=False) == (overlaps(a, b) and (depth is Depth.DEEP or len(b) <= len(a)))


@at_both_widths
@given(values, depths)
def test_read_sees_a_write_wherever_the_write_could_change_what_was_read(value: Value, depth: Depth) -> None:
    plain = thaw(value)
    places = paths_of(plain)
    for write in places[:12]:
        for read in places[:12]:
            inside = is_slow_prefix(read, write)
            if is_slow_prefix(write, read) or (inside and depth is Depth.DEEP):
                assert may_touch(read, depth, write)
            if inside and len(write) == len(read) + 1:
                # A key that appears or vanishes is seen by a shallow read of the map.
                assert look(plain, write) is not ABSENT
                assert may_touch(read, Depth.SHALLOW, write)


def test_key_and_index_are_different_steps() -> None:
    assert not overlaps(("a", 1), ("a", "1"))
    assert not is_prefix((1,), ("1", 2))


def test_split_key_refuses_what_no_document_key_is() -> None:
    with pytest.raises(NameRefusedError):
        split_key(DocKey("nowhere/doc"))


@pytest.mark.parametrize("text", ["user!x", "session!x/y"])
def test_scope_without_an_owner_is_refused_rather_than_taken_for_a_name(text: str) -> None:
    with pytest.raises(NameRefusedError, match="does not say whose"):
        parse_address(text)
