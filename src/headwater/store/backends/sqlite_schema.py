"""The tables of a space's file, for each format, and the check that a file has exactly these."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from typing import Final

import apsw

from headwater.errors import CorruptError
from headwater.store.backends.sqlite_entries import TABLES
from headwater.store.backends.workflow_tables import WORKFLOW_STEP_4, WORKFLOW_STEP_5, WORKFLOW_TABLES_3

TABLES_1: Final = """
create table log(seq integer primary key, body blob not null, chain blob not null, sum integer not null) strict;
create table meta(key text primary key, value text not null) strict, without rowid;
create table doc(id integer primary key, key text not null unique) strict;
create table session(id integer primary key, name text not null unique) strict;
create table branch(id integer primary key, name text not null unique, parent text, fork_seq integer not null,
    at integer not null, merges blob not null) strict;
create table head(branch integer not null, doc integer not null, seq integer not null, live integer not null,
    size integer not null, since integer not null, primary key(branch, doc)) strict, without rowid;
create table revision(branch integer not null, doc integer not null, seq integer not null,
    primary key(branch, doc, seq)) strict, without rowid;
create table snapshot(branch integer not null, doc integer not null, seq integer not null, body blob,
    sum integer not null, primary key(branch, doc, seq)) strict;
create table replay(session integer not null, first integer not null, last integer not null, seq integer not null,
    primary key(session, first)) strict, without rowid;
insert into meta values ('folded', '0'), ('horizon', '0'), ('horizon_chain', '');
"""

_OBSERVATION_2: Final = """
create table observation(branch integer not null, doc integer not null, seq integer not null, body blob not null,
    sum integer not null, primary key(branch, doc)) strict, without rowid;
"""

_STEP_4: Final = """
-- A checksum of each row that names what it is about. The second index of `doc` and of `session` confirms a miss.
alter table meta add column sum integer;
alter table doc add column sum integer;
create index doc_sum on doc(sum);
alter table session add column sum integer;
create index session_sum on session(sum);
-- How many rows of `replay` a session has, and the newest number in them.
alter table session add column runs integer not null default 0;
alter table session add column last integer not null default 0;
alter table replay add column sum integer;
alter table branch add column sum integer;
alter table head add column sum integer;
-- The revision before this one of the same document and branch; 0 for the first.
alter table revision add column before integer not null default 0;

update revision set before = coalesce(
    (select max(seq) from revision as r
        where r.branch = revision.branch and r.doc = revision.doc and r.seq < revision.seq),
    (select max(seq) from snapshot as s where s.branch = revision.branch and s.doc = revision.doc
        and s.seq < revision.seq and s.seq <= (select cast(value as integer) from meta where key = 'horizon')),
    0);
update doc set sum = headwater_sum(key);
update session set sum = headwater_sum(name), runs = (select count(*) from replay where session = id),
    last = coalesce((select max(r.last) from replay as r where session = id), 0);
update replay set sum = headwater_sum((select name from session where id = session), first, last, seq);
update branch set sum = headwater_sum(name, parent, fork_seq, at, hex(merges));
update head set sum = headwater_sum((select name from branch where id = branch), (select key from doc where id = doc),
    seq, live, size, since);
insert or ignore into meta(key, value) values
    ('features', ''),
    ('durability', 'full'),
    ('horizon_digest', ''),
    ('space_id', headwater_space_id(randomblob(16))),
    ('lineage', lower(hex(randomblob(8)))),
    ('docs', (select count(*) from doc)),
    ('heads', (select count(*) from head));
update meta set sum = headwater_sum(key, value);
"""
"""What format 4 changes in the tables above."""

MIGRATIONS: Final = {1: _OBSERVATION_2, 2: WORKFLOW_TABLES_3, 3: _STEP_4 + WORKFLOW_STEP_4, 4: WORKFLOW_STEP_5}
"""Statements that bring a file of each format to the next one. A new file takes the same steps as an old one."""

SUM: Final = "headwater_sum"
"""The name of the checksum function in the statements above."""

NEW_ID: Final = "headwater_space_id"
"""The name of the function that makes a space id of random bytes."""

_STATISTICS: Final = ("sqlite_stat1", "sqlite_stat4")
"""The tables of `analyze`: statistics for SQLite's query planner."""


DIGESTS: Final = {
    1: "4278fae54dd0f52d6fc5ac870d6c7884",
    2: "fb3af8ddca1c7103e94722a18ba92cb6",
    3: "99765c02cb5c663832d50f473b49005b",
    4: "ebe94464065f9c338af9742733560b7e",
    5: "dd4c5c8c6001ecf4cf160bf2514dfb28",
}
"""Digests of the schema of each format. A missing or wrong one only costs time at opening."""


def statements(version: int) -> str:
    """The statements that create the tables of a format."""
    return TABLES_1 + " ".join(MIGRATIONS[number] for number in range(1, version))


def digest_of(schema: dict[tuple[str, str], str]) -> str:
    """The digest of a schema."""
    return sha256(repr(sorted(schema.items())).encode(errors="surrogatepass")).hexdigest()[:32]


@cache
def expected_schema(version: int) -> dict[tuple[str, str], str]:
    """The schema of a format, as SQLite reports it."""
    db = apsw.Connection(":memory:")
    db.create_scalar_function(SUM, lambda *_: 0)
    db.create_scalar_function(NEW_ID, lambda *_: "")
    db.execute(statements(version))
    found = schema_of(db)
    db.close()
    return found


@cache
def _optional() -> dict[tuple[str, str], str]:
    """The tables of collections, which a file may have, as SQLite reports them."""
    db = apsw.Connection(":memory:")
    db.execute("; ".join(TABLES.values()))
    found = schema_of(db)
    db.close()
    return found


def schema_of(db: apsw.Connection) -> dict[tuple[str, str], str]:
    """Every table, index, trigger and view, by kind and name, with its statement."""
    query = "select type, name, tbl_name || ': ' || coalesce(sql, '') from sqlite_schema"
    rows = db.execute(query, can_cache=False)
    return {(str(kind), str(name)): str(sql) for kind, name, sql in rows if name not in _STATISTICS}


def check_schema(db: apsw.Connection, path: str, version: int) -> None:
    """Raise CorruptError unless the file has exactly the schema of its format.

    A trigger of another program would run within our transactions, and its tables would get into our backups.
    """
    found = schema_of(db)
    for key, statement in _optional().items():
        if found.get(key) == statement:
            del found[key]
    if digest_of(found) == DIGESTS.get(version):
        return
    expected = expected_schema(version)
    for kind, name in found.keys() - expected.keys():
        message = (
            f"cannot open {path}: it has a {kind} {name!r} that is not Headwater's; remove it with the program that "
            f"made it (`drop {kind} {name}`), or restore a backup"
        )
        raise CorruptError(message, path=path, found=name)
    for kind, name in expected.keys() - found.keys():
        message = f"{path} is damaged: no such {kind}: {name}; run `headwater verify`, then restore a backup"
        raise CorruptError(message, path=path, found=name)
    for kind, name in expected:
        if found[kind, name] != expected[kind, name]:
            message = f"cannot open {path}: its {kind} {name!r} is not the one of format {version}; restore a backup"
            raise CorruptError(message, path=path, found=name)
