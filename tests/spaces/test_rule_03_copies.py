"""Rule 3: a copy has the id of the original, and is not taken for it. Commands that copy give it an id of its own."""

import asyncio
import json
from pathlib import Path
from shutil import copyfile

import pytest

import headwater as hw
from headwater.errors import SpaceTwinError
from headwater.host.space_copies import make_new_space
from headwater.host.space_files import file_name, open_space
from headwater.scheduler.events.outbox import OUTBOX
from headwater.server.server import Server
from headwater.store.commit import SetDoc
from headwater.store.verification import verify
from headwater.values.tree import freeze
from tests.cli.conftest import Run
from tests.server.running import served, token_for

app, other = hw.App("shop"), hw.App("other")
count = app.cell("count", 0)


@pytest.fixture
def twin(tmp_path: Path) -> Path:
    """A copy of shop.db, made by hand."""
    with app.open("shop.db"):
        count.value = 7
    copyfile(tmp_path / "shop.db", tmp_path / "copy.db")
    return tmp_path / "copy.db"


def identity(url: object) -> tuple[str, bytes]:
    with app.open(str(url)) as space:
        return space.id, space._opening.lineage


# --- by hand --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("twin")
def test_a_copy_by_hand_is_refused_while_the_original_is_open() -> None:
    with app.open("shop.db") as space:
        with pytest.raises(SpaceTwinError, match=r"headwater spaces new-id copy\.db") as caught:
            other.open("copy.db")
        assert caught.value.code == "HW114"
        assert space.id in caught.value.message
        count.value = 8
    with app.open("copy.db"):
        assert count.value == 7


@pytest.mark.usefixtures("twin")
def test_code_in_an_event_loop_is_refused_the_same() -> None:
    async def both() -> None:
        async with app.aopen("shop.db"):
            with pytest.raises(SpaceTwinError):
                await other.aopen("copy.db")

    asyncio.run(both())


@pytest.mark.usefixtures("twin")
def test_either_may_be_open_alone_and_again() -> None:
    for url in ("shop.db", "copy.db", "shop.db"):
        with app.open(url), other.open(url):
            assert count.value == 7


def test_one_file_under_two_names_is_no_copy(tmp_path: Path) -> None:
    with app.open("shop.db") as one, other.open(str(tmp_path / "shop.db")) as two:
        assert one.id == two.id


def test_a_new_id_makes_it_a_space_of_its_own(twin: Path, run: Run) -> None:
    first = identity("shop.db")
    found = json.loads(run("spaces", "new-id", twin, "--json").stdout)
    assert found["id"] != first[0]
    assert identity(twin) == (found["id"], bytes.fromhex(found["lineage"]))
    assert identity("shop.db") == first
    with app.open("shop.db"), other.open(str(twin)) as second:
        assert second.cell("shop.count").value == 7


def test_a_new_id_keeps_the_past(twin: Path, run: Run) -> None:
    before = run("history", "shop.count", "--url", twin).stdout
    run("spaces", "new-id", twin)
    assert run("history", "shop.count", "--url", twin).stdout == before
    assert "sound" in run("verify", "--url", twin).stdout


def test_what_a_copy_would_send_to_other_spaces_is_dropped_and_its_own_events_stay(twin: Path, run: Run) -> None:
    entries = {
        "a": {"to": "7k3q9d4m2x8v1n6p0c5r", "stream": "bank.credit", "payload": {}, "order": [1, 1]},
        "b": {"stream": "shop.sell", "payload": {}, "order": [1, 2]},
    }
    with open_space(str(twin), create=False) as storage:
        replica = storage.attach()
        replica.commit((SetDoc(OUTBOX, freeze(entries)),))
        replica.sync()
        replica.detach()
    assert json.loads(run("spaces", "new-id", twin, "--json").stdout)["dropped"] == 1
    assert list(json.loads(run("get", "events:outbox", "--url", twin).stdout)) == ["b"]


def test_entries_for_other_spaces_are_dropped_on_every_branch(twin: Path) -> None:
    entry = {"to": "7k3q9d4m2x8v1n6p0c5r", "stream": "bank.credit", "payload": {}, "order": [1, 1]}
    with open_space(str(twin), create=False) as storage:
        storage.fork("draft", "main", storage.call(lambda engine: engine.head))
        for branch in ("main", "draft"):
            replica = storage.attach(branch=branch)
            replica.commit((SetDoc(OUTBOX, freeze({branch: entry})),))
            replica.sync()
            replica.detach()
        assert make_new_space(storage)[1] == 2
        assert storage.call(verify).findings == []


