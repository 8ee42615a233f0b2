"""Listeners that say which documents they care for: others cost a look, and are not told."""

from __future__ import annotations

from headwater.core import Notification, PatchDoc, Replace, SetDoc, doc_key, freeze, open_space

A, B = doc_key("a"), doc_key("b")


def docs(heard: list[Notification]) -> list[str]:
    return [change.doc for notification in heard for change in notification.changes]


def test_only_documents_in_the_index_are_told_and_it_is_asked_anew_each_time() -> None:
    with open_space("memory:") as space:
        here, there = space.attach(), space.attach()
        heard: list[Notification] = []
        index = {A}
        there.listen(heard.append, index)
        for turn in range(2):
            here.commit([SetDoc(A, freeze({"n": turn})), SetDoc(B, freeze({"n": turn}))])
            here.sync()
            there.refresh()
            index.add(B)
        assert docs(heard) == [A, A, B]


def test_own_writes_are_told_only_where_somebody_reads() -> None:
    with open_space("memory:") as space:
        here = space.attach()
        heard: list[Notification] = []
        end = here.listen(heard.append, {A})
        here.commit([SetDoc(A, freeze({"n": 0})), SetDoc(B, freeze({"n": 0}))])
        here.commit([PatchDoc(B, (Replace(("n",), 1),))])
        assert docs(heard) == [A]
        everything: list[Notification] = []
        here.listen(everything.append)
        here.commit([PatchDoc(B, (Replace(("n",), 2),))])
        assert docs(everything) == [B]
        end()
        here.commit([PatchDoc(A, (Replace(("n",), 3),))])
        assert docs(heard) == [A]


def test_ending_one_of_two_equal_listeners_leaves_the_other() -> None:
    with open_space("memory:") as space:
        here = space.attach()
        heard: list[Notification] = []
        first = here.listen(heard.append)
        here.listen(heard.append)
        first()
        first()
        here.commit([SetDoc(A, 1)])
        assert len(heard) == 1
