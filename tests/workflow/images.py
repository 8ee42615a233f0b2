"""Spaces whose process can be killed: what was on disk after any commit is kept aside, and opened in its place."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy, deepcopy
from pathlib import Path
from typing import Any
from unittest.mock import patch

import apsw

from headwater.host import space_files
from headwater.host.postgres import database_opening
from headwater.store.backends.memory_backend import MemoryBackend
from headwater.store.backends.postgres.postgres_backend import PostgresBackend
from headwater.store.backends.sqlite import SqliteBackend
from headwater.store.backends.sqlite_tables import SqliteTables
from tests.support.postgres import clone_space, cluster, new_name


class Disk:
    """Where a space is, and what it would be if the process had ended after a commit."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self._folder = folder
        self._number = 0
        self._space = new_name()
        self._memory = MemoryBackend()
        self._image: MemoryBackend | Path | None = None
        # Commits from now until the process is killed; None: it lives.
        self.left: int | None = None
        self.on_kill: Callable[[], None] = lambda: None

    @property
    def url(self) -> str:
        if self.kind == "postgres":
            return f"{cluster().url()}&space={self._name}"
        return "memory:" if self.kind == "memory" else str(self._path)

    @property
    def _name(self) -> str:
        return f"{self._space}-{self._number}"

    @property
    def _path(self) -> Path:
        return self._folder / f"{self._number}.db"

    @property
    def is_killed(self) -> bool:
        """Whatever happens from here on is not kept."""
        return self._image is not None

    def kill(self) -> None:
        """Keep what is there now; the process only seems to live from here on. Between two commits."""
        if self._image is None:
            self._image = _clone(self._memory) if self.kind == "memory" else self._copy()
            self.left = None
            self.on_kill()

    def _copy(self) -> Path:
        if self.kind == "postgres":
            clone_space(self._name, f"{self._space}-{self._number + 1}")
            return Path()
        image = self._folder / f"{self._number + 1}.db"
        for suffix in ("", "-wal"):
            source = Path(f"{self._path}{suffix}")
            if source.exists():
                shutil.copyfile(source, f"{image}{suffix}")
        return image

    def turn_on(self) -> None:
        """From here on, the space is what was kept."""
        image, self._image, self.left = self._image, None, None
        assert image is not None
        if isinstance(image, MemoryBackend):
            self._memory = image
        else:
            self._number += 1

    def committed(self) -> None:
        """One more group is on disk."""
        if self.left is not None:
            self.left -= 1
            if self.left <= 0:
                self.kill()

    @contextmanager
    def opened_here(self) -> Iterator[None]:
        """Whoever opens a space now, opens this one."""
        disk = self

        class File(SqliteBackend):
            def append(self, *rows: Any) -> None:
                super().append(*rows)
                disk.committed()

        class Database(PostgresBackend):
            def append(self, *rows: Any) -> None:
                super().append(*rows)
                disk.committed()

        def memory() -> MemoryBackend:
            kept = disk._memory

            class Memory(MemoryBackend):
                def append(self, *rows: Any) -> None:
                    super().append(*rows)
                    disk.committed()

            made = disk._memory = Memory()
            vars(made).update(vars(kept))
            return made

        with (
            patch.object(space_files, "SqliteBackend", File),
            patch.object(space_files, "MemoryBackend", memory),
            patch.object(database_opening, "PostgresBackend", Database),
        ):
            yield


def _clone(backend: MemoryBackend) -> MemoryBackend:
    made = MemoryBackend()
    vars(made).update({name: _deep(value) for name, value in vars(backend).items() if name != "_tables"})
    if backend._tables is not None:
        db = apsw.Connection(":memory:")
        db.deserialize("main", backend._tables._db.serialize("main"))
        db.execute("pragma foreign_keys = on")
        made._tables = SqliteTables(db, backend._tables._explain)
    return made


def _deep(value: Any) -> Any:
    """Containers anew, with the same rows in them: those never change."""
    if isinstance(value, dict):
        return {key: _deep(each) for key, each in value.items()}
    return copy(value) if isinstance(value, list) else value if isinstance(value, tuple) else deepcopy(value)
