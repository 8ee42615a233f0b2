"""Wide containers behave as the dict or list they stand for, and their chunks stay in bounds."""

from __future__ import annotations

import copy
import pickle
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import FrozenError
from headwater.values import chunked
from headwater.values.chunked import ChunkedList, ChunkedMap, common_ends
from headwater.values.frozen import FrozenDict, FrozenList
from headwater.values.tree import drop_key, freeze, put_index, put_key, splice
from headwater.values.value_limits import CHUNK_MAX, CHUNKED_FROM, CHUNKED_UNTIL
from tests.values.strategies import values
from tests.values.widths import tiny_chunks

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from headwater.values.tree import Map, Value

sources = st.randoms(use_true_random=True)


def check_chunks(chunks: list[list[Value]] | list[dict[str, Value]]) -> None:
    """No chunk empty or too long, and no two neighbours that could well be one."""
    lengths = [len(chunk) for chunk in chunks]
    assert all(0 < length <= chunked._HALF * 2 for length in lengths)
    assert all(left + right > chunked._HALF for left, right in pairwise(lengths))


def check_map(made: ChunkedMap, model: dict[str, Value]) -> None:
    check_chunks(made.chunks())
    assert made._firsts == [next(iter(chunk)) for chunk in made.chunks()]
    ordered = sorted(model)
    assert len(made) == len(model)
    assert list(made) == ordered
    assert list(reversed(made)) == ordered[::-1]
    assert list(made.items()) == [(key, model[key]) for key in ordered]
    assert list(made.values()) == [model[key] for key in ordered]
    assert list(made.keys()) == ordered
    assert list(made.flat()) == ordered
    assert made == model == made
    assert made == ChunkedMap.of(dict(sorted(model.items())))
    assert made != {**model, "another": 1}
    assert made != dict.fromkeys(model, "others")


def check_list(made: ChunkedList, model: list[Value]) -> None:
    check_chunks(made._chunks)
    assert len(made) == len(model)
    assert list(made) == made.flat() == model
    assert list(reversed(made)) == model[::-1]
    assert [made[index] for index in range(-len(model), len(model))] == model + model
    assert made == model == made
    assert made == ChunkedList.of(model)
    assert made != [*model, 1]
    assert made != [*model[:-1], "another"]
    for index in (len(model), -len(model) - 1):
        with pytest.raises(IndexError):
            made[index]


@given(sources)
def test_wide_map_is_the_dict_it_stands_for_through_any_puts_and_drops(random: Random) -> None:
    with tiny_chunks():
        model: dict[str, Value] = {f"{n:02}": n for n in random.sample(range(40), 12)}
        made = ChunkedMap.of(dict(sorted(model.items())))
        for turn in range(60):
            if random.random() < random.choice([0.2, 0.8]) or len(model) < 3:
                key = f"{random.randrange(40):02}"
                made, model = made.put(key, turn), {**model, key: turn}
            else:
                key = random.choice(sorted(model))
                made = made.drop(key)
                del model[key]
            check_map(made, model)
            absent = f"{random.randrange(40, 50)}"
            assert key in made if key in model else key not in made
            assert absent not in made
            assert made.get(absent, "none") == "none"


@given(sources)
def test_wide_list_is_the_list_it_stands_for_through_any_splices_and_puts(random: Random) -> None:
    with tiny_chunks():
        model: list[Value] = list(range(random.randint(1, 30)))
        made = ChunkedList.of(model)
        for turn in range(40):
            index = random.randint(0, len(model))
            delete = random.choice([0, 0, 1, 1, 3, 9])
            delete = min(delete, len(model) - index)
            items = [f"{turn}.{n}" for n in range(random.choice([0, 1, 1, 2, 5, 12]))]
            if len(model) - delete + len(items) < 1:
                continue
            made = made.splice(index, delete, items)
            model = model[:index] + items + model[index + delete :]
            check_list(made, model)
            place = random.randrange(len(model))
            made = made.put(place, "put")
            model[place] = "put"
            check_list(made, model)
            start, stop = random.randint(-9, 40), random.randint(-9, 40)
            assert made[start:stop] == model[start:stop]
            assert made[::-2] == model[::-2]
            assert made.index("put") == model.index("put")
            assert made.index("put", place) == model.index("put", place)
            assert made.index("put", place, place + 1) == place
            with pytest.raises(ValueError, match="not in list"):
                made.index("put", 0, model.index("put"))
            assert made.count("put") == model.count("put")
            if len(model) > 40:
                model = model[:9]
                made = ChunkedList.of(model)


@given(sources)
def test_update_shares_all_chunks_but_those_around_it(random: Random) -> None:
    with tiny_chunks():
        made = ChunkedMap.of({f"{n:02}": n for n in range(60)})
        key = f"{random.randrange(70):02}"
        for other in (made.put(key, "x"), made.drop(key) if key in made else made):
            shared = {id(chunk) for chunk in made.chunks()} & {id(chunk) for chunk in other.chunks()}
            assert len(shared) >= len(made.chunks()) - 2
        row = ChunkedList.of(list(range(60)))
        place = random.randrange(60)
        for changed in (row.put(place, "x"), row.splice(place, 1, ()), row.splice(place, 0, ["x"])):
            shared = {id(chunk) for chunk in row._chunks} & {id(chunk) for chunk in changed._chunks}
            assert len(shared) >= len(row._chunks) - 3


