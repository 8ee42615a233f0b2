"""The stores of rows that collections are compared with, each behind the same few verbs: load, filter, read, page."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import sqlalchemy as sa
from sqlalchemy import orm
from tinydb import Query, TinyDB

Row = tuple[int, str, int]
"""The number, the state and the cents of an order."""


class Peer(Protocol):
    """Orders in a file, with an index of the state and of the number, where the store has indexes."""

    name: str

    def load(self, rows: Sequence[Row]) -> None:
        """Insert all rows, durably."""

    def filtered(self, state: str) -> int:
        """The sum of the cents of all orders in a state, one object each."""

    def all(self) -> int:
        """How many pairs of number and state are read."""

    def page(self, first: int) -> int:
        """The cents of fifty orders by number."""


class Sqlite:
    """The standard library's `sqlite3`."""

    name = "sqlite3"

    def __init__(self, folder: Path) -> None:
        self._db = sqlite3.connect(folder / "sqlite.db")
        self._db.executescript(
            "pragma journal_mode = wal; pragma synchronous = full;"
            "create table orders(id text primary key, number integer, state text, cents integer) without rowid, strict;"
            "create index by_state on orders(state, number); create index by_number on orders(number)"
        )

    def load(self, rows: Sequence[Row]) -> None:
        with self._db:
            self._db.executemany("insert into orders values (?, ?, ?, ?)", ((f"o{row[0]:019}", *row) for row in rows))

    def filtered(self, state: str) -> int:
        return sum(cents for (cents,) in self._db.execute("select cents from orders where state = ?", (state,)))

    def all(self) -> int:
        return len(self._db.execute("select number, state from orders").fetchall())

    def page(self, first: int) -> int:
        query = "select number, state, cents from orders where number >= ? order by number limit 50"
        return sum(row[2] for row in self._db.execute(query, (first,)))


class _Base(orm.DeclarativeBase):
    """The tables of the object mapper."""


class _Mapped(_Base):
    __tablename__ = "orders"
    number: orm.Mapped[int] = orm.mapped_column(index=True, primary_key=True)
    state: orm.Mapped[str] = orm.mapped_column(index=True)
    cents: orm.Mapped[int]


class Mapper:
    """SQLAlchemy's object mapper on SQLite."""

    name = "SQLAlchemy"

    def __init__(self, folder: Path) -> None:
        self._engine = sa.create_engine(f"sqlite:///{folder / 'mapper.db'}")
        _Base.metadata.create_all(self._engine)

    def load(self, rows: Sequence[Row]) -> None:
        with orm.Session(self._engine) as session:
            session.add_all([_Mapped(number=number, state=state, cents=cents) for number, state, cents in rows])
            session.commit()

    def filtered(self, state: str) -> int:
        with orm.Session(self._engine) as session:
            return sum(row.cents for row in session.scalars(sa.select(_Mapped).where(_Mapped.state == state)))

    def all(self) -> int:
        with orm.Session(self._engine) as session:
            return len([(row.number, row.state) for row in session.scalars(sa.select(_Mapped))])

    def page(self, first: int) -> int:
        query = sa.select(_Mapped).where(_Mapped.number >= first).order_by(_Mapped.number).limit(50)
        with orm.Session(self._engine) as session:
            return sum(row.cents for row in session.scalars(query))


class Tiny:
    """TinyDB: one JSON file, which each change writes anew; no indexes."""

    name = "TinyDB"

    def __init__(self, folder: Path) -> None:
        self._db = TinyDB(folder / "tiny.json")

    def load(self, rows: Sequence[Row]) -> None:
        self._db.insert_multiple({"number": number, "state": state, "cents": cents} for number, state, cents in rows)

    def filtered(self, state: str) -> int:
        return sum(row["cents"] for row in self._db.search(Query().state == state))

    def all(self) -> int:
        return len([(row["number"], row["state"]) for row in self._db.all()])

    def page(self, first: int) -> int:
        found = sorted(self._db.search(Query().number >= first), key=lambda row: int(row["number"]))
        return sum(row["cents"] for row in found[:50])
