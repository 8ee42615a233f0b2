"""Spaces of a database, as a program opens them: the same as a file, one owner, and errors that say what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import (
    HeadwaterError,
    MigrationError,
    NotFoundError,
    SpaceHeldError,
    UnavailableError,
    UnsafeDatabaseError,
    UsageError,
)
from headwater.host.postgres.database_connection import DatabaseConnection
from headwater.host.postgres.database_url import parse_database_url
from headwater.host.space_files import locate, open_for_questions, open_space
from headwater.runtime.options import Options
from headwater.store.backends.postgres import presence
from headwater.store.backends.postgres.database_link import UnansweredError
from headwater.testing import SimClock
from tests.support.postgres import cluster, database, new_name

PASSWORD = "correct horse"  # noqa: S105  # of no account


@pytest.fixture
def url() -> str:
    database()
    return cluster().url()


@pytest.fixture
def role(url: str) -> Iterator[str]:
    """A user who may connect, and nothing else."""
    name = new_name().replace("-", "_")
    run(url, f"create role {name} login")
    yield name
    run(url, f"drop owned by {name}")
    run(url, f"drop role {name}")


def run(url: str, statement: str) -> None:
    connection = DatabaseConnection(parse_database_url(url))
    connection.run(statement)
    connection.close()


def counter() -> tuple[hw.App, hw.Cell[int]]:
    app = hw.App("counter")
    return app, app.cell("count", 0)


def test_a_program_changes_nothing_but_the_url(url: str) -> None:
    app, count = counter()
    calls: list[int] = []

    @app.computed
    def double() -> int:
        calls.append(count.value)
        return count.value * 2

    space = new_name()
    with app.open(url, space=space) as opened:
        count.value = 5
        assert double() == 10
        opened.sync()
    calls.clear()
    with app.open(url, space=space):
        assert (count.value, double()) == (5, 10)
    # As with a file: what was computed is still valid.
    assert calls == []


def test_handlers_and_workflows_keep_their_promises_over_a_restart(url: str) -> None:
    app = hw.App("shop")
    paid = app.cell("paid", 0)
    flow = app.workflow("pay")
    due = flow.topic("due", int)

    @app.handler
    def order(cents: int) -> None:
        due.publish(cents, id=f"order-{cents}")

    @flow.consumer(due)
    class Charge(hw.Consumer[int, int, str]):
        def prepare(self, pending: Sequence[hw.Event[int]]) -> hw.Plan[int]:
            return hw.Plan(pending[0].data, take=pending[:1]) if pending else hw.Plan.idle()

        def mutate(self, run: hw.Run, plan: int) -> str:
            return run.key

        def next(self, run: hw.Run, plan: int, outcome: hw.Outcome[str]) -> None:
            paid.value += plan

    space = new_name()
    with app.open(url, space=space):
        order.send(100).result(timeout="60s")
    with app.open(url, space=space) as opened:
        opened.workflows.drain()
        assert paid.value == 100
        order.send(100).result(timeout="60s")  # the same id: published once
        opened.workflows.drain()
        assert paid.value == 100


def test_lanes_rates_and_priorities_are_kept_over_a_restart(url: str) -> None:
    clock, called, refused = SimClock(), [], {"ann urgent"}
    app = hw.App("shop")
    flow = app.workflow("pay")
    due = flow.topic("due", dict)

    @flow.consumer(due, key="who", concurrency=2, rate="1/m", retry=hw.Retry(3, backoff="1h"))
    class Charge(hw.Consumer[dict, str, str]):  # type: ignore[type-arg]  # whatever is in it
        def prepare(self, pending: Sequence[hw.Event[dict]]) -> hw.Plan[str]:  # type: ignore[type-arg]
            return hw.Plan(pending[0].id, take=pending[:1]) if pending else hw.Plan.idle()

        def mutate(self, run: hw.Run, plan: str) -> str | hw.NotApplied:
            called.append(plan)
            return hw.NotApplied("not now") if plan in refused else plan

        def next(self, run: hw.Run, plan: str, outcome: hw.Outcome[str]) -> None:
            pass

    def drained() -> list[str]:
        """What is called in a new opening."""
        called.clear()
        with app.open_with(f"{url}&space={space}", Options(wall=clock.now_ms)) as opened:
            opened.workflows.drain()
        return list(called)

    space = new_name()
    with app.open_with(f"{url}&space={space}", Options(wall=clock.now_ms)):
        for one, priority in (("ann first", 5), ("bob", 5), ("ann urgent", 9)):
            due.publish({"who": one.partition(" ")[0]}, id=one, priority=priority)
    assert drained() == ["ann urgent"]
    assert drained() == [], "one call in a minute"
    clock.advance(60_000)
    assert drained() == ["bob"], "her lane waits for its next attempt"
    refused.clear()
    clock.advance(3_600_000)
    assert drained() == ["ann urgent"], "what has begun stays first"
    clock.advance(60_000)
    assert drained() == ["ann first"]


def test_a_space_has_one_owner_at_a_time(url: str) -> None:
    space = new_name()
    app, count = counter()
    with app.open(url, space=space):
        count.value = 1
        code = f"import headwater as hw; hw.App('other').open({url!r}, space={space!r})"
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert f"SpaceHeldError: HW202: space {space!r} at" in other.stderr
        assert f"is open in process {os.getpid()} on" in other.stderr
        with pytest.raises(SpaceHeldError, match="open in this process"):
            open_space(url, space)
        # Another app of this process shares it, as with a file.
        second = hw.App("second")
        with second.open(url, space=space):
            pass


def test_reading_needs_no_ownership_and_sees_one_moment(url: str) -> None:
    space = new_name()
    app, count = counter()
    with app.open(url, space=space) as opened:
        count.value = 1
        opened.sync()
        reader = open_for_questions(url, space)
        assert reader is not None
        before = reader.call(lambda engine: engine.head)
        count.value = 2
        opened.sync()
        assert reader.call(lambda engine: engine.backend.last()).seq == before  # type: ignore[union-attr]
        with pytest.raises(UnavailableError, match="only reads"):
            reader.call(lambda engine: engine.backend.set_meta("x", "y"))
        reader.close()
    with app.open(url, space=space):
        assert count.value == 2


def test_a_space_is_named_in_the_url_or_beside_it_and_has_to_be_there(url: str) -> None:
    space = new_name()
    app, count = counter()
    with app.open(f"{url}&space={space}"):
        count.value = 3
    with app.open(url, space=space):
        assert count.value == 3
    with pytest.raises(UsageError, match="leave one out"):
        app.open(f"{url}&space=a", space="b")
    with pytest.raises(NotFoundError, match=f"no space {space[:-1]!r} at .*; did you mean {space}"):
        app.open(url, space=space[:-1], create=False)


def test_schemas_are_apart(url: str) -> None:
    app, count = counter()
    with app.open(f"{url}&headwater_schema=other_place", space="same"):
        count.value = 1
    with app.open(f"{url}&headwater_schema=third_place", space="same"):
        assert count.value == 0
    with pytest.raises(UsageError, match="not the name of a schema"):
        app.open(f"{url}&headwater_schema=a-b;drop")


# --- errors ----------------------------------------------------------------------------------------------------


def test_without_the_driver_the_message_says_how_to_install_it(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(UsageError, match=r"pip install 'headwater\[postgres\]'"):
        hw.App("a").open(url)


def test_without_a_server_the_message_names_host_and_user_and_no_password() -> None:
    with pytest.raises(UnavailableError) as caught:
        hw.App("a").open(f"postgresql://ann:{PASSWORD.replace(' ', '%20')}@127.0.0.1:1/db")
    assert "cannot connect to postgresql://ann@127.0.0.1:1/db" in str(caught.value)
    assert "is PostgreSQL running there" in str(caught.value)
    assert PASSWORD not in repr((caught.value, caught.value.facts))


def test_a_missing_database_is_named(url: str) -> None:
    with pytest.raises(NotFoundError, match=r"no database at .*/nothing.*createdb"):
        hw.App("a").open(url.replace("/postgres?", "/nothing?"))


def test_a_user_without_rights_is_told_which_to_grant(url: str, role: str) -> None:
    mine = url.replace("postgres@", f"{role}@")
    with pytest.raises(UnsafeDatabaseError, match=r"HW214.*permission denied.*grant"):
        hw.App("a").open(mine, space=new_name())
    with pytest.raises(UnsafeDatabaseError, match=r"HW214.*permission denied.*grant"):
        hw.App("a").open(f"{mine}&headwater_schema=fresh")


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ((13, "on", "on", False, "on"), "version 13; version 14 or newer"),
        ((16, "off", "on", False, "on"), "fsync=off"),
        ((16, "on", "off", False, "on"), "full_page_writes=off"),
        ((16, "on", "on", True, "on"), "standby"),
        ((16, "on", "on", False, "local"), "synchronous_commit stays local"),
    ],
)
def test_a_database_that_cannot_keep_what_is_promised_is_refused(
    found: tuple[int, str, str, bool, str], message: str
) -> None:
    connection = DatabaseConnection(database())
    with pytest.raises(UnsafeDatabaseError, match=message):
        connection._check(*found)
    connection.close()


def test_a_space_that_uses_an_unknown_feature_is_refused(url: str) -> None:
    space = new_name()
    app, _ = counter()
    app.open(url, space=space).close()
    run(f"{url}&headwater_schema=headwater", f"update hw_space set features = 'time=9.9' where name = '{space}'")  # noqa: S608  # the name is ours
    with pytest.raises(MigrationError, match=r"uses the feature 'time'.*install Headwater 9.9"):
        app.open(url, space=space)


def test_a_password_is_in_no_text() -> None:
    secret = parse_database_url("postgresql://ann:geheim@db:5433/shop?password=geheim&sslmode=require&space=eu")
    assert secret.shown == "postgresql://ann@db:5433/shop"
    assert secret.libpq == "postgresql://ann:geheim@db:5433/shop?password=geheim&sslmode=require"
    assert (secret.space, secret.schema) == ("eu", "headwater")


@pytest.mark.parametrize(
    "parameter", ["host=%2Ftmp", "hostaddr=127.0.0.1", "port=6543", "dbname=shop", "user=ann", "service=shop"]
)
def test_a_parameter_that_names_another_database_is_another_space(parameter: str) -> None:
    plain, other = locate("postgresql:///", "eu"), locate(f"postgresql:///?{parameter}", "eu")
    assert plain.key != other.key
    assert other.database is not None
    assert parameter.replace("%2F", "/") in other.database.shown
    # Another way to get to the same one.
    assert locate(f"postgresql:///?{parameter}&connect_timeout=5&password=geheim", "eu").key == other.key


@pytest.mark.parametrize(
    ("variable", "url"),
    [
        ("PGHOST", "postgresql://db/shop"),
        ("PGHOST", "postgresql:///?host=db"),
        ("PGHOSTADDR", "postgresql://db/shop?hostaddr=::1"),
        ("PGPORT", "postgresql://db:5433/shop"),
        ("PGDATABASE", "postgresql://db/shop"),
        ("PGUSER", "postgresql://ann@db/shop"),
        ("PGSERVICE", "postgresql:///?service=shop"),
    ],
)
def test_a_variable_names_another_database_unless_the_url_names_one(
    variable: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(variable, raising=False)
    plain, named = locate("postgresql:///", "eu").key, locate(url, "eu").key
    monkeypatch.setenv(variable, "other")
    assert locate("postgresql:///", "eu").key != plain
    assert locate(url, "eu").key == named


@pytest.mark.parametrize("secret", ["geheim#", "ge#heim", "geheim?", "ge?heim", "#geheim", "geheim/", "g#1/geheim"])
def test_a_password_that_ends_the_host_is_refused_and_not_shown(secret: str) -> None:
    with pytest.raises(UsageError, match="%23") as caught:
        parse_database_url(f"postgresql://ann:{secret}@db/shop")
    assert "geheim" not in str(caught.value)
    assert "heim" not in repr(caught.value.facts)


@pytest.mark.parametrize("hosts", ["db", "db:5433", "db:5433,[::1]:5434,other", "[fe80::1]", "[::1]:5433", ":5433", ""])
def test_hosts_are_passed_on(hosts: str) -> None:
    assert parse_database_url(f"postgresql://{hosts}/shop?user=ann@home").libpq.startswith(f"postgresql://{hosts}/shop")


# --- the command line --------------------------------------------------------------------------------------------


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "headwater", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parent,
    )


@pytest.mark.slow
def test_commands_take_the_url_of_a_database(url: str) -> None:
    space = new_name()
    url = url.replace("postgres@", "postgres:geheim@")
    where = ("--url", url, "--space", space)
    outputs = []

    def ask(*words: str) -> str:
        done = command(*words)
        outputs.append(done.stdout + done.stderr)
        assert done.returncode == 0, done
        return done.stdout

    ask("set", *where, "counter.count", "7", "--create")
    app, count = counter()
    with app.open(url, space=space):
        # Its process is asked.
        assert ask("get", *where, "counter.count") == "7\n"
        ask("set", *where, "counter.count", "8")
        assert count.value == 8
        assert f"open in process {os.getpid()}" in ask("spaces", "ls", url)
        assert '"value":8' in ask("export", *where)
    assert ask("get", *where, "counter.count") == "8\n"
    assert "sound" in ask("verify", *where)
    assert "survives a crash and a power loss" in ask("doctor", "--url", url)
    refused = command("backup", *where, "x.db")
    assert refused.returncode == 2
    assert "back it up with pg_dump" in refused.stderr
    assert not any("geheim" in text for text in [*outputs, refused.stderr])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("serve", "--store", "postgresql://db/shop"), "a server over a database is still to come"),
        (("copy", "x.db", "postgresql://db/shop"), "is a database, and this needs a file"),
        (("restore", "x.db", "--url", "postgresql://db/shop"), "there is no such file"),
        (("spaces", "rename", "other", "--url", "postgresql://db/shop"), "keep their names for now"),
    ],
)
def test_commands_that_need_a_file_say_so_and_make_none(words: tuple[str, ...], told: str, tmp_path: Path) -> None:
    refused = subprocess.run(
        [sys.executable, "-m", "headwater", *words], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert refused.returncode in (2, 3)
    assert told in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_the_first_beat_leaves_no_connection(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise UnansweredError

    monkeypatch.setattr(presence, "register", broken)
    made: list[DatabaseConnection] = []
    connect = DatabaseConnection._connect

    def connecting(self: DatabaseConnection) -> object:
        made.append(self)
        return connect(self)

    monkeypatch.setattr(DatabaseConnection, "_connect", connecting)
    with pytest.raises(UnavailableError, match="broke while the space was opened"):
        open_space(url, new_name())
    assert [each._db.closed for each in made] == [True, True]


def test_an_error_of_the_opening_gives_the_space_back(url: str) -> None:
    space = new_name()
    app, _ = counter()
    with pytest.raises(HeadwaterError):
        app.open(url, space=space, branch="missing", create=False)
    with app.open(url, space=space):
        pass


def test_a_statement_that_waits_too_long_is_refused_and_has_stored_nothing(url: str) -> None:
    space = new_name()
    with open_space(url, space) as storage:
        backend = storage.call(lambda engine: engine.backend)
        run(url, "select 1")
        blocker = DatabaseConnection(parse_database_url(url))
        blocker.run("begin")
        blocker.run("select 1 from hw_space where name = %b for update", [space])
        backend._link._link.run("set lock_timeout = '50ms'")  # type: ignore[attr-defined]
        with pytest.raises(UnavailableError, match="took too long, and has stored nothing"):
            storage.call(lambda engine: engine.backend.set_meta("x", "y"))
        blocker.run("rollback")
        blocker.close()
        storage.call(lambda engine: engine.backend.set_meta("x", "z"))
        assert storage.call(lambda engine: engine.backend.meta("x")) == "z"


def test_parameters_of_the_url_go_before_ours() -> None:
    defaults = {"connect_timeout": 10, "application_name": "headwater"}
    assert parse_database_url("postgresql://db/x?connect_timeout=3").missing(defaults) == {
        "application_name": "headwater"
    }
