"""A read through pending commits names them; the names are continued, and not made anew for each write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headwater.cells.pending_commit import Mark, PendingCommit, ranges
from headwater.store.commit import Commit, PendingRead
from headwater.values.address import Depth, doc_key
from headwater.values.ids import DocKey, LocalSeq, Seq, SessionId

ONE, OTHER = doc_key("one"), doc_key("other")


def layer(number: int) -> PendingCommit:
    return PendingCommit(Commit(SessionId("s"), LocalSeq(number)))


def named(doc: DocKey, layers: list[PendingCommit]) -> tuple[tuple[LocalSeq, LocalSeq], ...]:
    read = Mark(Seq(0), layers, len(layers)).read(doc, (), Depth.DEEP)
    assert isinstance(read, PendingRead)
    return read.layers


_STEPS = st.sampled_from(
    ["write one", "write other", "write both", "decide", "reject", "name one", "name other", "older"]
)


@given(st.lists(_STEPS, max_size=60), st.randoms(use_true_random=False))
def test_the_names_are_those_of_all_layers_whatever_was_named_before(steps: Sequence[str], random: Any) -> None:
    layers: dict[DocKey, list[PendingCommit]] = {ONE: [], OTHER: []}
    number = 0
    for step in steps:
        if step.startswith("write"):
            number += 1
            made = layer(number)
            for doc in {"one": [ONE], "other": [OTHER], "both": [ONE, OTHER]}[step.partition(" ")[2]]:
                layers[doc].append(made)
        elif step == "decide":
            doc = random.choice([ONE, OTHER])
            layers[doc] = layers[doc][1:]
        elif step == "reject" and (found := layers[random.choice([ONE, OTHER])]):
            gone = random.choice(found)
            layers = {doc: [each for each in those if each is not gone] for doc, those in layers.items()}
        else:
            doc = random.choice([ONE, OTHER]) if step == "older" else ONE if step == "name one" else OTHER
            count = random.randint(0, len(layers[doc])) if step == "older" else len(layers[doc])
            if count:
                read = Mark(Seq(0), layers[doc], count).read(doc, (), Depth.DEEP)
                assert isinstance(read, PendingRead)
                assert read.layers == ranges(layers[doc][:count])


class _CountedList(list[PendingCommit]):
    looked_at = 0

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        _CountedList.looked_at += len(found) if isinstance(place, slice) else 1
        return found


def test_naming_each_of_1000_versions_looks_at_a_few_layers_for_each() -> None:
    layers = _CountedList()
    _CountedList.looked_at = 0
    for number in range(1000):
        # Every other commit is of another document, so none of them continues the range before it.
        layers.append(layer(2 * number + 1))
        assert len(named(ONE, layers)) == number + 1
    assert _CountedList.looked_at <= 10 * 1000


def test_one_layer_alone_remembers_the_names() -> None:
    layers = [layer(2 * number + 1) for number in range(5)]
    for count in range(1, 6):
        named(ONE, layers[:count])
    assert [each.named is not None for each in layers] == [False] * 4 + [True]