@given(sources)
def test_containers_become_wide_and_narrow_again_without_anyone_noticing(random: Random) -> None:
    with tiny_chunks():
        made: Map = FrozenDict()
        model: dict[str, Value] = {}
        for turn in range(40):
            key = f"{random.randrange(12):02}"
            if key in model and random.random() < 0.6:
                made = drop_key(made, key)
                del model[key]
            else:
                made, model = put_key(made, key, turn), {**model, key: turn}
            assert made == model == made
            assert list(made) == sorted(model)
            assert isinstance(made, FrozenDict) or len(made) >= 2
            assert isinstance(made, ChunkedMap) or len(made) <= 4


def test_width_changes_at_the_limits_and_does_not_flip() -> None:
    narrow = freeze({f"{n:04}": n for n in range(CHUNKED_FROM)})
    assert isinstance(narrow, FrozenDict)
    wide_map = put_key(narrow, "x", 1)
    assert isinstance(wide_map, ChunkedMap)
    assert isinstance(drop_key(wide_map, "x"), ChunkedMap)
    for n in range(CHUNKED_FROM - CHUNKED_UNTIL + 1):
        assert isinstance(wide_map, ChunkedMap)
        wide_map = drop_key(wide_map, f"{n:04}")
    assert len(wide_map) == CHUNKED_UNTIL
    assert isinstance(wide_map, ChunkedMap)
    assert isinstance(drop_key(wide_map, "x"), FrozenDict)

    short = freeze(list(range(CHUNKED_FROM)))
    assert isinstance(short, FrozenList)
    assert isinstance(splice(short, 0, 1, ["x"]), FrozenList)
    long = splice(short, CHUNKED_FROM, 0, [1])
    assert isinstance(long, ChunkedList)
    assert isinstance(splice(long, 0, CHUNKED_FROM + 1 - CHUNKED_UNTIL, ()), ChunkedList)
    assert isinstance(splice(long, 0, CHUNKED_FROM + 2 - CHUNKED_UNTIL, ()), FrozenList)
    assert put_index(long, 700 % len(long), "x")[700 % len(long)] == "x"


@pytest.mark.parametrize("order", [sorted, lambda keys: sorted(keys, reverse=True), lambda keys: keys])
def test_row_of_a_map_stays_short_in_whatever_order_keys_come(order: Callable[[list[str]], list[str]]) -> None:
    keys = [f"{n * 7919 % 5000:05}" for n in range(5000)]
    made: Map = FrozenDict()
    for key in order(keys):
        made = put_key(made, key, key)
    assert isinstance(made, ChunkedMap)
    check_map(made, {key: key for key in keys})
    assert len(made.chunks()) <= 5000 // (CHUNK_MAX // 2) + 2


def test_keys_that_descend_into_a_gap_do_not_leave_a_chunk_each() -> None:
    made = ChunkedMap.of({f"a{n:04}": n for n in range(600)} | {"z": 1})
    for n in reversed(range(600)):
        made = made.put(f"b{n:04}", n)
    check_chunks(made.chunks())
    assert len(made.chunks()) < 20


