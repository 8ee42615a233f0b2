"""What format 4 brings: features, an id and a lineage for every space; and files with something foreign are refused."""

from __future__ import annotations

from pathlib import Path
from shutil import copyfile

import apsw
import pytest

import headwater as hw
from headwater.errors import CorruptError, LimitError, MigrationError, UsageError
from headwater.store import features
from headwater.store.backend import Backend
from headwater.store.backends import sqlite_schema
from headwater.store.backends.checksums import sum_of
from headwater.store.backends.memory_backend import MemoryBackend
from headwater.store.backends.sqlite import SqliteBackend
from headwater.store.backends.sqlite_file import FORMAT
from headwater.store.engine import Engine
from headwater.testing import SimClock
from tests.store.test_formats import FIXTURES, SPACES


@pytest.fixture(params=["memory", "sqlite"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    return MemoryBackend() if request.param == "memory" else SqliteBackend(str(tmp_path / "space.db"))


def facts(path: Path) -> list[str | None]:
    backend = SqliteBackend(str(path), create=False)
    found = [backend.meta(key) for key in ("space_id", "lineage", "features")]
    backend.close()
    return found


# --- features ---------------------------------------------------------------------------------------------------


def test_space_uses_no_feature_until_one_is_required(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(backend, SimClock())
    assert backend.features() == ""
    monkeypatch.setitem(features.KNOWN, "spaces", "2.0")  # type: ignore[arg-type]
    monkeypatch.setitem(features.KNOWN, "batches", "1.5")  # type: ignore[arg-type]
    for name in ("spaces", "batches", "spaces"):
        engine.require(name)
    assert backend.features() == "batches=1.5 spaces=2.0"
    backend.close()


@pytest.mark.parametrize("name", ["labels", "Batches", "two words", "", "a=b"])
def test_feature_that_this_version_does_not_know_cannot_be_required(backend: Backend, name: str) -> None:
    with pytest.raises(UsageError, match="is no feature that this Headwater knows"):
        Engine(backend, SimClock()).require(name)
    backend.close()


def test_space_uses_at_most_six_features() -> None:
    known = {f"f{number}": "1.0" for number in range(7)}
    text = ""
    for number in range(6):
        text = features.with_feature(text, f"f{number}", known)
    assert features.with_feature(text, "f3", known) == text
    with pytest.raises(LimitError, match="at most 6"):
        features.with_feature(text, "f6", known)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("batches=1.7", "uses the feature 'batches', .* install Headwater 1.7 or newer"),
        ("labels", "uses the feature 'labels', .* install a newer Headwater"),
    ],
)
def test_file_with_an_unknown_feature_is_refused_and_stays_as_it_is(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "space.db"
    SqliteBackend(str(path)).close()
    with apsw.Connection(str(path)) as db:
        db.execute("update meta set value = ?, sum = ? where key = 'features'", (text, sum_of("features", text)))
    db.close()
    before = path.read_bytes()
    with pytest.raises(MigrationError, match=words) as caught:
        SqliteBackend(str(path))
    assert caught.value.facts["feature"] == text.partition("=")[0]
    with pytest.raises(MigrationError, match=words):
        hw.App("late").open(str(path))
    assert path.read_bytes() == before


# --- identity -----------------------------------------------------------------------------------------------------


def test_every_space_has_an_id_and_a_lineage_that_last(tmp_path: Path) -> None:
    paths = [tmp_path / "a.db", tmp_path / "b.db"]
    for path in paths:
        SqliteBackend(str(path)).close()
    first, second = facts(paths[0]), facts(paths[1])
    assert (len(first[0] or ""), len(first[1] or "")) == (20, 16)
    assert first[0] != second[0] and first[1] != second[1]
    assert facts(paths[0]) == first


def test_space_in_memory_has_an_id_and_a_lineage() -> None:
    one, two = MemoryBackend(), MemoryBackend()
    assert len(one.meta("space_id") or "") == 20
    assert one.meta("space_id") != two.meta("space_id") and one.meta("lineage") != two.meta("lineage")


@pytest.mark.parametrize("name", SPACES)
def test_space_of_an_earlier_version_gets_an_id_and_a_lineage_once(name: str, tmp_path: Path) -> None:
    path = tmp_path / "space.db"
    copyfile(FIXTURES / f"{name}.db", path)
    first = facts(path)
    length = 32 if name.startswith("format-4") else 20
    assert (len(first[0] or ""), len(first[1] or ""), first[2]) == (length, 16, "")
    assert facts(path) == first


# --- what is not ours -----------------------------------------------------------------------------------------------


FOREIGN = {
    "trigger": "create trigger spy after insert on log begin delete from flow_topic; end",
    "view": "create view newest as select * from log",
    "table": "create table notes(x)",
    "index": "create index log_sum on log(sum)",
    "virtual table": "create virtual table words using fts5(x)",
    "trigger of ours, changed": "drop trigger flow_decision_final; create trigger flow_decision_final "
    "before update on flow_decision begin select 1; end",
    "column": "alter table log add column note text",
    "trigger of ours, missing": "drop trigger flow_decision_final",
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_file_with_something_foreign_is_refused_and_stays_as_it_is(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "space.db"
    SqliteBackend(str(path)).close()
    with apsw.Connection(str(path)) as db:
        db.execute(FOREIGN[kind])
    db.close()
    before = path.read_bytes()
    with pytest.raises(CorruptError, match=r"not Headwater's|not the one of format|no such trigger"):
        SqliteBackend(str(path))
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", SPACES)
def test_foreign_trigger_in_a_file_of_an_earlier_format_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "space.db"
    copyfile(FIXTURES / f"{name}.db", path)
    with apsw.Connection(str(path)) as db:
        db.execute("create trigger spy after insert on log begin delete from doc; end")
    db.close()
    before = path.read_bytes()
    with pytest.raises(CorruptError, match="a trigger 'spy' that is not Headwater's"):
        SqliteBackend(str(path))
    assert path.read_bytes() == before


def test_statistics_of_sqlite_are_no_foreign_tables(tmp_path: Path) -> None:
    path = tmp_path / "space.db"
    SqliteBackend(str(path)).close()
    with apsw.Connection(str(path)) as db:
        db.execute("analyze")
    db.close()
    SqliteBackend(str(path)).close()


def test_digests_of_schemas_are_those_of_the_statements() -> None:
    made = {
        version: sqlite_schema.digest_of(sqlite_schema.expected_schema(version)) for version in range(1, FORMAT + 1)
    }
    assert made == sqlite_schema.DIGESTS
