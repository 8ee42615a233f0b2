"""Rule 1: a space has an id, made with its file and kept in it. Nothing is derived from the name or the path."""

import asyncio
from pathlib import Path
from shutil import copyfile

import pytest

import headwater as hw
from headwater.errors import UnavailableError
from headwater.server.server import Server
from headwater.store.backends.sqlite import SqliteBackend
from headwater.store.space_identity import identity_of
from headwater.sync import frames
from headwater.values.space_ids import is_space_id, space_id_from
from tests.server.running import served

FIXTURES = Path(__file__).parents[1] / "store" / "fixtures"

stock, shop = hw.App("stock"), hw.App("shop")


def id_at(url: object) -> str:
    with stock.open(str(url)) as space:
        return space.id


def test_two_apps_on_one_file_have_one_id() -> None:
    with stock.open("shop.db") as s, shop.open("shop.db") as p:
        assert s.id == p.id
        assert is_space_id(s.id)


def test_the_id_stays_over_openings_and_moves_with_the_file(tmp_path: Path) -> None:
    first = id_at("shop.db")
    assert id_at("shop.db") == first
    (tmp_path / "shop.db").rename(tmp_path / "moved.db")
    assert id_at("moved.db") == first


def test_spaces_of_one_name_have_different_ids() -> None:
    assert id_at("one/") != id_at("two/")
    with stock.open("memory:") as one, stock.open("memory:") as two:
        assert one.id != two.id


def test_code_in_an_event_loop_sees_the_same_id() -> None:
    async def seen() -> str:
        async with stock.aopen("shop.db") as space:
            return space.id

    assert asyncio.run(seen()) == id_at("shop.db")


@pytest.mark.parametrize("name", ["format-4", "format-4-compacted"])
def test_a_file_with_the_form_of_an_earlier_version_keeps_its_id_and_is_not_changed(name: str, tmp_path: Path) -> None:
    path = tmp_path / "space.db"
    copyfile(FIXTURES / f"{name}.db", path)
    backend = SqliteBackend(str(path))
    stored = backend.meta("space_id") or ""
    backend.close()
    assert len(stored) == 32
    assert id_at(path) == space_id_from(bytes.fromhex(stored)) == id_at(path)
    backend = SqliteBackend(str(path))
    assert backend.meta("space_id") == stored
    backend.close()


def test_a_space_of_a_server_has_the_id_and_the_lineage_of_its_file(store: Path) -> None:
    with served(store) as server, stock.open(f"{server.url}/home") as space:
        found = space.id, space._opening.lineage
    [path] = store.glob("home-*.db")
    backend = SqliteBackend(str(path))
    assert identity_of(backend) == found
    backend.close()


def test_code_in_an_event_loop_has_the_id_of_a_space_of_a_server(server: Server) -> None:
    async def seen() -> str:
        async with stock.aopen(f"{server.url}/home") as space:
            return space.id

    assert asyncio.run(seen()) == id_at(f"{server.url}/home")


def test_a_client_with_a_local_folder_knows_the_id_while_the_server_is_away(store: Path) -> None:
    with served(store) as server:
        url = f"{server.url}/home"
        with stock.open(url, local="kept") as space:
            known = space.id
    with stock.open(url, local="kept") as space:
        assert space.connection.state != "live"
        assert space.id == known


def test_a_server_without_the_extension_tells_no_id(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "EXTENSIONS", ())
    with stock.open(f"{server.url}/home") as space, pytest.raises(UnavailableError, match="update the server"):
        _ = space.id
