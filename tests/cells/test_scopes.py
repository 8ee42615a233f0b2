"""Everybody's, each user's, each session's: which instance of a document is meant, also through links."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.cells.cell import Cell, CellHandle
from headwater.errors import AccessError, AddressError, DeclarationError, NameRefusedError, NotOpen, SchemaError
from headwater.values.hints import schema_of
from tests.cells.kit import ABSENT, depends, inside, link, put, stored
from tests.server.running import served, settle_in


class Prefs(hw.Doc):
    colour: str = "red"


class Shared(hw.Doc, within="space"):
    name: str = "?"


@dataclass
class Panel:
    zoom: hw.Cell[int]
    prefs: Prefs


app = hw.App("s")
everybody = app.cell("cell", 0)
mine = app.cell("mine", 0, scope="user")
now = app.cell("now", 0, scope="session")
prefs = app.doc("prefs", Prefs, scope="user")
panel: hw.Cell[Panel] = app.cell("panel", type=Panel)
panels: hw.Cell[list[Panel]] = app.cell("panels", type=list[Panel])


@contextmanager
def as_actor(folder: Path, actor: str | None) -> Iterator[hw.Space]:
    with app.open(str(folder / "s.db"), actor=actor, durability="normal") as space:
        yield space


def test_cells_are_everybodys_each_users_or_each_sessions(tmp_path: Path) -> None:
    with as_actor(tmp_path, "ann") as first:
        everybody.value, mine.value, now.value = 1, 2, 3
        first.sync()
        with as_actor(tmp_path, "bob"):
            assert (everybody.value, mine.value, now.value) == (1, 0, 0)
            mine.value = 20
        first.settle()
        with as_actor(tmp_path, "ann"):
            assert (everybody.value, mine.value, now.value) == (1, 2, 0)
        assert mine.value == 2
        assert stored(first, "user:ann/s.mine") == 2
        assert stored(first, "user:bob/s.mine") == 20
        assert stored(first, "s.mine") is ABSENT


def test_documents_may_be_each_users_own(tmp_path: Path) -> None:
    with as_actor(tmp_path, "ann"):
        prefs.colour = "blue"
        with as_actor(tmp_path, "bob"):
            assert prefs.colour == "red"
            assert not hw.exists(prefs)
        assert prefs.colour == "blue"


def test_who_does_not_say_who_it_is_has_nothing_of_its_own(tmp_path: Path) -> None:
    with as_actor(tmp_path, None):
        assert everybody.value == 0
        for look in (lambda: mine.value, lambda: now.value, lambda: prefs.colour, lambda: setattr(mine, "value", 1)):
            with pytest.raises(NotOpen, match=r"own documents need to know who that is: open the space with actor="):
                look()


def test_a_scope_that_is_none_is_refused() -> None:
    with pytest.raises(DeclarationError, match=r"'team' is no scope; space, user or session is expected"):
        app.cell("x", 0, scope="team")  # type: ignore[call-overload]
    with pytest.raises(DeclarationError, match=r"'team' is no scope"):

        class Wrong(hw.Doc, within="team"):
            pass


def test_addresses_name_the_scope_until_it_is_known_whose(tmp_path: Path) -> None:
    assert everybody.address == "s.cell"
    assert mine.address == "user!s.mine"
    with as_actor(tmp_path, "ann bee") as space:
        mine.value = 5
        assert space.cell("user:ann%20bee!s.mine").value == 5
        assert space.cell("user:ann%20bee!s.mine").address == "user:ann%20bee!s.mine"


def test_a_document_is_named_as_a_cell_is(tmp_path: Path) -> None:
    with as_actor(tmp_path, "ann") as space:
        mine.value = 5
        prefs.colour = "blue"
        check_names(space)
        everybody.value = 1
        assert hw.exists(space.doc("space!s.cell"))
        assert hw.exists(space.doc("s.cell"))
        assert not hw.exists(space.doc("s.mine"))
        with pytest.raises(AddressError, match=r"is a path in a document, and not a document; space.cell"):
            space.doc("user:ann!s.prefs/colour")
        with pytest.raises(NameRefusedError, match=r"is not a scope"):
            space.doc("user:!s.mine")
        # Without a scope an id is taken as it stands: slashes do not lead anywhere.
        assert hw.id_of(space.doc("a/b!c", Prefs)) == "a/b!c"


def test_a_document_of_a_server_is_named_as_a_cell_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle_in(tmp_path, monkeypatch)
    (tmp_path / "store").mkdir()
    with served(tmp_path / "store") as server:
        with app.open(f"{server.url}/s", actor="ann"):
            mine.value = 5
            prefs.colour = "blue"
        # Another program, which has to ask for them.
        with hw.App("other").open(f"{server.url}/s", actor="ann") as space:
            check_names(space)
        with hw.App("other").open(f"{server.url}/s", actor="bob") as space:
            assert not hw.exists(space.doc("user!s.mine"))
            with pytest.raises(AccessError):
                hw.exists(space.doc("user:ann!s.mine"))


def check_names(space: hw.Space) -> None:
    """As ann, who has both."""
    for name in ("user:ann!s.mine", "user!s.mine", "user:ann!s.prefs", "user!s.prefs"):
        assert hw.exists(space.doc(name)), name
        assert not hw.exists(space.doc(name.replace("s.", "x."))), name
    for name in ("user:ann!s.prefs", "user!s.prefs"):
        assert space.doc(name, Prefs).colour == "blue"
        assert space.doc(name).colour == "blue"
        assert hw.id_of(space.doc(name)) == "s.prefs"


# --- through links ----------------------------------------------------------------------------------------------


def test_a_link_that_says_user_leads_to_the_readers_own(tmp_path: Path) -> None:
    with as_actor(tmp_path, "ann") as space:
        mine.value = 1
        put(space, "both", {"theirs": link("s.mine", scope="user"), "anns": link("s.mine", scope="user:ann")})
        space.sync()
        with as_actor(tmp_path, "bob") as other:
            mine.value = 2
            assert other.cell("both").value == {"theirs": 2, "anns": 1}
        assert space.cell("both/theirs").value == 1
        with space.transaction() as tx:
            assert space.cell("both/theirs").value == 1
            assert {doc for doc, _, _ in depends(tx)} == {"both", "user:ann/s.mine"}


def test_a_link_without_a_scope_stays_in_the_one_it_stands_in(tmp_path: Path) -> None:
    with as_actor(tmp_path, "ann") as space:
        put(space, "user:ann!list", link("s.mine"))
        put(space, "s.mine", "everybody's")
        mine.value = 5
        assert space.cell("user:ann!list").value == 5


def test_a_link_that_says_user_needs_a_user(tmp_path: Path) -> None:
    with as_actor(tmp_path, None) as space:
        put(space, "both", {"theirs": link("s.mine", scope="user")})
        with pytest.raises(NotOpen, match=r"open the space with actor="):
            _ = space.cell("both").value


def test_a_cell_of_a_user_is_stored_as_the_user_of_whoever_reads(tmp_path: Path) -> None:
    with as_actor(tmp_path, "ann") as space:
        mine.value = 1
        panel.value = Panel(mine, prefs)
        assert stored(space, "s.panel")["zoom"] == link("s.mine", scope="user")
        assert stored(space, "s.panel")["prefs"] == link("s.prefs", scope="user")
        prefs.colour = "blue"
        space.sync()
        assert panel.value.zoom.value == 1
        assert panel.value.prefs.colour == "blue"
        with as_actor(tmp_path, "bob"):
            mine.value = 0
            assert panel.value.zoom.value == 0
            assert panel.value.prefs.colour == "red"
            panel.value.zoom.value = 9
            panel.value.prefs.colour = "green"
            assert mine.value == 9
        assert mine.value == 1
        assert prefs.colour == "blue"


def test_a_handle_that_was_read_names_the_same_scope_when_it_is_written(tmp_path: Path) -> None:
    with as_actor(tmp_path, "ann") as space:
        mine.value = 1
        panel.value = Panel(mine, prefs)
        panels.value = [panel.value]
        assert stored(space, "s.panels")[0] == stored(space, "s.panel")
        space.sync()
        with as_actor(tmp_path, "bob"):
            mine.value = 2
            assert panels.value[0].zoom.value == 2
        # Somebody else's stays somebody else's.
        panel.value = Panel(space.cell("user:bob!s.mine", int), prefs)
        assert panel.value.zoom.value == 2
        panels.value = [panel.value]
        assert panels.value[0].zoom.value == 2


def test_an_own_document_is_the_same_however_it_was_found(tmp_path: Path) -> None:
    with as_actor(tmp_path, "ann") as space:
        panel.value = Panel(mine, prefs)
        space.sync()
        found = panel.value.prefs
        assert found == prefs
        assert hash(found) == hash(prefs)
        assert {found: 1}[prefs] == 1
        with as_actor(tmp_path, "bob"):
            assert panel.value.prefs == prefs
            assert panel.value.prefs != found


# --- ceilings ---------------------------------------------------------------------------------------------------


class Broad(CellHandle):
    """A cell that must not be narrower than the space's own."""

    __slots__ = ()
    ceiling = "space"


