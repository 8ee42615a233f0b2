"""Rule 2: a lineage is one unbroken log. Whatever puts a log back renews it, and keeps the id."""

import json
from pathlib import Path

import headwater as hw
from headwater.host.space_files import file_name
from tests.cli.conftest import Run
from tests.server.running import served

app = hw.App("shop")
count = app.cell("count", 0)


def identity(url: str) -> tuple[str, bytes]:
    with app.open(url) as space:
        return space.id, space._opening.lineage


def counted(url: str, value: int) -> tuple[str, bytes]:
    with app.open(url):
        count.value = value
    return identity(url)


def test_openings_writes_and_compaction_continue_a_lineage(run: Run) -> None:
    first = counted("shop.db", 1)
    assert counted("shop.db", 2) == first
    run("compact", "--before", "1", "--url", "shop.db")
    assert identity("shop.db") == first


def test_a_restored_backup_keeps_the_id_and_starts_a_lineage(run: Run) -> None:
    first = counted("shop.db", 1)
    run("backup", "b", "--url", "shop.db")
    counted("shop.db", 2)
    run("restore", "b", "--url", "shop.db", "--force")
    restored = identity("shop.db")
    assert restored[0] == first[0]
    assert restored[1] != first[1]


def test_an_imported_log_keeps_the_id_of_the_space_and_starts_a_lineage(run: Run) -> None:
    first = counted("shop.db", 1)
    run("backup", "b", "--url", "shop.db")
    counted("shop.db", 2)
    run("export", "--history", "-o", "log.jsonl", "--url", "shop.db")
    run("restore", "b", "--url", "shop.db", "--force")
    run("import", "log.jsonl", "--url", "shop.db")
    imported = identity("shop.db")
    assert imported[0] == first[0]
    assert imported[1] != first[1]
    with app.open("shop.db"):
        assert count.value == 2


def test_a_log_that_is_imported_where_nothing_is_brings_its_id(run: Run) -> None:
    first = counted("shop.db", 1)
    run("export", "--history", "-o", "log.jsonl", "--url", "shop.db")
    run("import", "log.jsonl", "--url", "other.db")
    imported = identity("other.db")
    assert imported[0] == first[0]
    assert imported[1] != first[1]


def test_a_log_that_the_space_already_has_changes_nothing(run: Run) -> None:
    first = counted("shop.db", 1)
    run("export", "--history", "-o", "log.jsonl", "--url", "shop.db")
    run("import", "log.jsonl", "--url", "shop.db")
    assert identity("shop.db") == first


def test_imported_documents_change_neither(run: Run) -> None:
    first = counted("shop.db", 1)
    run("export", "-o", "documents.jsonl", "--url", "shop.db")
    assert "id" not in json.loads(Path("documents.jsonl").read_text(encoding="utf-8").splitlines()[0])
    run("import", "documents.jsonl", "--url", "shop.db")
    assert identity("shop.db") == first
    run("import", "documents.jsonl", "--url", "other.db")
    assert identity("other.db")[0] != first[0]


def test_an_export_with_another_text_as_id_is_refused(run: Run) -> None:
    counted("shop.db", 1)
    run("export", "--history", "-o", "log.jsonl", "--url", "shop.db")
    lines = Path("log.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    first = json.loads(lines[0]) | {"id": "home"}
    Path("log.jsonl").write_text(json.dumps(first) + "\n" + "".join(lines[1:]), encoding="utf-8")
    assert "is not a space id" in run("import", "log.jsonl", "--url", "other.db", exit=2).stderr


def test_a_space_of_a_server_has_a_new_lineage_after_its_file_was_restored(store: Path, run: Run) -> None:
    with served(store) as server:
        first = counted(f"{server.url}/home", 1)
    path = store / file_name("home")
    run("backup", "b", "--url", path)
    run("restore", "b", "--url", path, "--force")
    with served(store) as server:
        restored = identity(f"{server.url}/home")
    assert restored[0] == first[0]
    assert restored[1] != first[1]
