"""A server to be attacked, and what its owner gives out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headwater.access.rights import Right
from headwater.server.server import Server, Serving
from headwater.server.spaces.served_spaces import ServedSpaces
from headwater.store.commit import SetDoc
from headwater.values.ids import DocKey
from tests.system.attacks.raw import Raw


class Served:
    """One server in a thread of this process."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.port = server.port
        self._tokens: dict[tuple[str, str, str | None], str] = {}
        self._names = 0

    @classmethod
    @contextmanager
    def running(cls, folder: Path, **options: Any) -> Iterator[Served]:
        """As a user of one's own: nothing is left in anybody's home."""
        run = folder / "run"
        run.mkdir(mode=0o700)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_RUNTIME_DIR", str(run))
            patch.setenv("HOME", str(folder))
            for name in [name for name in os.environ if name.startswith("HEADWATER_") and name != "HEADWATER_FUZZ"]:
                patch.delenv(name)
            with Server(Serving(store=folder / "store", port=0, **options)) as server:
                yield cls(server, folder / "store")

    @property
    def spaces(self) -> ServedSpaces:
        assert self.server.spaces is not None
        return self.server.spaces

    def space(self) -> str:
        """The name of a space that nobody has used yet."""
        self._names += 1
        return f"space {self._names}"

    def token(self, space: str, can: str = "own", actor: str | None = None) -> str:
        """As `headwater token create` makes one."""
        key = space, can, actor
        if key not in self._tokens:
            self._tokens[key] = self.server.access.create(
                space=space, can=Right[can.upper()], actor=actor, any_actor=actor is None
            )[0]
        return self._tokens[key]

    def enter(self, space: str, can: str = "own", actor: str | None = None, **how: Any) -> Raw:
        """Somebody who is in a space."""
        return Raw.into(self.port, self.token(space, can, actor), space, **how)

    def fill(self, space: str, **docs: Any) -> None:
        """A space with documents in it, each named for how it is given: `a` is `space/a`."""
        with self.enter(space) as owner:
            operations = tuple(SetDoc(DocKey(f"space/{name}"), value) for name, value in docs.items())
            assert owner.write(1, *operations).seq


def doc(name: str, scope: str = "space") -> DocKey:
    """The key of a document."""
    return DocKey(f"{scope}/{name}")
