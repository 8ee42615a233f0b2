"""The tables of a database with spaces. They are made once, by the first program that opens a space in it.

Texts of authors are stored as bytes in UTF-8: PostgreSQL's text cannot hold the character zero, and bytes have the
order of Python's texts, whatever the collation of the database.
"""

from __future__ import annotations

from typing import Final

from headwater.errors import MigrationError
from headwater.store.backends.postgres.database_link import DatabaseLink

FORMAT: Final = 1
"""Raised when the tables change. All programs at one database need the same."""

TABLES: Final = """
create table hw_meta(key text primary key, value text not null);
create table hw_server(id bigint primary key, name text not null, url text, version text not null,
    beat bigint not null, at timestamptz not null);
create table hw_space(id bigint primary key, name text not null unique, space_id text not null unique,
    lineage text not null, features text not null, owner bigint, epoch bigint not null, groups bigint not null,
    head bigint not null, since timestamptz not null) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000);
create table hw_fact(space bigint, key bytea, value bytea not null, sum bigint not null, primary key(space, key));
create table hw_log(space bigint, seq bigint, body bytea not null, chain bytea not null, sum bigint not null,
    primary key(space, seq));
create table hw_branch(space bigint, name bytea, number int not null, parent bytea, fork_seq bigint not null,
    at bigint not null, merges bytea not null, sum bigint not null, primary key(space, name));
create table hw_head(space bigint, branch bytea, doc bytea, seq bigint not null, live bool not null,
    size bigint not null, since bigint not null, whole bytea, sum bigint not null, primary key(space, branch, doc))
    with (fillfactor = 70);
create table hw_revision(space bigint, branch bytea, doc bytea, seq bigint, before bigint not null,
    primary key(space, branch, doc, seq));
create table hw_snapshot(space bigint, branch bytea, doc bytea, seq bigint, body bytea, sum bigint not null,
    primary key(space, branch, doc, seq));
create table hw_replay(space bigint, session bytea, first bigint, last bigint not null, seq bigint not null,
    sum bigint not null, primary key(space, session, first));
create table hw_observation(space bigint, branch bytea, doc bytea, seq bigint not null, body bytea not null,
    whole bytea, sum bigint not null, primary key(space, branch, doc));
create table hw_index(space bigint, id int, branch bytea not null, name bytea not null, since bigint not null,
    through bigint not null, count bigint not null, digest bigint not null, sum bigint not null,
    primary key(space, id), unique(space, branch, name));
create table hw_entry(space bigint, idx int, key bytea, whole bytea, primary key(space, idx, key));
create table hw_shift(space bigint, seq bigint, body bytea not null, sum bigint not null, primary key(space, seq));
create table hw_row(space bigint, tbl text, key bytea, body bytea not null, sum bigint not null,
    primary key(space, tbl, key));
alter table hw_log alter body set storage external;
alter table hw_snapshot alter body set storage external
"""
"""Without triggers, functions, sequences and foreign keys. Bodies are compact already: they are not compressed."""

OF_A_SPACE: Final = (
    *("hw_fact", "hw_log", "hw_branch", "hw_head", "hw_revision", "hw_snapshot", "hw_replay", "hw_observation"),
    *("hw_index", "hw_entry", "hw_shift", "hw_row"),
)
"""The tables with rows of a space, besides `hw_space`."""

_LOCK: Final = 0x48575343
"""The advisory lock of the program that makes the tables."""


def has_tables(link: DatabaseLink, schema: str) -> bool:
    """Whether the database has the tables."""
    return link.run("select to_regclass(%b)::text", [f'"{schema}".hw_meta'])[0][0] is not None


def prepare(link: DatabaseLink, schema: str) -> None:
    """Make the tables, unless they are there. Raises MigrationError if they are of a newer format."""
    if not has_tables(link, schema):
        link.run(_make(schema))
    found = link.run("select value from hw_meta where key = 'format'")
    if found != [(str(FORMAT),)]:
        known = found[0][0] if found else "none"
        message = (
            f"the spaces in {link.where} have format {known}, this Headwater reads format {FORMAT}; "
            "install a newer Headwater"
        )
        raise MigrationError(message, found=known, known=FORMAT)


def _make(schema: str) -> str:
    """A block that makes the tables, if no other program has made them while this one waited for the lock."""
    made = TABLES.replace("'", "''")
    return (
        f"do $hw$ begin perform pg_advisory_xact_lock({_LOCK}); if to_regclass('\"{schema}\".hw_meta') is null then "
        f"create schema if not exists \"{schema}\"; execute '{made}'; "
        f"insert into hw_meta values ('format', '{FORMAT}'); end if; end $hw$"
    )
