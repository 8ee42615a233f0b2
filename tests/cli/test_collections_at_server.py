"""`headwater collections` check, migrate and index at a server: with tokens, and beside programs that write."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.access.rights import Right
from headwater.client.server_documents import ServerDocuments, server_documents
from headwater.client.server_url import parse_server
from headwater.errors import QueryError
from headwater.runtime import migration
from headwater.server.server import Server
from headwater.values.address import address_text
from headwater.values.tree import get
from tests.cli.conftest import Run
from tests.cli.processes import COMMAND, on_terminal
from tests.declare.collections.parcels import Former, Parcel, fill, former, today
from tests.server.running import DEADLINE_S, served, settle_in, token_for, until
from tests.support.proxy import Proxy

ROOT = Path(__file__).parents[2]
APP = "tests.declare.collections.parcels:app"
DONE = "parcel\tParcel\t{0}\t{0}\t0\t0\n"


@pytest.fixture(autouse=True)
def _package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    settle_in(tmp_path, monkeypatch)
    with served(tmp_path / "spaces") as running:
        yield running


@pytest.fixture
def url(server: Server) -> str:
    made = f"{server.url}/main"
    fill(made, 5)
    return made


def put(url: str, name: str, **fields: Any) -> None:
    with hw.App("raw").open(url) as space:
        space.cell(f"parcel:{name}", type=dict[str, Any]).value = fields


def force(run: Run, url: str, name: str, **fields: Any) -> None:
    """Store a document that the collection would refuse."""
    run("set", f"parcel:{name}", json.dumps(fields), "--create", "--force", "--url", url)


def documents(run: Run, url: str) -> str:
    return run("collections", "ls", "parcel", "--json", "--url", url).stdout


def with_token(server: Server, can: str) -> list[str]:
    Path("token").write_text(token_for(server, "main", can))
    return ["--token-file", "token"]


# --- check --------------------------------------------------------------------------------------------------------


def test_a_check_counts_what_is_at_the_server_and_changes_nothing(run: Run, url: str) -> None:
    force(run, url, "odd", number="seven")
    force(run, url, "new", number=7, cents=1, extra=1)
    before = documents(run, url)
    found = json.loads(run("collections", "check", APP, "--json", "--url", url, exit=1).stdout)
    assert documents(run, url) == before
    [row] = found
    assert (row["documents"], row["fit"], row["old"], row["misfits"], row["unknown"]) == (7, 1, 5, 1, {"extra": 1})
    assert row["places"][0]["address"] == "parcel:odd"


def test_a_check_lists_collections_that_the_app_does_not_declare(run: Run, url: str) -> None:
    class Lamp(hw.Doc):
        watts: int

    app = hw.App("lamps")
    app.collection(Lamp, indexes=[Lamp.watts])
    with app.open(url):
        Lamp(watts=7)
    rows = json.loads(run("collections", "check", APP, "--json", "--url", url).stdout)
    assert [(row["kind"], row["class"], row["documents"]) for row in rows] == [
        ("parcel", "Parcel", 5),
        ("lamp", None, 1),
    ]


def test_a_check_of_more_documents_than_one_answer_has_reads_all_of_them(
    run: Run, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.client.server_documents.KEYS_MAX", 2)
    monkeypatch.setattr(migration, "BATCH", 2)
    assert run("collections", "check", APP, "--url", url).stdout == "parcel\tParcel\t5\t0\t5\t0\t\n"
    assert run("collections", "migrate", APP, "--url", url).stdout == DONE.format(5)


def test_a_collection_that_is_not_declared_there_is_said(run: Run, server: Server) -> None:
    url = f"{server.url}/main"
    with hw.App("raw").open(url) as space:
        space.cell("a", type=int).value = 2
    done = run("collections", "check", APP, "--url", url)
    assert done.stdout == ""
    assert "parcel: the space at the server has no such collection yet" in done.stderr


# --- migrate ------------------------------------------------------------------------------------------------------


def test_a_migration_stores_the_form_of_today_and_narrows_the_record(run: Run, url: str) -> None:
    before = documents(run, url)
    assert run("collections", "migrate", APP, "--dry-run", "--url", url).stdout == "parcel\tParcel\t5\t0\t5\t0\n"
    assert documents(run, url) == before
    assert run("collections", "migrate", APP, "--url", url).stdout == DONE.format(5)
    assert run("collections", "migrate", APP, "--url", url).stdout == "parcel\tParcel\t5\t0\t0\t0\n"
    assert run("collections", "check", APP, "--url", url).stdout == "parcel\tParcel\t5\t5\t0\t0\t\n"
    fields = json.loads(run("get", "collection:parcel/fields", "--url", url).stdout)
    assert fields == {"cents": "int", "number": "int", "items": {"handle": {"list": "str"}}}
    app, parcels = today()
    with app.open(url):
        assert parcels.where(Parcel.cents == 20, Parcel.number == 2).count() == 1


def test_a_migration_leaves_what_does_not_fit_and_what_the_server_refuses(run: Run, url: str) -> None:
    force(run, url, "odd", number=None, amount=3)
    done = run("collections", "migrate", APP, "--url", url, exit=1)
    assert done.stdout == "parcel\tParcel\t6\t5\t0\t1\n"
    assert "parcel:odd/number: expected int, got None" in done.stderr
    assert json.loads(run("get", "parcel:odd", "--url", url).stdout) == {"number": None, "amount": 3}


def test_open_programs_see_the_migration_and_are_not_disturbed(run: Run, url: str) -> None:
    app, parcels = today()
    with app.open(url) as space:
        found = parcels.where(Parcel.cents >= 20).order_by(Parcel.cents)
        assert [each.cents for each in found] == [20, 30, 40]
        run("collections", "migrate", APP, "--url", url)
        Parcel(cents=50, number=50)
        space.sync()
        assert [each.cents for each in found] == [20, 30, 40, 50]


def test_a_value_that_is_changed_meanwhile_is_kept(run: Run, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read, changed = ServerDocuments.read, list[str]()

    def change(self: ServerDocuments, docs: Any) -> Any:
        found = read(self, docs)
        if len(docs) == 5 and not changed:
            address = next(address_text(doc) for doc, tree in found.items() if get(tree, ("amount",)) == 30)
            changed.append(address)
            with hw.App("raw").open(url) as space:
                space.cell(f"{address}/amount", type=int).value = 31
        return found

    # Between the reading of a batch and its commit.
    monkeypatch.setattr(ServerDocuments, "read", change)
    assert run("collections", "migrate", APP, "--url", url).stdout == DONE.format(5)
    assert json.loads(run("get", f"{changed[0]}/cents", "--url", url).stdout) == 31


def test_the_record_stays_wide_until_nobody_writes_in_the_former_form(
    run: Run, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    since, added = ServerDocuments.since_keys, list[int]()

    def write(self: ServerDocuments, kind: str, fields: Any) -> Any:
        if len(added) < 3:
            added.append(100 + len(added))
            with hw.App("raw").open(url) as space:
                old = {"amount": added[-1], "number": str(added[-1])}
                space.cell(f"parcel:{added[-1]}", type=dict[str, Any]).value = old
        return since(self, kind, fields)

    # Between the last look at the documents and the commit of the record.
    monkeypatch.setattr(ServerDocuments, "since_keys", write)
    run("collections", "migrate", APP, "--url", url)
    assert added == [100, 101, 102]
    assert run("collections", "check", APP, "--url", url).stdout == "parcel\tParcel\t8\t8\t0\t0\t\n"
    assert json.loads(run("get", "collection:parcel/fields/number", "--url", url).stdout) == "int"


def test_documents_of_users_are_migrated_as_far_as_the_token_reaches(
    run: Run, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{server.url}/main"
    tmp_path.joinpath("drafting.py").write_text(
        "import headwater as hw\n"
        "class Draft(hw.Doc):\n"
        "    text: str = ''\n"
        "app = hw.App('drafts')\n"
        "drafts = app.collection(Draft, scope='user', indexes=[Draft.text],"
        " changes=[hw.renamed(Draft.text, was='body')])\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))

    class Draft(hw.Doc):
        body: str = ""

    before = hw.App("before")
    before.collection(Draft, scope="user", indexes=[Draft.body])
    with before.open(url):
        pass
    for user in ("ann", "bob"):
        with hw.App("raw").open(url, actor=user) as space:
            space.cell(f"user:{user}!draft:1", type=dict[str, Any]).value = {"body": user}
    token, _ = server.access.create(space="main", can=Right.OWN, actor="ann")
    Path("token").write_text(token)
    done = run("collections", "migrate", "drafting:app", "--url", url, "--token-file", "token")
    assert done.stdout == "draft\tDraft\t1\t1\t0\t0\n"
    assert "documents that this cannot reach" in done.stderr
    with hw.App("raw").open(url, actor="bob") as space:
        assert space.cell("user:bob!draft:1", type=dict[str, Any]).value == {"body": "bob"}
    sys.modules.pop("drafting", None)


def test_an_interrupted_migration_loses_a_batch_at_most_and_the_next_one_finishes(
    run: Run, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migration, "BATCH", 2)
    commit, commits = ServerDocuments.commit, list[int]()

    def end(self: ServerDocuments, operations: Any, spans: Any = ()) -> Any:
        commits.append(len(operations))
        if len(commits) == 3:
            raise KeyboardInterrupt
        return commit(self, operations, spans)

    with monkeypatch.context() as patched:
        patched.setattr(ServerDocuments, "commit", end)
        run("collections", "migrate", APP, "--url", url, exit=130)
    assert commits == [2, 2, 1]
    assert run("collections", "check", APP, "--url", url).stdout == "parcel\tParcel\t5\t4\t1\t0\t\n"
    assert run("collections", "migrate", APP, "--url", url).stdout == "parcel\tParcel\t5\t1\t0\t0\n"


@pytest.mark.slow
def test_a_migration_over_connections_that_break_migrates_each_document_once(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle_in(tmp_path, monkeypatch)
    monkeypatch.setattr(migration, "BATCH", 20)
    monkeypatch.setattr("headwater.client.server_link.PATIENCE_S", DEADLINE_S)
    rng, commit, cuts = random.Random(3), ServerDocuments.commit, list[int]()
    with served(tmp_path / "spaces", hosts=("127.0.0.1",)) as server, Proxy(server.port) as proxy:
        straight = f"{server.url}/main"
        fill(straight, 100)
        where = ["--url", f"ws://127.0.0.1:{proxy.port}/main", *with_token(server, "own")]

        def cut(self: ServerDocuments, operations: Any, spans: Any = ()) -> Any:
            cuts.append(rng.randrange(1, 4_000))
            # In the commit, or in its verdict, or in the documents of the next batch.
            proxy.cut_after(cuts[-1])
            return commit(self, operations, spans)

        with monkeypatch.context() as patched:
            patched.setattr(ServerDocuments, "commit", cut)
            assert run("collections", "migrate", APP, *where).stdout == DONE.format(100)
        assert len(cuts) >= 5
        assert run("collections", "check", APP, "--url", straight).stdout == "parcel\tParcel\t100\t100\t0\t0\t\n"
        app, parcels = today()
        with app.open(straight):
            found = parcels.order_by(Parcel.cents).values(Parcel.cents, Parcel.number)
            assert found == [(number * 10, number) for number in range(100)]


_BAR = """
import sys
from headwater.cli import output
from headwater.cli.main import cli
output.PROGRESS_AFTER_S = 0
cli(sys.argv[1:])
"""


def test_a_terminal_gets_a_bar(url: str) -> None:
    command = [sys.executable, "-c", _BAR, "collections", "migrate", APP, "--url", url]
    shown, code = on_terminal(*command, columns=120, env={"PYTHONPATH": str(ROOT)})
    assert code == 0
    assert "migrating" in shown
    assert " documents" in shown


@pytest.mark.slow
def test_a_killed_migration_at_a_server_is_finished_by_the_next(run: Run, server: Server) -> None:
    url, rng = f"{server.url}/main", random.Random(7)
    fill(url, 4000)
    reader, _ = today()
    with reader.open(url) as space:

        def old() -> int:
            space.settle()
            return int(run("collections", "check", APP, "--url", url).stdout.split("\t")[4])

        for _ in range(2):
            begin = old()
            with subprocess.Popen(
                [*COMMAND, "collections", "migrate", APP, "--url", url], cwd=ROOT, stdout=subprocess.DEVNULL
            ) as child:
                wanted = begin - rng.randrange(1, 1000)
                until(lambda: child.poll() is not None or old() <= wanted, "some of it is migrated")  # noqa: B023
                child.send_signal(signal.SIGKILL)
    run("collections", "migrate", APP, "--url", url)
    assert run("collections", "check", APP, "--url", url).stdout == "parcel\tParcel\t4000\t4000\t0\t0\t\n"


# --- rights -------------------------------------------------------------------------------------------------------


def test_a_token_that_reads_may_check_and_an_owner_may_change(run: Run, server: Server, url: str) -> None:
    before = documents(run, url)
    for can in ("read", "write"):
        where = ["--url", url, *with_token(server, can)]
        assert run("collections", "check", APP, *where).stdout == "parcel\tParcel\t5\t0\t5\t0\t\n"
        assert run("collections", "migrate", APP, "--dry-run", *where).stdout == "parcel\tParcel\t5\t0\t5\t0\n"
        for command in (["migrate", APP], ["index", "build", APP], ["index", "drop", "parcel#amount"]):
            assert "HW403" in run("collections", *command, *where, exit=1).stderr
    assert documents(run, url) == before
    where = ["--url", url, *with_token(server, "own")]
    assert run("collections", "migrate", APP, *where).stdout == DONE.format(5)
    run("collections", "check", APP, "--url", url, "--token-file", "absent", exit=3)


def test_documents_that_rules_hide_are_not_counted_as_missing(run: Run, server: Server, url: str) -> None:
    run("set", "collection:parcel/rules", '[{"read": true, "role": "clerk"}]', "--create", "--url", url)
    where = ["--url", url, *with_token(server, "read")]
    assert "documents of collections with rules (parcel)" in run("collections", "check", APP, *where, exit=1).stderr
    assert run("collections", "check", APP, "--url", url).stdout == "parcel\tParcel\t5\t0\t5\t0\t\n"


@pytest.mark.slow
def test_a_server_that_is_away_and_a_space_that_is_not_there_are_said(run: Run, server: Server) -> None:
    run("collections", "check", APP, "--url", f"{server.url}/absent", exit=3)
    for command in (["check", APP], ["index", "drop", "parcel#amount"]):
        assert "HW405" in run("collections", *command, "--url", "ws://127.0.0.1:1/main", exit=1).stderr


# --- index --------------------------------------------------------------------------------------------------------


def test_indexes_are_built_and_dropped_at_the_server(run: Run, url: str) -> None:
    built = json.loads(run("collections", "index", "build", APP, "--json", "--url", url).stdout)
    assert [(each["fields"], each["built"]) for each in built] == [
        ([], False),
        (["cents"], True),
        (["cents", "number"], True),
        (["number"], True),
    ]
    again = json.loads(run("collections", "index", "build", APP, "--json", "--url", url).stdout)
    assert not any(each["built"] for each in again)
    rows = run("collections", "index", "ls", "parcel", "--url", url).stdout.splitlines()
    name = next(row.split("\t")[0] for row in rows if row.startswith("parcel#amount"))
    assert run("collections", "index", "drop", "parcel#amount", "--url", url).stdout.startswith(f"{name}\t")
    assert name not in run("collections", "index", "ls", "--url", url).stdout
    run("collections", "index", "drop", name, "--url", url, exit=3)


def test_a_dropped_index_is_built_again_by_a_program_that_declares_it(run: Run, url: str) -> None:
    app, parcels = former()
    run("collections", "index", "drop", "parcel#amount", "--url", url)
    put(url, "later", amount=25, number="9")
    with app.open(url):
        assert parcels.where(Former.amount > 15).values(Former.amount) == [20, 25, 30, 40]


def test_a_program_that_uses_a_dropped_index_is_told(run: Run, url: str) -> None:
    app, parcels = former()
    with app.open(url):
        dear = parcels.where(Former.amount > 15).order_by(Former.amount)
        assert dear.values(Former.amount) == [20, 30, 40]
        run("collections", "index", "drop", "parcel#amount", "--url", url)

        def is_told() -> bool:
            try:
                dear.values(Former.amount)
            except QueryError as error:
                return error.code == "HW120"
            return False

        until(is_told, "the query is refused")


def test_a_unique_index_that_cannot_be_built_is_refused(run: Run, url: str, tmp_path: Path) -> None:
    force(run, url, "twin", amount=0, number="0")
    tmp_path.joinpath("strict.py").write_text(
        "import headwater as hw\n"
        "from tests.declare.collections.parcels import HOW, Parcel\n"
        "app = hw.App('strict')\n"
        "parcels = app.collection(Parcel, unique=[Parcel.number], changes=HOW)\n"
    )
    sys.path.insert(0, str(tmp_path))
    try:
        refused = run("collections", "index", "build", "strict:app", "--url", url, exit=4)
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("strict", None)
    assert "HW215" in refused.stderr
    assert "number" not in run("collections", "index", "ls", "parcel", "--url", url).stdout


def test_a_unique_index_is_dropped_with_force_only(run: Run, url: str) -> None:
    app, _ = today(unique=True)
    with app.open(url):
        pass
    rows = json.loads(run("collections", "index", "ls", "--json", "--url", url).stdout)
    name = next(each["index"] for each in rows if each["unique"])
    refused = run("collections", "index", "drop", name, "--url", url, exit=2)
    assert "equal values are no longer refused; add --force" in refused.stderr
    found = json.loads(run("collections", "index", "drop", name, "--force", "--json", "--url", url).stdout)
    assert found["index"] == name


def test_keys_of_a_kind_are_read_in_slices(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.client.server_documents.KEYS_MAX", 2)
    with server_documents(parse_server(url, None), None, "main") as found:
        keys = found.keys("parcel", "space")
        assert len(set(keys)) == len(keys) == 5
        assert set(found.read(keys)) == set(keys)
        watched = found._spans._link.session.watched
        assert set(keys) <= set(watched)
        found.release(keys)
        until(lambda: not set(keys) & set(watched), "the documents of a batch are not watched after it")


def test_a_batch_that_is_too_large_for_a_frame_is_sent_in_parts(
    run: Run, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (10, 11, 12):
        put(url, str(number), amount=number, number=str(number), things=["x" * 5_000])
    # Each frame of the client: two such lists are too much, one is not.
    monkeypatch.setattr("headwater.client.server_link.FRAME_BYTES_MAX", 9_000)
    assert run("collections", "migrate", APP, "--url", url).stdout == DONE.format(8)
