"""The index of readers: it finds whom the rule finds for each read alone, and looks at little else."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import pairwise
from random import Random
from threading import Event, Thread
from typing import NamedTuple

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from headwater.scheduler.graph.reader_index import ReaderIndex
from headwater.values.address import Depth, doc_key
from headwater.values.diff import changes_between
from headwater.values.ids import DocKey
from headwater.values.notifications import Change
from headwater.values.overlap import is_touched
from headwater.values.tree import ABSENT, Maybe, Path, Step, array_of, freeze, get, is_array, is_map, put_index, put_key
from tests.values.chance import some_document, some_edits, some_read, sources
from tests.values.oracle import thaw
from tests.values.strategies import maybes, paths, relatives, values
from tests.values.widths import at_both_widths, tiny_chunks

DOC, OTHER = doc_key("d"), doc_key("e")
MANY = 100_000


class Reader:
    """Known by its identity, as those of the product are."""

    def __init__(self, name: object) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<{self.name}>"


class Read(NamedTuple):
    doc: DocKey
    path: Path
    shallow: bool
    reader: Reader


class Pair:
    """The index and what it is compared with: a list of reads, of which each is asked by itself."""

    def __init__(self) -> None:
        self.index: ReaderIndex[Reader] = ReaderIndex()
        self.reads: list[Read] = []

    def add(self, read: Read) -> None:
        self.index.add(*read)
        if read not in self.reads:
            self.reads.append(read)

    def remove(self, read: Read) -> None:
        self.index.remove(*read)
        if read in self.reads:
            self.reads.remove(read)

    def check(self, change: Change) -> list[Reader]:
        found = self.index.match(change)
        assert len(found) == len(set(found))
        expected = {
            read.reader
            for read in self.reads
            if read.doc == change.doc and is_touched(read.path, Depth.SHALLOW if read.shallow else Depth.DEEP, change)
        }
        assert set(found) == expected, change
        return found

    def check_books(self) -> None:
        assert len(self.index) == len(self.reads)
        for doc in (DOC, OTHER):
            readers = self.index.of_doc(doc)
            assert len(readers) == len(set(readers))
            assert set(readers) == {read.reader for read in self.reads if read.doc == doc}
            assert (doc in self.index) is (doc in self.index.docs) is bool(readers)


@pytest.fixture(params=["usual-limits", "tiny-chunks"])
def either_width(request: pytest.FixtureRequest) -> Iterator[None]:
    """For `at_both_widths`."""
    with tiny_chunks() if request.param == "tiny-chunks" else nullcontext():
        yield


def some_reads(random: Random, readers: list[Reader], *versions: Maybe) -> Iterator[Read]:
    """Adds, at places in these versions of a document, or near."""
    plains = [thaw(version) for version in versions]
    while True:
        doc = DOC if random.random() < 0.9 else OTHER
        yield Read(doc, some_read(random, *plains), random.random() < 0.4, random.choice(readers))


def filled(random: Random, *versions: Maybe) -> Pair:
    """An index after adds and removes, some of them twice, some of what was never there."""
    pair = Pair()
    readers = [Reader(name) for name in range(random.choice([1, 3, 20]))]
    fresh = some_reads(random, readers, *versions)
    for _ in range(random.choice([1, 8, 40])):
        pick = random.random()
        if pick < 0.65 or not pair.reads:
            pair.add(next(fresh))
        elif pick < 0.75:
            pair.add(random.choice(pair.reads))
        elif pick < 0.95:
            pair.remove(random.choice(pair.reads))
        else:
            pair.remove(next(fresh))
    pair.check_books()
    return pair


# --- whom it finds --------------------------------------------------------------------------------------------


@at_both_widths
@given(sources)
def test_edits_are_matched_as_the_rule_says_of_each_read(random: Random) -> None:
    edits = list(some_edits(random))
    pair = filled(random, *[edit.before for edit in edits[:4]])
    for edit in edits:
        for touch in edit.touches:
            found = pair.check(Change(DOC, touch.path, get(edit.before, touch.path), get(edit.after, touch.path)))
            event(f"{len(found) if len(found) < 3 else 'more'} readers are touched")
        pair.check(Change(DOC, (), edit.before, edit.after))
        for change in changes_between(DOC, edit.before, edit.after):
            pair.check(change)


@at_both_widths
@given(sources)
def test_unrelated_documents_are_matched_as_the_rule_says_of_each_read(random: Random) -> None:
    versions = [some_document(random) for _ in range(4)]
    pair = filled(random, *versions)
    for before, after in pairwise(versions):
        pair.check(Change(DOC, (), before, after))
        # Any place may be told to have changed, also one that the document does not have.
        pair.check(Change(DOC, some_read(random, thaw(before), thaw(after)), before, after))
        pair.check(Change(OTHER, (), before, after))


@at_both_widths
@given(before=maybes, after=maybes, path=paths, reads=st.lists(st.tuples(paths, st.booleans()), max_size=12))
def test_awkward_values_and_paths_are_matched_as_the_rule_says(
    before: Maybe, after: Maybe, path: Path, reads: list[tuple[Path, bool]]
) -> None:
    pair = Pair()
    for name, (read, shallow) in enumerate(reads):
        pair.add(Read(DOC, read, shallow, Reader(name)))
        pair.add(Read(DOC, (*path, *read), shallow, Reader(name)))
    pair.check(Change(DOC, path, before, after))
    pair.check(Change(DOC, path, before, before))


@at_both_widths
@given(data=st.data(), value=values, random=sources)
def test_values_that_are_equal_or_nearly_are_matched_as_the_rule_says(
    data: st.DataObject, value: Maybe, random: Random
) -> None:
    assert value is not ABSENT
    after = data.draw(relatives(value))
    pair = filled(random, value, after)
    pair.check(Change(DOC, (), value, after))
    pair.check(Change(DOC, ("a",), value, after))


@pytest.mark.parametrize("size", [3, 700])
@pytest.mark.parametrize("kind", ["map", "list"])
def test_many_places_in_large_containers_are_matched_as_the_rule_says(size: int, kind: str) -> None:
    """With more and with fewer places read than there are entries, and entries at one end only."""
    random = Random(size)

    def version() -> Maybe:
        entries = [random.choice([index, [index], {"a": index}, None]) for index in range(random.randint(0, size))]
        return freeze(entries if kind == "list" else {f"k{index}": entry for index, entry in enumerate(entries)})

    for count in (2, size // 2, size * 2):
        pair = Pair()
        for number in range(count):
            index = random.randint(-1, size + 3)
            step: Step = index if random.random() < 0.5 else f"k{index}"
            pair.add(Read(DOC, random.choice([(step,), (step, "a"), (step, 0)]), random.random() < 0.3, Reader(number)))
        for _ in range(12):
            before, after = version(), version()
            pair.check(Change(DOC, (), before, after))
            if is_array(before) and len(before):
                pair.check(Change(DOC, (), before, put_index(before, random.randrange(len(before)), freeze([7]))))
                pair.check(Change(DOC, (), before, array_of([*before, None])))
            elif is_map(before):
                pair.check(Change(DOC, (), before, put_key(before, f"k{random.randint(0, size)}", freeze({"a": 7}))))
            pair.check(Change(DOC, (), before, freeze([1, [2]] if kind == "map" else {"k1": [2]})))


def test_reader_of_a_whole_document_sees_types_and_signs_of_zero() -> None:
    index: ReaderIndex[str] = ReaderIndex()
    index.add(DOC, (), False, "r")
    for before, after in [(1, 1.0), (True, 1), (0.0, -0.0)]:
        assert index.match(Change(DOC, (), before, after)) == ["r"]
        assert index.match(Change(DOC, ("a",), freeze([before]), freeze([after]))) == ["r"]
    assert index.match(Change(DOC, (), freeze([1]), freeze([1]))) == []


def test_number_as_text_and_index_are_different_steps() -> None:
    index: ReaderIndex[str] = ReaderIndex()
    index.add(DOC, ("0",), False, "key")
    index.add(DOC, (0,), False, "element")
    assert index.match(Change(DOC, (), freeze([1]), freeze([2]))) == ["element"]
    assert index.match(Change(DOC, (), freeze({"0": 1}), freeze({"0": 2}))) == ["key"]
    assert index.match(Change(DOC, ("0",), 1, 2)) == ["key"]


def test_readers_far_deeper_than_the_stack_are_found() -> None:
    index: ReaderIndex[str] = ReaderIndex()
    path = ("a",) * 5_000
    index.add(DOC, path, False, "deep down")
    assert index.match(Change(DOC, (), ABSENT, freeze({}))) == ["deep down"]
    assert index.of_doc(DOC) == ["deep down"]
    index.remove(DOC, path, False, "deep down")
    assert DOC not in index


# --- in which order -------------------------------------------------------------------------------------------


def test_readers_of_a_place_come_in_the_order_they_were_added() -> None:
    index: ReaderIndex[str] = ReaderIndex()
    for name in ("c", "a", "d", "b"):
        index.add(DOC, ("x",), False, name)
    assert index.match(Change(DOC, ("x",), 1, 2)) == ["c", "a", "d", "b"]
    index.add(DOC, ("x",), False, "c")
    index.remove(DOC, ("x",), False, "a")
    index.add(DOC, ("x",), False, "a")
    assert index.match(Change(DOC, ("x",), 1, 2)) == ["c", "d", "b", "a"]


def test_readers_of_upper_places_come_first() -> None:
    index: ReaderIndex[str] = ReaderIndex()
    reads: list[tuple[Path, str]] = [(("b", "x"), "low"), (("b",), "middle"), (("a",), "beside"), ((), "top")]
    for path, name in reads:
        index.add(DOC, path, False, name)
    before, after = freeze({"a": 1, "b": {"x": 1}}), freeze({"a": 2, "b": {"x": 2}})
    assert index.match(Change(DOC, ("b", "x"), 1, 2)) == ["top", "middle", "low"]
    found = index.match(Change(DOC, (), before, after))
    assert found[0] == "top" and found[-1] == "low"
    assert index.of_doc(DOC) == ["top", "middle", "beside", "low"]


def test_reader_that_comes_again_further_down_keeps_its_first_place() -> None:
    index: ReaderIndex[str] = ReaderIndex()
    for name in ("b", "a"):
        index.add(DOC, (), False, name)
    for name in ("d", "a", "c", "b"):
        index.add(DOC, ("x",), False, name)
    assert index.match(Change(DOC, ("x",), 1, 2)) == ["b", "a", "d", "c"]


@given(sources)
def test_same_history_gives_the_same_order(random: Random) -> None:
    versions = [some_document(random) for _ in range(3)]
    one = filled(random, *versions)
    # Made anew of what is left, and of readers elsewhere in memory: order does not come from hashes.
    orders = []
    for _ in range(2):
        new = {read.reader: Reader(read.reader.name) for read in one.reads}
        index: ReaderIndex[Reader] = ReaderIndex()
        for read in one.reads:
            index.add(read.doc, read.path, read.shallow, new[read.reader])
        changes = [Change(DOC, (), before, after) for before, after in pairwise(versions)]
        orders.append([[reader.name for reader in index.match(change)] for change in changes])
        orders[-1].append([reader.name for reader in index.of_doc(DOC)])
    assert orders[0] == orders[1]


# --- what it keeps --------------------------------------------------------------------------------------------


def test_read_that_is_added_twice_is_one_and_gone_when_removed_once() -> None:
    pair = Pair()
    one, two = Reader(1), Reader(2)
    for reader in (one, one, two, two, one):
        pair.add(Read(DOC, ("a",), False, reader))
    assert len(pair.index) == 2
    assert pair.check(Change(DOC, ("a",), 1, 2)) == [one, two]
    pair.remove(Read(DOC, ("a",), False, one))
    assert pair.check(Change(DOC, ("a",), 1, 2)) == [two]
    pair.remove(Read(DOC, ("a",), False, one))
    assert len(pair.index) == 1


def test_depths_of_one_place_are_reads_of_their_own() -> None:
    index: ReaderIndex[str] = ReaderIndex()
    index.add(DOC, (), False, "r")
    index.add(DOC, (), True, "r")
    assert len(index) == 2
    assert index.match(Change(DOC, (), freeze({}), freeze({"a": 1}))) == ["r"]
    index.remove(DOC, (), False, "r")
    assert index.match(Change(DOC, ("a",), 1, 2)) == []
    assert index.match(Change(DOC, ("a",), ABSENT, 2)) == ["r"]


def test_removing_what_is_not_there_does_no_harm() -> None:
    pair = Pair()
    reader = Reader("r")
    pair.remove(Read(DOC, (), False, reader))
    pair.add(Read(DOC, ("a", "b"), False, reader))
    for path in [(), ("a",), ("a", "b", "c"), ("a", "x"), ("x", "b")]:
        pair.remove(Read(DOC, path, False, reader))
    pair.remove(Read(DOC, ("a", "b"), True, reader))
    pair.remove(Read(DOC, ("a", "b"), False, Reader("other")))
    pair.remove(Read(OTHER, ("a", "b"), False, reader))
    pair.check_books()
    assert pair.check(Change(DOC, ("a", "b"), 1, 2)) == [reader]


@given(sources)
def test_nothing_is_left_when_all_reads_are_removed_in_any_order(random: Random) -> None:
    pair = filled(random, some_document(random), some_document(random))
    random.shuffle(pair.reads)
    for read in list(pair.reads):
        pair.remove(read)
        pair.check_books()
    assert not pair.index._roots


@given(sources)
def test_no_place_is_kept_that_nobody_reads_at_or_below(random: Random) -> None:
    pair = filled(random, some_document(random), some_document(random))
    places = {(read.doc, read.path[:length]) for read in pair.reads for length in range(len(read.path) + 1)}
    kept = list(pair.index._roots.values())
    for place in kept:
        # One reader of a whole document has no place of its own.
        kept += [] if isinstance(place, Reader) else place.all_kids()
    assert len(kept) == len(places)


def test_memory_returns_when_reads_are_removed() -> None:
    index: ReaderIndex[Reader] = ReaderIndex()
    readers = [Reader(number) for number in range(10)]
    docs = [doc_key(f"d{number}") for number in range(300)]
    reads = [
        Read(doc, path, shallow, reader)
        for doc in docs
        for number, reader in enumerate(readers)
        for path in [(), ("items", number, "title")]
        for shallow in (False, True)
    ]
    reads += [Read(doc_key(f"e{number}"), (), False, readers[0]) for number in range(5_000)]
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for read in reads:
            index.add(*read)
        full, _ = tracemalloc.get_traced_memory()
        for read in reads:
            index.remove(*read)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The interpreter itself keeps a few freed dicts at hand.
    assert after - before < (full - before) / 50


@pytest.mark.pure("measures Python objects")
def test_read_takes_about_two_hundred_bytes() -> None:
    paths: list[Path] = [("items", number, "title") for number in range(10)]
    docs = [doc_key(f"d{number}") for number in range(1_000)]
    reader = Reader("r")
    index: ReaderIndex[Reader] = ReaderIndex()
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for doc in docs:
            for path in paths:
                index.add(doc, path, False, reader)
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert used / len(index) < 220


# --- what it costs --------------------------------------------------------------------------------------------


def visits(index: ReaderIndex[Reader], change: Change) -> int:
    before = index.visits
    index.match(change)
    return index.visits - before


@pytest.fixture(scope="module")
def crowded() -> ReaderIndex[Reader]:
    """One document, with a reader of each of its many elements."""
    index: ReaderIndex[Reader] = ReaderIndex()
    for number in range(MANY):
        index.add(DOC, ("items", number, "title"), False, Reader(number))
    return index


def test_change_deep_in_a_document_visits_only_its_own_path(crowded: ReaderIndex[Reader]) -> None:
    change = Change(DOC, ("items", 5, "title"), 1, 2)
    assert [reader.name for reader in crowded.match(change)] == [5]
    assert visits(crowded, change) == 4
    assert visits(crowded, Change(DOC, ("items", 5, "other"), 1, 2)) == 3
    assert visits(crowded, Change(DOC, ("beside",), 1, 2)) == 1
    assert visits(crowded, Change(OTHER, (), 1, 2)) == 0


def test_document_that_is_replaced_but_shares_all_but_one_element_visits_only_that(
    crowded: ReaderIndex[Reader],
) -> None:
    items = freeze([{"title": number} for number in range(MANY)])
    assert is_array(items)
    before, after = freeze({"n": 1}), freeze({"n": 2})
    assert is_map(before) and is_map(after)
    before = put_key(before, "items", items)
    after = put_key(after, "items", put_index(items, 7, freeze({"title": -1})))
    change = Change(DOC, (), before, after)
    assert [reader.name for reader in crowded.match(change)] == [7]
    assert visits(crowded, change) == 4


@pytest.mark.parametrize("others", [0, 100])
def test_subtrees_that_are_the_same_object_are_not_entered(others: int) -> None:
    """Whether the places or the entries are gone through."""
    index: ReaderIndex[Reader] = ReaderIndex()
    for number in range(100):
        index.add(DOC, ("still", f"k{number}", "x"), False, Reader(number))
    index.add(DOC, ("moving",), False, Reader("moving"))
    still = {f"k{number}": {"x": 1} for number in range(2_000)}
    before = freeze({"still": still, "moving": 1} | {f"other {number}": 1 for number in range(others)})
    assert is_map(before)
    change = Change(DOC, (), before, put_key(before, "moving", 2))
    assert visits(index, change) <= 3


@given(sources)
def test_reads_in_places_that_do_not_change_cost_no_visits(random: Random) -> None:
    """However many there are, beside the change and beside the way to it."""
    for edit in some_edits(random):
        pair = filled(random, edit.before, edit.after)
        changes = [
            Change(DOC, ("mid", *touch.path), get(edit.before, touch.path), get(edit.after, touch.path))
            for touch in edit.touches
        ]
        index: ReaderIndex[Reader] = ReaderIndex()
        index.add(DOC, ("mid",), True, Reader("mid"))
        for read in pair.reads:
            index.add(read.doc, ("mid", *read.path), read.shallow, read.reader)
        for change in changes:
            index.add(DOC, (*change.path[:-1], "beside"), False, Reader("beside"))
        alone = [visits(index, change) for change in changes]
        for number in range(50):
            for change in changes:
                index.add(DOC, (*change.path[:-1], "beside", number), False, Reader(number))
                index.add(DOC, (*change.path[:-1], f"beside {number}"), True, Reader(number))
            index.add(doc_key(f"other {number}"), (), False, Reader(number))
        assert [visits(index, change) for change in changes] == alone


def test_vanished_document_visits_every_place_once(crowded: ReaderIndex[Reader]) -> None:
    change = Change(DOC, (), freeze({"items": []}), ABSENT)
    assert len(crowded.match(change)) == MANY
    assert visits(crowded, change) == 2 + 2 * MANY


# --- beside each other ----------------------------------------------------------------------------------------


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads are switched as often as can be."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("hasty")
def test_others_may_look_while_one_thread_adds_and_removes() -> None:
    index: ReaderIndex[Reader] = ReaderIndex()
    always = Reader("always")
    index.add(DOC, ("items",), False, always)
    before, after = freeze({"items": list(range(50))}), freeze({"items": list(range(1, 51))})
    changes = [Change(DOC, (), before, after), Change(DOC, (), before, ABSENT), Change(DOC, ("items", 3), 1, 2)]
    done = Event()
    seen: list[bool] = []
    failures: list[BaseException] = []

    def look() -> None:
        try:
            while not done.is_set():
                found = [index.match(change) for change in changes] + [index.of_doc(DOC)]
                seen.append(all(always in readers and None not in readers for readers in found))
        except BaseException as error:  # noqa: BLE001  # told below
            failures.append(error)

    threads = [Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    random = Random(1)
    readers = [Reader(number) for number in range(2)]
    while len(seen) < 8_000 and not failures:
        # Few in each place, so that places and dicts come and go.
        path: Path = random.choice([(), ("items",), ("items", random.randrange(60)), ("items", 3, "x")])
        change = random.choice([index.add, index.remove])
        change(DOC, path, False, random.choice(readers))
    done.set()
    for thread in threads:
        thread.join()
    assert not failures
    assert seen and all(seen)
