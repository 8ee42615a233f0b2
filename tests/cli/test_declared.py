"""What apps declare is kept in the file, and commands that write keep to it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field

import headwater as hw
from tests.cli.conftest import Run


@dataclass
class Note:
    title: str
    tags: list[str] = field(default_factory=list)


class Owner(hw.Doc):
    name: str = ""
    age: Annotated[int, Field(ge=0)] = 0


class Board(hw.Doc):
    owner: hw.Link[Owner | None] = hw.Link()
    sizes: hw.List[int] = hw.List()


def make_app() -> hw.App:
    app = hw.App("r")
    app.cell("c1", 0)
    app.cell("note", Note("a"))
    app.cell("draft", "", scope="user")
    app.doc("board", Board)
    return app


@pytest.fixture
def url(tmp_path: Path) -> str:
    made = str(tmp_path / "r.db")
    with make_app().open(made) as space:
        Owner(name="ann")
        space.sync()
    return made


def test_text_is_not_put_into_a_cell_of_ints(run: Run, url: str) -> None:
    text = run("set", "r.c1", '"text"', "--url", url, exit=2).stderr
    assert "SchemaError HW108: cannot write r.c1: expected int, got str 'text'. r.c1 is declared as int" in text
    run("set", "r.c1", "5", "--url", url)
    app = hw.App("r")
    count = app.cell("c1", 0)
    with app.open(url):
        assert count.value == 5


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("r.note", '{"tags": []}', "field 'title' is missing"),
        ("r.note/title", "1", "cannot write r.note/title: expected str, got int 1"),
        ("r.note/tags", '["a", 2]', "cannot write r.note/tags/1: expected str, got int 2"),
        ("user:ann!r.draft", "1", "expected str, got int 1"),
        ("r.board/owner", '"ann"', "expected a link to Owner"),
        ("r.board/sizes", '["a"]', "cannot write r.board/sizes/0: expected int"),
        ("r.board", '{"sizes": 3}', "cannot write r.board/sizes: expected list[int]"),
    ],
)
def test_what_the_app_could_not_read_is_refused(run: Run, url: str, path: str, value: str, reason: str) -> None:
    before = run("export", "--url", url).stdout
    assert reason in run("set", path, value, "--url", url, exit=2).stderr
    assert run("export", "--url", url).stdout == before


@pytest.mark.parametrize(
    ("path", "value"),
    [("r.note", '{"title": "b"}'), ("r.note/title", '"b"'), ("user:ann!r.draft", '"b"'), ("r.board/sizes", "[1]")],
)
def test_what_the_app_can_read_is_taken_also_where_nothing_stands_yet(
    run: Run, url: str, path: str, value: str
) -> None:
    run("set", path, value, "--url", url)


def test_documents_of_a_class_are_checked_by_their_id(run: Run, url: str) -> None:
    ids = [line.partition("\t")[0] for line in run("ls", "owner:", "--url", url).stdout.splitlines()]
    run("set", f"{ids[0]}/age", "3", "--url", url)
    assert "must be at least 0, got int -1" in run("set", f"{ids[0]}/age", "-1", "--url", url, exit=2).stderr
    assert "expected str" in run("set", f"{ids[0]}/name", "-1", "--url", url, exit=2).stderr


def test_a_new_document_needs_create_and_what_was_meant_is_named(run: Run, url: str) -> None:
    text = run("set", "c1", "5", "--url", url, exit=3).stderr
    assert "NotFoundError HW106: there is no document c1" in text
    assert "did you mean r.c1? --create makes a new one" in text
    assert "did you mean r.c1?" in run("set", "r.cl", "5", "--url", url, exit=3).stderr
    assert "no app here (r) has declared it; --create" in run("set", "something", "5", "--url", url, exit=3).stderr
    run("set", "c1", "5", "--url", url, "--create")
    run("set", "c1", "6", "--url", url)
    assert run("get", "c1", "--url", url).stdout == "6\n"


def test_what_apps_declare_is_theirs(run: Run, url: str) -> None:
    assert "schema:r is written by app 'r'" in run("set", "schema:r", "{}", "--url", url, exit=2).stderr
    assert "schema:" not in run("ls", "--url", url).stdout
    assert "schema:r" in run("ls", "--all", "--url", url).stdout
    assert "schema:r" in run("ls", "schema:", "--url", url).stdout


def test_an_unreadable_document_is_repaired(run: Run, url: str) -> None:
    with hw.App("other").open(url) as space:
        space.cell("r.note").value = {"title": 1, "tags": "x"}
    assert "expected str" in run("set", "r.note/title", "2", "--url", url, exit=2).stderr
    run("set", "r.note/title", '"b"', "--url", url)
    run("set", "r.note/tags", "[]", "--url", url)
    assert json.loads(run("get", "r.note", "--url", url).stdout) == {"title": "b", "tags": []}


def test_a_required_field_is_not_deleted(run: Run, url: str) -> None:
    run("set", "r.note", '{"title": "b", "tags": []}', "--url", url)
    assert "field 'title' is missing" in run("set", "r.note/title", "--delete", "--url", url, exit=2).stderr
    run("set", "r.note/tags", "--delete", "--url", url)
    run("set", "r.note", "--delete", "--url", url)


def test_an_import_is_checked_before_anything_is_written(run: Run, url: str, tmp_path: Path) -> None:
    other = str(tmp_path / "other.db")
    run("set", "r.c1", '"text"', "--url", other)
    run("set", "a", "1", "--url", other)
    (tmp_path / "x.jsonl").write_text(run("export", "--url", other).stdout)
    text = run("import", str(tmp_path / "x.jsonl"), "--url", url, exit=2).stderr
    assert "cannot write r.c1: expected int, got str 'text'" in text
    run("get", "a", "--url", url, exit=3)


def test_a_space_without_apps_takes_anything(run: Run) -> None:
    run("set", "c1", '"text"', "--url", "plain.db")
    run("set", "c2", "5", "--url", "plain.db")


# --- what it costs ------------------------------------------------------------------------------------------------


def test_it_is_written_once_for_each_change_of_declarations(tmp_path: Path) -> None:
    url = str(tmp_path / "t.db")

    def opened(*more: tuple[str, Any]) -> tuple[int, int]:
        app = hw.App("t")
        app.cell("a", 0)
        for name, default in more:
            app.cell(name, default)
        with app.open(url) as space:
            space.sync()
            return space.stats.commits, space.stats.seq

    assert opened() == (1, 1)
    assert opened() == (0, 1)
    assert opened() == (0, 1)
    assert opened(("b", "x")) == (1, 2)
    assert opened(("b", "x")) == (0, 2)
    assert opened(("b", 1)) == (1, 3)


def test_it_is_not_written_in_memory_nor_on_branches(tmp_path: Path, run: Run) -> None:
    app = hw.App("t")
    app.cell("a", 0)
    with app.open("memory:") as space:
        assert space.stats.commits == 0
    url = str(tmp_path / "t.db")
    with app.open(url):
        pass
    run("fork", "draft", "--url", url)
    app.cell("b", 0)
    with app.open(url, branch="draft") as space:
        assert space.stats.commits == 0


def test_an_app_that_declares_no_data_writes_nothing(tmp_path: Path) -> None:
    app = hw.App("t")

    @app.sink
    def show() -> None:
        pass

    with app.open(str(tmp_path / "t.db")) as space:
        assert space.stats.commits == 0
