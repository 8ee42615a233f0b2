"""Change groups: what an editor has typed itself does not come back to it as news."""

from __future__ import annotations

from pathlib import Path

import pytest

import headwater as hw
from headwater.core import SetDoc, doc_key
from tests.app.workbench import Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()


class Editor:
    """A sink of the group "editor" and one of none."""

    def __init__(self, bench: Bench) -> None:
        self.text = bench.app.cell("text", "")
        bench.app.sink(name="editor", change_group="editor")(lambda: bench.log.append(("editor", self.text.value)))
        bench.app.sink(name="preview")(lambda: bench.log.append(("preview", self.text.value)))

    def type(self, space: hw.Space, text: str, group: str | None = "editor") -> None:
        with space.transaction() as tx:
            tx.change_group = group
            self.text.value = text


def test_transaction_of_a_group_does_not_wake_the_sinks_of_that_group(bench: Bench) -> None:
    editor = Editor(bench)
    with bench.open() as space:
        bench.taken()
        editor.type(space, "a")
        assert bench.taken() == [("preview", "a")]
        editor.type(space, "b", "other")
        assert bench.taken() == [("editor", "b"), ("preview", "b")]
        editor.type(space, "c", None)
        assert bench.taken() == [("editor", "c"), ("preview", "c")]


def test_plain_write_wakes_everybody(bench: Bench) -> None:
    editor = Editor(bench)
    with bench.open() as space:
        editor.type(space, "a")
        bench.taken()
        editor.text.value = "b"
        assert bench.taken() == [("editor", "b"), ("preview", "b")]


def test_what_others_write_wakes_everybody_whatever_their_group(bench: Bench, tmp_path: Path) -> None:
    editor = Editor(bench)
    url = str(tmp_path / "bench.db")
    with bench.app.open(url) as space, bench.app.open(url) as other:
        bench.taken()
        editor.type(other, "a")
        other.sync()
        bench.taken()
        space.settle()
        assert bench.taken() == [("editor", "a"), ("preview", "a")]


def test_own_edit_that_is_taken_back_is_news(bench: Bench) -> None:
    """What the editor shows is not there any more."""
    editor = Editor(bench)
    with bench.open() as space:
        other = space._opening._lease.storage.attach()
        editor.type(space, "a")
        space.sync()
        other.sync()
        bench.taken()
        with space.transaction() as tx:
            tx.change_group = "editor"
            assert editor.text.value == "a"
            other.commit([SetDoc(doc_key("bench.text"), "theirs")])
            other.sync()
            editor.text.value = "mine"
        with pytest.raises(hw.HeadwaterError):
            space.sync()
        assert ("editor", "theirs") in bench.taken()


def test_computed_between_them_is_made_anew_and_wakes_the_editor(bench: Bench) -> None:
    """It is another run that writes its result, and not the editor."""
    text = bench.app.cell("text", "")

    @bench.app.computed
    def words() -> int:
        return len(text.value.split())

    bench.app.sink(name="editor", change_group="editor")(lambda: bench.log.append((text.value, words())))
    with bench.open() as space:
        bench.taken()
        with space.transaction() as tx:
            tx.change_group = "editor"
            text.value = "one two"
        assert bench.taken() == [("one two", 2)]