class UserWide(CellHandle):
    __slots__ = ()
    ceiling = "user"


@pytest.mark.parametrize(("kind", "reaches"), [(CellHandle, 3), (UserWide, 2), (Broad, 1)])
def test_a_link_to_a_narrower_scope_than_the_type_allows_reads_as_absent(
    tmp_path: Path, kind: type[CellHandle], reaches: int
) -> None:
    with as_actor(tmp_path, "ann") as space:
        for number, scope in enumerate(("space", "user", "session")):
            put(space, "at", {"x": link("s.other", scope=scope)})
            cell: Cell[Any] = Cell(space._opening, "at", ("x",), schema=kind(schema_of(int)))
            if number < reaches:
                assert isinstance(cell.value, hw.Cell)
            else:
                with pytest.raises(SchemaError, match=r"at/x has no value yet"):
                    _ = cell.value


def test_a_class_may_say_how_narrow_its_documents_may_be(tmp_path: Path) -> None:
    @dataclass
    class Holder:
        doc: Shared | None = None

    with as_actor(tmp_path, "ann") as space:
        put(space, "user:ann!own", {"name": "own"})
        put(space, "all", {"name": "all"})
        holder = space.cell("holder", Holder)
        put(space, "holder", {"doc": link("all")})
        assert holder.value.doc is not None
        assert holder.value.doc.name == "all"
        put(space, "holder", {"doc": link("own", scope="user")})
        assert holder.value.doc is None


def test_an_optional_link_to_ones_own_document_reads_as_none_while_there_is_none(tmp_path: Path) -> None:
    class Desk(hw.Doc):
        prefs: hw.Link[Prefs | None] = hw.Link()

    with as_actor(tmp_path, "ann"):
        desk = Desk(prefs=prefs)
        assert desk.prefs is None
        prefs.colour = "blue"
        assert desk.prefs == prefs
        assert desk.prefs is not None
        assert desk.prefs.colour == "blue"


def test_a_value_is_read_through_links_of_any_scope(tmp_path: Path) -> None:
    with as_actor(tmp_path, "ann") as space, inside(space):
        now.value = 3
        put(space, "at", [link("s.now", scope="session"), link("s.mine", scope="user")])
        assert space.cell("at").value == [3, None]
