"""Damage that SQLite does not detect: a missing row is distinguished from a row that was never written.

A flipped byte in a key, or in the pages above it, makes a lookup find nothing, and SQLite does not know that there was
a row. So every miss is confirmed by a second structure that the same damage cannot reach: the index of checksums for
keys, revisions and snapshots for heads, links between revisions, counts for listings.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, TypeAlias

import apsw

from headwater.errors import CorruptError
from headwater.store.backends.checksums import sum_of
from headwater.store.backends.sqlite_caches import BRANCH, DOC, json_list
from headwater.values.ids import NEVER, Seq

Rows: TypeAlias = "list[tuple[apsw.SQLiteValue, ...]]"

NEEDED: Final = (
    "folded",
    "horizon",
    "horizon_chain",
    "horizon_digest",
    "features",
    "durability",
    "space_id",
    "lineage",
    "docs",
    "heads",
)
"""Properties that every file has."""


def lower_bound(after: str, prefix: str) -> tuple[str, str]:
    """The condition for keys above one and from another on, with its parameter: the one of the two that decides."""
    return ("key > ?", after) if after >= prefix else ("key >= ?", prefix)


class DamageCheck:
    """Confirms misses. `read` runs a query; `corrupt` makes the error for a finding."""

    def __init__(self, read: Callable[[str, Sequence[object]], Rows], corrupt: Callable[[str], CorruptError]) -> None:
        self._read = self._read_once = read
        self._corrupt = corrupt
        self._is_counted = False

    # -- at opening ----------------------------------------------------------------------------------------

    def opened(self, read_once: Callable[[str, Sequence[object]], Rows]) -> None:
        """Check the small tables that every lookup depends on: properties of the space, and branches."""
        self._read_once = read_once
        rows = read_once("select key, value, sum from meta", ())
        for key, value, checksum in rows:
            self.fact(str(key), value, checksum)
        missing = set(NEEDED) - {str(row[0]) for row in rows}
        if missing:
            raise self._corrupt(f"the space's {min(missing)} is missing")
        names = read_once("select id, name, parent, fork_seq, at, hex(merges), sum from branch order by id", ())
        found = read_once("select count(*) from branch indexed by sqlite_autoindex_branch_1", ())
        for number, name, *rest, checksum in names:
            if sum_of(name, *rest) != checksum or read_once(f"select {BRANCH}", (name,)) != [(number,)]:
                raise self._corrupt(f"branch {name} is not as it was written")
        if found != [(len(names),)]:
            raise self._corrupt("branches are missing")

    def fact(self, key: str, value: apsw.SQLiteValue, checksum: apsw.SQLiteValue) -> str:
        """The value of a row of `meta`, checked."""
        if sum_of(key, value) != checksum:
            raise self._corrupt(f"the space's {key} does not match its checksum")
        return str(value)

    # -- documents -----------------------------------------------------------------------------------------

    def absent(self, branch: str, doc: str) -> None:
        """Confirm that a document without a head on a branch is not in any other table."""
        [[number, on]] = self._read(f"select {DOC}, {BRANCH}", (doc, branch))
        self._confirmed("doc", "key", doc, number)
        if number is not None and on is not None and self._is_written(on, number):
            raise self._corrupt(f"{doc} was written on branch {branch}, but has no head there")

    def without_head(self, branch: str, docs: Sequence[str]) -> None:
        """Confirm that documents without a head on a branch are not in any other table. `known` has confirmed them."""
        query = (
            "select doc.key from json_each(?) wanted cross join doc on doc.key = wanted.value "
            f"where exists(select 1 from revision where branch = {BRANCH} and revision.doc = doc.id) "
            f"or exists(select 1 from snapshot where branch = {BRANCH} and snapshot.doc = doc.id) limit 1"
        )
        for (key,) in self._read(query, (json_list(docs), branch, branch)):
            raise self._corrupt(f"{key} was written on branch {branch}, but has no head there")

    def known(self, docs: Sequence[str], found: Collection[str]) -> None:
        """Confirm which of the documents have a number, by the index of checksums."""
        query = "select key, sum from doc indexed by doc_sum where sum in (select value from json_each(?))"
        confirmed: set[object] = set()
        for key, checksum in self._read(query, (json_list([sum_of(doc) for doc in docs]),)):
            if sum_of(key) != checksum:
                raise self._corrupt(f"{key!r} does not match its checksum")
            confirmed.add(key)
        for doc in docs:
            if (doc in found) != (doc in confirmed):
                raise self._corrupt(f"{doc} is there, but cannot be found by its name")

    def _confirmed(self, table: str, column: str, name: str, number: object) -> None:
        """Confirm the number of a name, or that it has none, by the index of checksums."""
        checksum = sum_of(name)
        query = f"select id, {column} from {table} indexed by {table}_sum where sum = ?"
        confirmed = None
        for found, other in self._read(query, (checksum,)):
            if other == name:
                confirmed = found
            elif sum_of(other) != checksum:
                raise self._corrupt(f"{other!r} does not match its checksum")
        if number != confirmed:
            raise self._corrupt(f"{name} is there, but cannot be found by its name")

    def _is_written(self, branch: object, doc: object) -> bool:
        query = (
            "select exists(select 1 from revision where branch = ?1 and doc = ?2) "
            "or exists(select 1 from snapshot where branch = ?1 and doc = ?2)"
        )
        return self._read(query, (branch, doc)) != [(0,)]

    def newest(self, branch: str, doc: str, through: int) -> Seq:
        """The newest revision up to a commit: by the link of the next one, or by the head."""
        row_key = f"branch = {BRANCH} and doc = {DOC}"
        query = f"select before from revision where {row_key} and seq > ? order by seq limit 1"
        above = self._read(query, (branch, doc, through))
        found = above or self._read(f"select seq from head where {row_key}", (branch, doc))
        return Seq(int(str(found[0][0]))) if found else NEVER

    def revisions(self, doc: str, rows: Rows, newest: Seq, ends: range) -> None:
        """Check the links of revisions, newest first. `ends`: what the last one may be linked to."""
        linked: object = newest
        for seq, before in rows:
            if seq != linked:
                raise self._missing(doc, linked, seq)
            linked = before
        if linked not in ends:
            raise self._missing(doc, linked, ends.start)

    def _missing(self, doc: str, seq: object, found: object) -> CorruptError:
        return self._corrupt(f"revision {seq} of {doc} is missing; the newest that is found before it is {found}")

    # -- listings ------------------------------------------------------------------------------------------

    def counted(self) -> None:
        """Compare the counts of keys and heads, once per opening, before the first listing."""
        if self._is_counted:
            return
        query = (
            "select (select count(*) from doc indexed by sqlite_autoindex_doc_1), (select count(*) from head), "
            "(select value from meta where key = 'docs'), (select value from meta where key = 'heads')"
        )
        [[docs, heads, docs_told, heads_told]] = self._read_once(query, ())
        if (str(docs), str(heads)) != (docs_told, heads_told):
            found = f"{docs} keys and {heads} heads of documents are found, {docs_told} and {heads_told} were written"
            raise self._corrupt(found)
        self._is_counted = True

    def listed(self, branch: str, keys: Sequence[str], start: tuple[str, str], end: tuple[str, str] | None) -> None:
        """Check the keys of a listing: above and from the two of `start`; `end` as in a query.

        A damaged key is out of order, or outside the range of its neighbors.
        """
        after, prefix = start
        last = after
        for key in keys:
            if key <= last or key < prefix:
                raise self._corrupt(f"the key {key} is out of order")
            last = key
        self._edge("key <= ? order by key desc", max(start))
        stretch, bound = lower_bound(after, prefix)
        bounds: list[object] = [bound]
        if end is not None:
            stretch, bounds = f"{stretch} and key {end[0]} ?", [*bounds, end[1]]
            self._edge("key >= ? order by key", end[1])
        [[count]] = self._read(f"select count(*) from doc where {stretch}", bounds)
        if count != len(keys):
            self._without_head(branch, stretch, bounds)

    def _edge(self, where: str, key: str) -> None:
        query = f"select key, sum from doc where {where} limit 1"
        for found, checksum in self._read(query, (key,)):
            if sum_of(found) != checksum:
                raise self._corrupt(f"the key {found!r} does not match its checksum")

    def _without_head(self, branch: str, stretch: str, bounds: Sequence[object]) -> None:
        """Check the keys without a head: documents of other branches, and functions without a result."""
        query = (
            f"select key from doc where {stretch} "
            f"and not exists(select 1 from head where head.branch = {BRANCH} and head.doc = doc.id) "
            f"and (exists(select 1 from revision where revision.branch = {BRANCH} and revision.doc = doc.id) "
            f"or exists(select 1 from snapshot where snapshot.branch = {BRANCH} and snapshot.doc = doc.id)) limit 1"
        )
        for (key,) in self._read(query, (*bounds, branch, branch, branch)):
            raise self._corrupt(f"{key} was written on branch {branch}, but has no head there")

    # -- sessions ------------------------------------------------------------------------------------------

    def session(self, name: str) -> int:
        """The newest commit of a session, after its rows are counted; 0 if there is no such session."""
        [[number]] = self._read("select (select id from session where name = ?)", (name,))
        self._confirmed("session", "name", name, number)
        if number is None:
            return 0
        [[runs, last]] = self._read("select runs, last from session where id = ?", (number,))
        rows = self._read("select first, last, seq, sum from replay where session = ?", (number,))
        for row in rows:
            self.run(name, row)
        newest = max((int(str(row[1])) for row in rows), default=0)
        if (runs, last) != (len(rows), newest):
            found = f"session {name} has {runs} runs of commits up to {last}; {len(rows)} up to {newest} are found"
            raise self._corrupt(found)
        return newest

    def run(self, name: str, row: Sequence[apsw.SQLiteValue]) -> None:
        """Check a row of `replay`."""
        if sum_of(name, *row[:-1]) != row[-1]:
            raise self._corrupt(f"commits {row[0]} to {row[1]} of session {name} do not match their checksum")
