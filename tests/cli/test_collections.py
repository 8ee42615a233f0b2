"""`headwater collections`: ls, check, migrate, index, with every kind of bad input."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.store.verification import verify
from tests.cli.conftest import Run, Terminal
from tests.cli.processes import COMMAND, holding, on_terminal
from tests.declare.collections.parcels import Parcel, fill, former, today

ROOT = Path(__file__).parents[2]
APP = "tests.declare.collections.parcels:app"


@pytest.fixture(autouse=True)
def _package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])


@pytest.fixture
def url(tmp_path: Path) -> str:
    made = str(tmp_path / "parcels.db")
    fill(made, 5)
    return made


def put(url: str, name: str, **fields: Any) -> None:
    with hw.App("raw").open(url) as space:
        space.cell(f"parcel:{name}", type=dict[str, Any]).value = fields


def force(run: Run, url: str, name: str, **fields: Any) -> None:
    """Store a document that the collection would refuse."""
    run("set", f"parcel:{name}", json.dumps(fields), "--create", "--force", "--url", url)


# --- ls -----------------------------------------------------------------------------------------------------------


def test_collections_are_listed_with_counts_and_indexes(run: Run, url: str) -> None:
    run("set", "user:ann!parcel:x", "{}", "--create", "--url", url)
    [found] = json.loads(run("collections", "ls", "--json", "--url", url).stdout)
    assert (found["kind"], found["scope"], found["documents"]) == ("parcel", "space", 5)
    assert [each.partition("~")[0] for each in found["indexes"]] == ["parcel#amount"]
    assert run("collections", "--url", url).stdout.startswith("parcel\tspace\t5\tparcel#amount~")


def test_a_space_without_collections_has_none(run: Run, shop: str, terminal: Terminal) -> None:
    assert run("collections", "ls", "--url", shop).stdout == ""
    assert json.loads(run("collections", "index", "ls", "--json", "--url", shop).stdout) == []
    assert terminal(80, "collections", "--url", shop) == "no collections: no app has declared one here"


def test_documents_of_a_kind_are_a_table_of_their_fields(run: Run, url: str, terminal: Terminal) -> None:
    put(url, "ünï", amount=7, number="8", colour="blåu", things=[])
    put(url, "a", amount=70, number="80")
    assert run("collections", "ls", "parcel", "--where", "number=80", "--url", url).stdout == "parcel:a\t70\t\t80\t\n"
    assert run("collections", "ls", "parcel", "--where", "amount=70", "--url", url).stdout == "parcel:a\t70\t\t80\t\n"
    both = ("--where", "amount=70", "--where", "number=1")
    assert run("collections", "ls", "parcel", *both, "--url", url).stdout == ""
    assert len(run("collections", "ls", "parcel", "--limit", "2", "--url", url).stdout.splitlines()) == 2
    [found] = json.loads(run("collections", "ls", "parcel", "--where", "number=80", "--json", "--url", url).stdout)
    assert found["document"] == "parcel:a"
    assert found["value"] == {"amount": 70, "number": "80"}
    lines = terminal(100, "collections", "ls", "parcel", "--where", "colour=blåu", "--url", url).splitlines()
    assert lines[0].split() == ["document", "amount", "colour", "number", "things"]
    assert lines[1].split() == ["parcel:ünï", "7", "blåu", "8", "[]"]


def test_a_link_is_listed_by_the_id_of_its_document(run: Run, tmp_path: Path) -> None:
    class Owner(hw.Doc):
        name: str

    class Cat(hw.Doc):
        owner: hw.Link[Owner | None] = hw.Link()

    app, path = hw.App("cats"), str(tmp_path / "cats.db")
    app.collection(Cat)
    with app.open(path):
        owner = Owner(name="Ann")
        Cat(owner=owner)
        Cat()
        name = hw.id_of(owner)
    found = run("collections", "ls", "cat", "--where", f"owner={name}", "--url", path).stdout
    assert found.endswith(f"\t{name}\n")
    assert found.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "code", "text"),
    [
        (["ls", "parce"], 3, "there is no collection 'parce', and no document of that kind; did you mean parcel?"),
        (["ls", "parcel", "--where", "colour"], 2, "--where colour: FIELD=VALUE is expected"),
        (["ls", "parcel", "--where", "=red"], 2, "FIELD=VALUE is expected"),
        (["ls", "parcel", "--where", "color=red"], 2, "has no field 'color'; did you mean colour?"),
        (["ls", "parcel", "--limit", "0"], 2, "0 is not in the range"),
        (["ls", "--where", "colour=red"], 2, "are for the documents of one KIND"),
        (["index", "ls", "parce"], 3, "there is no collection 'parce'; did you mean parcel?"),
        (["index", "drop", "parcel#amout"], 3, "there is no index 'parcel#amout'"),
        (["index", "drop", "parcel#"], 2, "the order by id, which every collection has"),
        (["check", "nothing:app"], 3, "there is no module nothing"),
        (["check", "tests.declare.collections.parcels:Parcel"], 3, "Parcel is no app in module"),
        (["migrate", "parcels.py"], 2, "a module is expected"),
        (["lss"], 2, "There is no command 'collections lss'. Did you mean ls?"),
        (["index", "make"], 2, "There is no command 'index make'"),
    ],
)
def test_bad_input_is_said(run: Run, url: str, args: list[str], code: int, text: str) -> None:
    assert text in run("collections", *args, *([] if args[-1] in ("lss", "make") else ["--url", url]), exit=code).stderr


COMMANDS = [
    ["ls"],
    ["check", APP],
    ["migrate", APP],
    ["index", "ls"],
    ["index", "build", APP],
    ["index", "drop", "parcel#amount"],
]


@pytest.mark.parametrize("args", COMMANDS, ids="-".join)
def test_a_file_that_is_no_space_or_not_there_is_said_and_not_made(run: Run, tmp_path: Path, args: list[str]) -> None:
    (tmp_path / "text.db").write_text("no space" * 2000)
    assert "HW" in run("collections", *args, "--url", "text.db", exit=1).stderr
    run("collections", *args, "--url", "absent.db", exit=3)
    assert not (tmp_path / "absent.db").exists()


@pytest.mark.parametrize("args", [each for each in COMMANDS if each[-1] != "ls"], ids="-".join)
def test_a_file_that_a_program_has_open_is_refused_where_it_is_changed(run: Run, url: str, args: list[str]) -> None:
    with holding(url):
        assert "HW202" in run("collections", *args, "--url", url, exit=4).stderr


# --- check, migrate -----------------------------------------------------------------------------------------------


def test_a_check_counts_each_kind_and_changes_nothing(run: Run, url: str) -> None:
    put(url, "odd", number="seven")
    force(run, url, "new", number=7, cents=1, extra=1)
    run("set", "other:1", "{}", "--create", "--url", url)
    before = run("export", "--url", url).stdout
    found = json.loads(run("collections", "check", APP, "--json", "--url", url, exit=1).stdout)
    assert run("export", "--url", url).stdout == before
    assert found[0] == {
        "kind": "parcel",
        "class": "Parcel",
        "documents": 7,
        "fit": 1,
        "old": 5,
        "misfits": 1,
        "unknown": {"extra": 1},
        "places": [
            {
                "address": "parcel:odd",
                "reason": "cannot read parcel:odd/number: `how` of its change raised ValueError: invalid literal for "
                "int() with base 10: 'seven'; correct it, or the value",
            }
        ],
    }
    assert (found[1]["kind"], found[1]["class"], found[1]["documents"]) == ("other", None, 1)
    said = run("collections", "check", APP, "--url", url, exit=1)
    assert said.stdout == "parcel\tParcel\t7\t1\t5\t1\textra (1)\nother\t\t1\t\t\t\t\n"
    assert said.stderr.startswith("parcel:odd: cannot read parcel:odd/number")


def test_only_the_first_ten_places_are_listed(run: Run, url: str) -> None:
    for number in range(12):
        force(run, url, str(number), number=None)
    said = run("collections", "check", APP, "--url", url, exit=1).stderr.splitlines()
    assert said[0] == "parcel:0/number: expected int, got None"
    assert len(said) == 11
    assert said[-1] == "parcel: 2 more documents that do not fit"


def test_a_migration_stores_the_form_of_today_and_a_second_one_nothing(run: Run, url: str) -> None:
    before = run("export", "--url", url).stdout
    assert run("collections", "migrate", APP, "--dry-run", "--url", url).stdout == "parcel\tParcel\t5\t0\t5\t0\n"
    assert run("export", "--url", url).stdout == before
    assert run("collections", "migrate", APP, "--url", url).stdout == "parcel\tParcel\t5\t5\t0\t0\n"
    assert run("collections", "migrate", APP, "--url", url).stdout == "parcel\tParcel\t5\t0\t0\t0\n"
    assert run("collections", "check", APP, "--url", url).stdout == "parcel\tParcel\t5\t5\t0\t0\t\n"
    run("verify", "--url", url)
    app, parcels = today()
    with app.open(url):
        assert parcels.where(Parcel.cents == 20, Parcel.number == 2).count() == 1
    assert former()[0].name  # the former program
    fields = json.loads(run("get", "collection:parcel/fields", "--url", url).stdout)
    assert fields == {"cents": "int", "number": "int", "items": {"handle": {"list": "str"}}}


def test_a_migration_tells_what_it_leaves(run: Run, url: str, terminal: Terminal) -> None:
    force(run, url, "odd", number=None, amount=3)
    shown = terminal(90, "collections", "migrate", APP, "--url", url, exit=1).splitlines()
    assert shown[0].split() == ["kind", "class", "documents", "migrated", "left", "misfits"]
    assert shown[1].split() == ["parcel", "Parcel", "6", "5", "0", "1"]
    assert shown[2] == "parcel:odd/number: expected int, got None"
    assert json.loads(run("get", "parcel:odd", "--url", url).stdout) == {"number": None, "amount": 3}


def test_no_function_runs_during_a_migration(run: Run, url: str, tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(
        "import headwater as hw\n"
        "from tests.declare.collections.parcels import HOW, Parcel\n"
        "app = hw.App('noisy')\n"
        "parcels = app.collection(Parcel, indexes=[Parcel.cents], changes=HOW)\n"
        "@app.sink\n"
        "async def shout() -> None:\n"
        "    print('running', parcels.count())\n"
    )
    said = run("collections", "migrate", "noisy:app", "--url", url)
    sys.modules.pop("noisy", None)
    assert "running" not in said.stderr
    assert said.stdout == "parcel\tParcel\t5\t5\t0\t0\n"


@pytest.mark.slow
def test_a_killed_migration_leaves_a_whole_file_and_the_next_one_finishes(run: Run, tmp_path: Path) -> None:
    url, rng = str(tmp_path / "many.db"), random.Random(5)
    fill(url, 6000)
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    app, parcels = today()
    for _ in range(3):
        with subprocess.Popen([*COMMAND, "collections", "migrate", APP, "--url", url], env=environment) as child:
            begin = seq(url)
            # By what it has stored, not by time: it is killed somewhere in its first commits.
            wanted = begin + rng.randrange(1, 4)
            while child.poll() is None and seq(url) < wanted:
                time.sleep(0.01)
            child.send_signal(signal.SIGKILL)
        with app.open(url) as space:
            assert parcels.order_by(Parcel.cents).values(Parcel.cents) == [n * 10 for n in range(6000)]
            report = space._opening.ask_store(verify)
            assert report.ok, report.findings
    run("collections", "migrate", APP, "--url", url)
    assert run("collections", "check", APP, "--url", url).stdout == "parcel\tParcel\t6000\t6000\t0\t0\t\n"
    with app.open(url):
        assert [each.number for each in parcels.where(Parcel.cents == 50)] == [5]


def seq(url: str) -> int:
    """The newest commit in the log, read beside the process that writes."""
    import sqlite3

    with sqlite3.connect(f"file:{url}?mode=ro", uri=True) as database:
        return int(database.execute("select coalesce(max(seq), 0) from log").fetchone()[0])


# --- index --------------------------------------------------------------------------------------------------------


def test_indexes_are_listed_built_and_dropped(run: Run, url: str) -> None:
    rows = run("collections", "index", "ls", "parcel", "--url", url).stdout.splitlines()
    assert [row.split("\t")[2] for row in rows] == ["", "amount"]
    built = json.loads(run("collections", "index", "build", APP, "--json", "--url", url).stdout)
    assert [(each["fields"], each["built"]) for each in built] == [
        ([], False),
        (["cents"], True),
        (["cents", "number"], True),
        (["number"], True),
    ]
    assert all(
        not each["built"]
        for each in json.loads(run("collections", "index", "build", APP, "--json", "--url", url).stdout)
    )
    [name, _] = run("collections", "index", "drop", "parcel#amount", "--url", url).stdout.split("\t")
    assert name == rows[1].split("\t")[0]
    assert name not in run("collections", "index", "ls", "--url", url).stdout
    run("collections", "index", "drop", name, "--url", url, exit=3)
    run("verify", "--url", url)


def test_a_dropped_index_is_built_again_by_a_program_that_declares_it(run: Run, url: str) -> None:
    run("collections", "index", "drop", "parcel#amount", "--url", url)
    put(url, "later", amount=25, number="9")
    app, parcels = former()
    with app.open(url) as space:
        from tests.declare.collections.parcels import Former

        assert parcels.where(Former.amount > 15).values(Former.amount) == [20, 25, 30, 40]
        report = space._opening.ask_store(verify)
        assert report.ok, report.findings
    run("verify", "--url", url)


def test_a_unique_index_is_dropped_with_force_only(run: Run, url: str) -> None:
    app, _ = today(unique=True)
    with app.open(url):
        pass
    name = next(
        each["index"]
        for each in json.loads(run("collections", "index", "ls", "--json", "--url", url).stdout)
        if each["unique"]
    )
    assert (
        "equal values are no longer refused; add --force"
        in run("collections", "index", "drop", name, "--url", url, exit=2).stderr
    )
    assert json.loads(run("collections", "index", "drop", name, "--force", "--json", "--url", url).stdout)["unique"]


# --- bars ---------------------------------------------------------------------------------------------------------


def test_a_pipe_gets_no_bar(url: str) -> None:
    done = subprocess.run(
        [*COMMAND, "collections", "migrate", APP, "--url", url],
        capture_output=True,
        check=True,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )
    assert done.stdout == b"parcel\tParcel\t5\t5\t0\t0\n"
    assert done.stderr == b""


_BARS = """
from headwater.cli import output
output.PROGRESS_AFTER_S = 0
with output.progress("importing", "documents") as advance:
    for done in range(0, 3000, 500):
        advance(done, 2500)
"""


def test_a_bar_of_documents_has_their_number_a_rate_and_the_time_left() -> None:
    shown, code = on_terminal(sys.executable, "-c", _BARS, columns=120, env={"PYTHONPATH": str(ROOT)})
    assert code == 0
    assert "importing" in shown
    assert " documents" in shown
    assert "/s" in shown
    assert "ETA" in shown