def test_keys_put_in_order_fill_their_chunks() -> None:
    made = ChunkedMap.of({"0": 0})
    for n in range(2000):
        made = made.put(f"a{n:04}", n)
    assert [len(chunk) for chunk in made.chunks()[:-1]] == [CHUNK_MAX] * (2001 // CHUNK_MAX)


def test_queue_that_grows_at_the_end_and_shrinks_at_the_front_stays_in_bounds() -> None:
    made = ChunkedList.of(list(range(1000)))
    model: list[Value] = list(range(1000))
    for turn in range(2000):
        made = made.splice(0, 1, ()).splice(len(made) - 1, 0, [turn])
        model = [*model[1:], turn]
    check_list(made, model)
    assert len(made._chunks) <= 1000 // (CHUNK_MAX // 2) + 2


def test_elements_appended_one_by_one_fill_their_chunks() -> None:
    made = ChunkedList.of([0])
    for n in range(1, 2000):
        made = made.splice(n, 0, [n])
    assert [len(chunk) for chunk in made._chunks[:-1]] == [CHUNK_MAX] * (2000 // CHUNK_MAX)


# --- as a dict, as a list -------------------------------------------------------------------------------------


def wide_map() -> ChunkedMap:
    made = freeze({f"{n:04}": n for n in range(600)})
    assert isinstance(made, ChunkedMap)
    return made


def wide_list() -> ChunkedList:
    made = freeze(list(range(600)))
    assert isinstance(made, ChunkedList)
    return made


def test_wide_map_has_every_method_of_a_dict() -> None:
    assert set(dir(dict)) - set(dir(ChunkedMap)) == {"fromkeys"}
    assert ChunkedMap.__reversed__ is not None


def test_wide_list_has_every_method_of_a_list() -> None:
    assert set(dir(list)) - set(dir(ChunkedList)) == set()


# ruff: noqa: RUF005  # concatenation is what is tested
def test_wide_containers_combine_like_the_built_in_ones() -> None:
    made, flat = wide_map(), wide_map().flat()
    assert made | {"x": 1} == flat | {"x": 1}
    assert {"x": 1, "0000": 9} | made == {"x": 1, "0000": 9} | flat
    assert FrozenDict({"x": 1}) | made == {"x": 1} | flat
    assert made | made == flat
    assert type(made.copy()) is dict
    for other in ([1], 1):
        with pytest.raises(TypeError):
            made | other
        with pytest.raises(TypeError):
            other | made
    row, plain = wide_list(), wide_list().flat()
    assert row + [1] == [*plain, 1]
    assert [1] + row == [1, *plain]
    assert FrozenList([1]) + row == [1, *plain]
    assert row + row == plain + plain == row * 2 == 2 * row
    assert type(row.copy()) is list
    for stranger in ((1,), 1):
        with pytest.raises(TypeError):
            row + stranger
        with pytest.raises(TypeError):
            stranger + row


def test_wide_map_is_found_nothing_in_by_what_is_no_key() -> None:
    made = wide_map()
    assert 3 not in made  # type: ignore[comparison-overlap]
    assert made.get(3) is None  # type: ignore[call-overload]
    with pytest.raises(KeyError):
        made[3]  # type: ignore[index]


def test_wide_map_equals_a_dict_in_any_order() -> None:
    made = wide_map()
    backwards = dict(reversed(made.flat().items()))
    assert made == backwards
    assert backwards == made
    assert made != [*made]
    assert made != dict.fromkeys(made, 0)


def test_wide_containers_are_unhashable_like_the_built_in_ones() -> None:
    for made in (wide_map(), wide_list()):
        with pytest.raises(TypeError, match="unhashable"):
            hash(made)


def test_wide_containers_refuse_to_be_changed_and_say_how_to_write() -> None:
    made, row = wide_map(), wide_list()
    with pytest.raises(FrozenError, match="Write through the cell"):
        made["x"] = 1
    with pytest.raises(FrozenError):
        del made["0000"]
    with pytest.raises(FrozenError):
        made |= {"x": 1}
    with pytest.raises(FrozenError):
        row[0] = 1
    with pytest.raises(FrozenError):
        row += [1]
    for refused in (made.clear, made.popitem, row.clear, row.sort, row.reverse, row.pop):
        with pytest.raises(FrozenError):
            refused()


def test_wide_containers_match_patterns() -> None:
    match wide_map():
        case {"0003": three}:
            assert three == 3
        case _:
            pytest.fail("a wide map matches the patterns of a dict")
    match wide_list():
        case [first, *_]:
            assert first == 0
        case _:
            pytest.fail("a wide list matches the patterns of a list")


def test_copies_of_wide_containers_are_themselves_and_pickled_ones_equal() -> None:
    for made in (wide_map(), wide_list()):
        assert copy.copy(made) is made
        assert copy.deepcopy(made) is made
        again = pickle.loads(pickle.dumps(made))  # noqa: S301  # made here
        assert type(again) is type(made)
        assert again == made
        assert "600" in repr(made)


@given(st.lists(values, min_size=1, max_size=9))
def test_equality_of_wide_containers_is_that_of_their_contents(items: list[Value]) -> None:
    with tiny_chunks():
        row = ChunkedList.of(items)
        assert row == ChunkedList.of(items).splice(0, 1, items[:1])
        assert (ChunkedList.of([*items, 1]) == ChunkedList.of([1, *items])) == ([*items, 1] == [1, *items])
        keyed = {f"{n}": item for n, item in enumerate(items)}
        assert ChunkedMap.of(keyed) == ChunkedMap.of(keyed).put("0", "other").put("0", items[0])


@given(st.data())
def test_common_ends_are_those_of_the_elements(data: st.DataObject) -> None:
    with tiny_chunks():
        pool: list[Value] = [FrozenList([number]) for number in range(3)]
        elements = st.lists(st.sampled_from(pool), max_size=30)
        old = freeze(data.draw(elements))
        new = old
        for _ in range(data.draw(st.integers(0, 3))):
            at = data.draw(st.integers(0, len(new)))
            new = splice(new, at, data.draw(st.integers(0, len(new) - at)), data.draw(elements))
        start, end = common_ends(old, new)
        one, other = list(old), list(new)
        assert start + end <= min(len(one), len(other))
        assert all(x is y for x, y in zip(one[:start], other[:start], strict=True))
        assert all(one[-place] is other[-place] for place in range(1, end + 1))
        if start + end < min(len(one), len(other)):
            assert one[start] is not other[start]
            assert one[-end - 1] is not other[-end - 1]
