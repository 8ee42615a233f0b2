"""Questions about a space as a whole: what they may read, and for how long."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import headwater as hw
from headwater.host.space_files import open_space
from headwater.host.storage import Storage
from headwater.inspect import space_reading
from headwater.inspect.space_records import DIFFERENCES_MAX, ChangeBranch, CompareDocuments, DescribeType, ListCommits
from headwater.inspect.stored_inspector import StoredInspector
from headwater.store.commit import SetDoc
from headwater.values.ids import DocKey

MANY = 600
"""More than are read between two looks at the clock."""


@pytest.fixture
def storage() -> Iterator[Storage]:
    with open_space("memory:") as found:
        replica = found.attach()
        for number in range(MANY):
            replica.commit([SetDoc(DocKey(f"space/item:{number}"), number)])
        replica.sync()
        yield found


def test_commits_that_may_not_be_seen_are_read_for_a_bounded_time(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    hiding = StoredInspector(storage, may_see=lambda _doc: False)
    assert hiding.ask(ListCommits()).next == 0
    monkeypatch.setattr(space_reading, "READING_MS", -1)
    found = hiding.ask(ListCommits())
    assert found.commits == ()
    # The next page begins where this one has ended.
    assert 0 < found.next < MANY
    assert hiding.ask(ListCommits(before=found.next)).next < found.next


def test_branches_are_compared_for_a_bounded_time(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    inspector = StoredInspector(storage)
    inspector.do(ChangeBranch(action="fork", name="side"))
    question = CompareDocuments(older=MANY, against="side")
    assert inspector.ask(question).is_complete
    monkeypatch.setattr(space_reading, "READING_MS", -1)
    assert not inspector.ask(question).is_complete


def test_two_commits_are_compared_for_a_bounded_time(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    inspector, question = StoredInspector(storage), CompareDocuments(older=MANY - DIFFERENCES_MAX)
    whole = inspector.ask(question)
    assert whole.is_complete
    assert len(whole.differences) == DIFFERENCES_MAX
    monkeypatch.setattr(space_reading, "READING_MS", -1)
    assert not inspector.ask(question).is_complete
    # The log is not read to its end, and a part of the time is left for what was found in it.
    monkeypatch.setattr(space_reading, "READING_MS", 60_000)
    monkeypatch.setattr(space_reading, "_SHARE_OF_LOG", -1.0)
    found = inspector.ask(question)
    assert not found.is_complete
    assert found.differences == whole.differences[:1]


@dataclass
class Diary:
    days: dict[str, str]


def test_a_hidden_document_has_no_type_and_no_fields(tmp_path: Path) -> None:
    app = hw.App("shop")
    diary = app.cell("diary", Diary({}), type=Diary)
    file = str(tmp_path / "shop.db")
    with app.open(file):
        diary.value = Diary({"monday": "dear"})
    with open_space(file) as storage:
        question = DescribeType(address="shop.diary/days")
        assert list(StoredInspector(storage).ask(question).fields) == ["monday"]
        hidden = StoredInspector(storage, may_see=lambda _doc: False).ask(question)
        assert (hidden.type, hidden.fields) == ("", {})