@pytest.mark.usefixtures("twin")
def test_a_new_id_for_a_file_that_is_open_is_refused(run: Run) -> None:
    with app.open("shop.db") as space:
        assert "is open in" in run("spaces", "new-id", "shop.db", exit=4).stderr
        assert space.id
    assert "no such file" in run("spaces", "new-id", "no.db", exit=3).stderr


# --- at a server ----------------------------------------------------------------------------------------------


@pytest.fixture
def copied(store: Path) -> Path:
    """A server's folder with a space `copy` that was copied from `home` by hand."""
    with app.open(f"{store}/", space="home"):
        count.value = 7
    copyfile(store / file_name("home"), store / file_name("copy"))
    with open_space(str(store / file_name("copy")), create=False) as storage:
        storage.call(lambda engine: engine.backend.set_meta("space", "copy"))
    return store


def test_a_server_refuses_the_second_of_two_copies(copied: Path) -> None:
    with served(copied) as server, app.open(f"{server.url}/home") as space:
        with pytest.raises(SpaceTwinError, match="headwater spaces new-id FILE") as caught:
            other.open(f"{server.url}/copy")
        assert space.id in caught.value.message
        assert "'home'" not in caught.value.message
        # The first goes on.
        count.value = 8
        space.sync()


def test_a_client_that_may_use_only_the_copy_does_not_learn_the_name_of_the_original(copied: Path) -> None:
    with served(copied) as server, app.open(f"{server.url}/home"):
        token = token_for(server, "copy", "own")
        with pytest.raises(SpaceTwinError) as caught:
            other.open(f"{server.url}/copy", token=token)
        assert "home" not in caught.value.message


def test_a_server_opens_both_after_a_new_id(copied: Path, run: Run) -> None:
    run("spaces", "new-id", copied / file_name("copy"))
    with (
        served(copied) as server,
        app.open(f"{server.url}/home") as one,
        other.open(f"{server.url}/copy") as two,
    ):
        assert one.id != two.id


def test_a_file_that_was_copied_from_a_server_is_refused_beside_the_space_of_the_server(
    store: Path, tmp_path: Path
) -> None:
    with app.open(f"{store}/", space="home"):
        count.value = 7
    copyfile(store / file_name("home"), tmp_path / "copy.db")
    with served(store) as server:
        with app.open(f"{server.url}/home"), pytest.raises(SpaceTwinError, match=r"new-id copy\.db"):
            other.open("copy.db")
        with app.open("copy.db"), pytest.raises(SpaceTwinError, match=r"new-id copy\.db"):
            other.open(f"{server.url}/home")


def test_a_space_of_a_server_may_be_open_several_times(server: Server) -> None:
    with app.open(f"{server.url}/home") as one, other.open(f"{server.url}/home") as two:
        assert one.id == two.id


# --- by commands ----------------------------------------------------------------------------------------------


def test_copy_makes_a_new_space(run: Run) -> None:
    with app.open("shop.db"):
        count.value = 7
    found = json.loads(run("copy", "shop.db", "new.db", "--json").stdout)
    assert (found["space"], found["path"]) == ("shop", "new.db")
    with app.open("shop.db") as one, other.open("new.db") as two:
        assert two.id == found["id"] != one.id
        assert two._opening.lineage != one._opening.lineage
        assert two.cell("shop.count").value == 7


def test_fork_to_a_file_makes_a_new_space_with_the_branch(run: Run) -> None:
    with app.open("shop.db"):
        count.value = 7
    first = identity("shop.db")
    found = json.loads(run("fork", "draft", "--to", "new.db", "--url", "shop.db", "--json").stdout)
    assert found["id"] != first[0]
    assert "draft" in run("branches", "--url", "new.db").stdout
    assert "draft" not in run("branches", "--url", "shop.db").stdout
    with app.open("shop.db"), other.open("new.db", branch="draft") as two:
        assert two.id == found["id"]
        assert two.cell("shop.count").value == 7


def test_a_backup_is_the_same_space_and_a_new_one_only_if_asked(run: Run) -> None:
    with app.open("shop.db"):
        count.value = 7
    first = identity("shop.db")
    run("backup", "same.db", "--url", "shop.db")
    assert identity("same.db") == first
    run("backup", "new.db", "--as-new", "--url", "shop.db")
    made = identity("new.db")
    assert made[0] != first[0]
    assert made[1] != first[1]


def test_a_renamed_space_keeps_its_id_and_its_lineage(run: Run) -> None:
    with app.open("spaces/", space="shop"):
        count.value = 7
    first = identity("spaces/")
    run("spaces", "rename", "store", "--url", "spaces/", "--space", "shop")
    with app.open("spaces/", space="store") as space:
        assert (space.id, space._opening.lineage) == first
        assert space.name == "store"
        assert count.value == 7
