"""A folder of spaces, ports, and what cannot be opened."""

from __future__ import annotations

from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import NotFoundError, UnavailableError, UsageError
from headwater.studio import Studio
from headwater.studio.local_host import FileHost
from headwater.studio.local_server import LocalStudioServer
from tests.studio.locally import local_page, studio_of
from tests.studio.shop import ignore, make_shop


class Purchase(hw.Doc):
    customer: str = ""
    total: int = 0


def test_a_folder_has_a_row_for_each_space_and_questions_name_theirs(tmp_path: Path) -> None:
    for number, name in enumerate(("first", "second", "third")):
        made = make_shop()
        with made.app.open(f"{tmp_path}/", space=name, on_error=ignore):
            made.counted.value = number
    with local_page(f"{tmp_path}/") as page:
        assert page.welcome["place"] == "folder"
        assert sorted(page.welcome["spaces"]) == ["first", "second", "third"]
        rows = page.ask("spaces")["spaces"]
        assert [row["name"] for row in rows] == ["first", "second", "third"]
        assert all(row["live"] == "closed" and row["documents"] > 0 and row["seq"] > 0 for row in rows)
        two = page.ask("spaces", limit=2)
        assert [row["name"] for row in page.ask("spaces", after=two["next"])["spaces"]] == ["third"]
        for number, name in enumerate(("first", "second", "third")):
            found = page.ask("document", space=name, address="shop.count")
            assert found["value"]["text"] == str(number)
        assert page.ask("documents", space="fourth")["code"] == "HW403"


def test_a_file_that_does_not_exist_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        FileHost(str(tmp_path / "missing.db"))
    assert not (tmp_path / "missing.db").exists()
    with pytest.raises(NotFoundError, match="no folder"):
        FileHost(f"{tmp_path}/missing/")
    assert list(tmp_path.iterdir()) == []


def test_memory_has_a_studio_in_its_own_program_only() -> None:
    with pytest.raises(UsageError, match=r"Studio\(space\)"):
        FileHost("memory:")
    with pytest.raises(UsageError, match="an open space"):
        Studio("memory:")  # type: ignore[arg-type]


def test_a_port_that_is_taken_is_named_and_without_one_the_next_is_used(tmp_path: Path) -> None:
    file = str(tmp_path / "shop.db")
    with make_shop().app.open(file, on_error=ignore):
        pass
    with studio_of(file) as server:
        with pytest.raises(UnavailableError, match=str(server.port)):
            LocalStudioServer(FileHost(file), port=server.port)
        with LocalStudioServer(FileHost(file)) as first, LocalStudioServer(FileHost(file)) as second:
            assert first.port != second.port


def test_collections_have_their_indexes(tmp_path: Path) -> None:
    app = hw.App("shop")
    app.collection(Purchase, indexes=[Purchase.customer])
    file = str(tmp_path / "shop.db")
    with app.open(file):
        for number in range(5):
            Purchase(customer=f"c{number % 2}", total=number)
    with local_page(file) as page:
        [row] = page.ask("collections")["collections"]
        assert row["documents"] == 5
        assert ["customer"] in [index["fields"] for index in row["indexes"]]
        kind = next(each for each in page.ask("kinds")["kinds"] if each["is_class"])
        found = page.ask("query", prefix=kind["prefix"], where="customer = c1", sort="total", descending=True)
        one = page.ask("document", address=found["rows"][0]["address"])
        assert {field["name"]: field["type"] for field in one["fields"]} == {"customer": "str", "total": "int"}
        assert [row["cells"][found["columns"].index("total")]["text"] for row in found["rows"]] == ["3", "1"]
        assert (found["found"], found["scanned"]) == (2, 5)
        first = page.ask("query", prefix=kind["prefix"], sort="total", limit=2)
        second = page.ask("query", prefix=kind["prefix"], sort="total", limit=2, after=first["next"])
        totals = [row["cells"][first["columns"].index("total")]["text"] for row in (*first["rows"], *second["rows"])]
        assert totals == ["0", "1", "2", "3"]
