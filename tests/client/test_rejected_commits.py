"""Commits of a session that cannot be gone on with: told of together, and written to a file beside the replica."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.errors import HeadwaterError, UserCodeError
from headwater.runtime.error_report import log_error
from tests.client.world import Behind, Counter, behind, state_is
from tests.server.running import settle_in


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Behind]:
    settle_in(tmp_path, monkeypatch)
    with behind(tmp_path / "store") as world:
        yield world


def test_many_commits_of_a_session_that_cannot_be_gone_on_with_are_told_of_at_once_and_written_to_a_file(
    at: Behind, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "local"
    counter = Counter()
    entries = counter.app.cell("entries", list[str]())
    space = counter.open(at, local=folder)
    at.go_away()
    state_is(space, "offline")
    for number in range(20):
        with space.transaction():
            counter.count.increment()
            entries.append(f"entry {number}")
    space._opening.abandon()
    assert at.server.spaces is not None
    at.server.spaces.proofs._secret = bytes(32)
    at.come_back()
    told: list[UserCodeError] = []
    with Counter().open(at, local=folder, on_error=told.append) as opened:
        assert opened.connection.refused == 20
    (error,) = told
    (path,) = folder.glob("*.refused.jsonl")
    assert (error.facts["commits"], error.facts["path"]) == (20, str(path))
    assert error.facts["first"] == ("counter.count increment, counter.entries append",) * 3
    assert "20 commits" in str(error)
    assert str(path) in str(error)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["commit"] for line in lines] == list(range(1, 21))
    assert [line["operations"][1]["items"] for line in lines] == [[f"entry {number}"] for number in range(20)]
    assert lines[0]["operations"][0] == {"op": "increment", "at": "counter.count", "by": 1}
    assert lines[0]["change"] == "counter.count increment, counter.entries append"
    assert all(line["at"].endswith("Z") and "HW" in line["why"] for line in lines)
    # Without a listener it is logged once, without a traceback.
    log_error(error)
    (record,) = [each for each in caplog.records if each.name == "headwater"]
    assert "Traceback" not in caplog.text
    assert "20 commits" in record.getMessage()


def test_what_ends_with_the_session_of_a_running_program_is_written_to_the_file_as_well(
    at: Behind, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    counter = Counter()
    told: list[UserCodeError] = []
    space = counter.open(at, local=tmp_path / "local", on_error=told.append)
    at.go_away()
    state_is(space, "offline")
    counter.count.value = 3
    assert at.server.spaces is not None
    at.server.spaces.proofs._secret = bytes(32)
    at.come_back()
    state_is(space, "over")
    with pytest.raises(HeadwaterError):
        space.close()
    (path,) = (tmp_path / "local").glob("*.refused.jsonl")
    (line,) = path.read_text().splitlines()
    assert json.loads(line)["operations"] == [{"op": "set", "at": "counter.count", "value": 3}]
    assert str(path) in caplog.text
    # Whoever wrote it is there to be told by `close`.
    assert told == []
    with Counter().open(at, local=tmp_path / "local", on_error=told.append) as opened:
        assert opened.connection.refused == 0
    assert told == []
