"""Coming back with more documents than the server lets watch, or than one frame can name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.client import server_link as links
from headwater.errors import OfflineError, ServerLimitError
from headwater.sync import server_session
from tests.client.world import Behind, behind, settled, state_is, storage_of
from tests.server.running import settle_in, until


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Behind]:
    settle_in(tmp_path, monkeypatch)
    with behind(tmp_path / "store") as world:
        yield world


def test_a_folder_with_more_documents_than_the_server_lets_watch_is_gone_on_with_and_the_rest_is_fetched_again(
    at: Behind, tmp_path: Path
) -> None:
    app = hw.App("wide")
    cells = [app.cell(f"c{number}", 0) for number in range(40)]
    folder = tmp_path / "local"
    with app.open(at.url, token=at.token, actor="ann", local=folder) as space:
        for cell in cells:
            cell.value = 1
    at.go_away()
    space = app.open(at.url, token=at.token, actor="ann", local=folder)
    cells[0].value = 2
    space._opening.abandon()
    assert at.server.spaces is not None
    at.server.spaces.limits["watches"] = 30
    at.come_back()
    with app.open(at.url, token=at.token, actor="ann", local=folder) as space:
        assert (space.connection.refused, space.connection.pending) == (0, 0)
        assert [cell.value for cell in cells[:20]] == [2] + [1] * 19


def test_a_running_program_that_holds_more_than_the_server_lets_watch_is_told_so(at: Behind) -> None:
    app = hw.App("wide")
    cells = [app.cell(f"c{number}", 0) for number in range(40)]
    space = app.open(at.url, token=at.token, actor="ann")
    for cell in cells:
        cell.value = 1
    space.sync()
    at.go_away()
    state_is(space, "offline")
    assert at.server.spaces is not None
    at.server.spaces.limits["watches"] = 30
    at.come_back()
    state_is(space, "over")
    assert "the missed commits of 4" in space.connection.trouble
    assert "may watch 30 documents" in space.connection.trouble
    with pytest.raises(ServerLimitError):
        cells[0].value = 2
    with suppress(ServerLimitError):
        space.close()


def test_what_was_missed_and_fits_no_frame_is_asked_for_in_parts(at: Behind, monkeypatch: pytest.MonkeyPatch) -> None:
    app, other = hw.App("wide"), hw.App("wide")
    cells = [app.cell(f"c{number}", 0) for number in range(40)]
    others = [other.cell(f"c{number}", 0) for number in range(40)]
    with app.open(at.url, token=at.token, actor="ann") as space, other.open(at.straight, actor="bob") as beside:
        for cell in cells:
            cell.value = 1
        space.sync()
        at.go_away()
        state_is(space, "offline")
        others[7].value = 2
        beside.sync()
        monkeypatch.setattr(links, "FRAME_BYTES_MAX", 300)
        at.come_back()
        until(lambda: settled(space) and cells[7].value == 2, "it has caught up")
        assert space.connection


def test_documents_that_did_not_fit_into_an_answer_are_not_taken_not_to_exist(
    at: Behind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def many() -> tuple[hw.App, list[Any]]:
        app = hw.App("many")
        return app, [app.cell(f"c{number}", 0) for number in range(12)]

    folder = tmp_path / "local"
    app, cells = many()
    with app.open(at.url, token=at.token, local=folder) as space:
        # None of them exists, as far as it knows.
        at.go_away()
        other, others = many()
        with other.open(at.straight):
            for cell in others:
                cell.value = 1
        monkeypatch.setattr(server_session, "PREFETCH_MAX", 4)
        at.come_back()
        state_is(space, "live")
        until(lambda: storage_of(space).link.session.is_caught_up, "what was missed is here")
        space.settle()
    at.go_away()
    monkeypatch.setattr(links, "PATIENCE_S", 0.2)
    app, cells = many()
    with app.open(at.url, token=at.token, local=folder):
        for cell in cells:
            try:
                assert cell.value == 1
            except OfflineError:
                # It is at the server, and known to be there.
                continue
