"""The audit log: every line is chained to the one before, whoever writes, and whatever they write."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import threading
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.access import audit_check, audit_log
from headwater.access.audit_check import BadLine, examine, verify
from headwater.access.audit_log import FILES_MAX, GENESIS, AuditLog, hash_of, older_files
from headwater.access.private_files import locked
from headwater.access.tokens import mint
from headwater.errors import UnavailableError
from headwater.host.system_clock import SystemClock
from headwater.machine import File
from headwater.testing.sim_clock import SimClock


@pytest.fixture
def log(tmp_path: Path) -> AuditLog:
    return AuditLog(tmp_path, SimClock())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()


def events(folder: Path) -> list[str]:
    return [each.event for each in examine(folder).entries]


# --- lines ------------------------------------------------------------------------------------------------


def test_a_line_has_what_happened_and_the_hash_of_the_one_before(log: AuditLog, file: Path) -> None:
    log.write("opened", space="notes", actor="ann", ms=1.5, ok=True, nothing=None)
    log.write("refused")
    first, second = map(json.loads, lines_of(file))
    assert first == {
        "n": 1,
        "at": SimClock().now_ms(),
        "before": GENESIS,
        "event": "opened",
        "facts": {"space": "notes", "actor": "ann", "ms": 1.5, "ok": True, "nothing": None},
    }
    assert second["n"] == 2
    assert second["before"] == hash_of(lines_of(file)[0])
    assert verify(file) is None
    assert verify(file.parent) is None


def test_nobody_else_can_read_it(log: AuditLog, file: Path) -> None:
    log.write("opened")
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o644)
    log.write("opened")
    assert file.stat().st_mode & 0o777 == 0o600, "closed again"
    assert verify(file) is None


def test_it_is_not_written_through_a_link(log: AuditLog, file: Path, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("precious")
    file.symlink_to(tmp_path / "other")
    with pytest.raises(UnavailableError, match="cannot write"):
        log.write("opened")
    assert (tmp_path / "other").read_text() == "precious"


HOSTILE = st.text(st.characters(min_codepoint=0, max_codepoint=0x10FFFF), max_size=30)


@given(HOSTILE, HOSTILE)
def test_whatever_a_stranger_sends_is_one_line_that_does_nothing(
    tmp_path_factory: pytest.TempPathFactory, event: str, fact: str
) -> None:
    folder = tmp_path_factory.mktemp("audit")
    AuditLog(folder, SimClock()).write(event, fact=f"\x1b[31m\x7f\u202e\n\r\0{fact}")
    data = (folder / "audit.jsonl").read_bytes()
    assert re.fullmatch(rb"[\x20-\x7e]+\n", data), "nothing that a terminal would obey"
    assert verify(folder) is None


def test_half_a_character_does_not_break_the_log(log: AuditLog, file: Path) -> None:
    log.write("refused", name="a\ud800b")
    log.write("refused")
    assert verify(file) is None
    assert examine(file.parent).entries[0].facts == {"name": "a\\ud800b"}


def test_no_token_gets_in_wherever_it_is(log: AuditLog, file: Path) -> None:
    token = mint()
    log.write(
        f"said {token}", text=f"Bearer {token}", many=[token, {"a": token}], error=ValueError(token), raw=token.encode()
    )
    text = file.read_text(encoding="ascii")
    assert token not in text
    assert token[3:20] not in text


def test_what_is_long_or_odd_is_kept_short(log: AuditLog, file: Path) -> None:
    log.write(
        "refused", long="x" * 10**6, number=10**5000, small=-(2**63), inf=float("inf"), nan=float("nan"), raw=b"\0"
    )
    [line] = lines_of(file)
    assert len(line) < 1500
    facts = json.loads(line)["facts"]
    assert facts["long"] == "x" * 999 + "…"
    assert facts["number"] == "a number of 16610 bits"
    assert (facts["small"], facts["inf"], facts["nan"], facts["raw"]) == (-(2**63), "inf", "nan", "b'\\x00'")


def test_grants_are_on_disk_before_they_are_done_and_the_rest_is_not_waited_for(
    log: AuditLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr("headwater.access.audit_log.os.fsync", synced.append)
    log.write("opened")
    log.write("refused")
    assert synced == []
    log.write("granted")
    log.write("revoked")
    assert len(synced) == 2


# --- verifying --------------------------------------------------------------------------------------------


def written(log: AuditLog, count: int = 6) -> None:
    for number in range(count):
        log.write("opened", number=number)


def test_an_empty_folder_has_a_sound_log(tmp_path: Path) -> None:
    assert verify(tmp_path) is None
    assert examine(tmp_path).lines == 0
    assert list(tmp_path.iterdir()) == [], "looking makes nothing"


@pytest.mark.parametrize("place", range(5))
def test_a_changed_line_is_found(log: AuditLog, file: Path, place: int) -> None:
    written(log)
    lines = lines_of(file)
    lines[place] = lines[place].replace(b'"number":', b'"nummer":')
    file.write_bytes(b"\n".join(lines) + b"\n")
    bad = verify(file)
    assert bad is not None
    assert (bad.file, bad.line) == ("audit.jsonl", place + 2)
    assert "does not follow the line before" in bad.why


@pytest.mark.parametrize("place", range(5))
def test_a_line_that_was_taken_out_is_missed(log: AuditLog, file: Path, place: int) -> None:
    written(log)
    lines = lines_of(file)
    del lines[place]
    file.write_bytes(b"\n".join(lines) + b"\n")
    bad = verify(file)
    assert bad is not None
    assert bad.line == place + 1


def test_lines_that_were_added_swapped_or_blackened_are_found(log: AuditLog, file: Path) -> None:
    written(log)
    good = lines_of(file)
    forged = json.dumps({**json.loads(good[2]), "event": "forged"}).encode()
    for lines, line in (
        ([*good[:2], forged, *good[2:]], 4),
        ([*good, good[-1]], 7),
        ([good[1], good[0], *good[2:]], 1),
        ([*good[:3], b"\0" * 40, *good[3:]], 4),
        ([*good[:3], b"", *good[3:]], 4),
        ([*good[:3], b"\xff\xfe", b"[" * 5000, *good[3:]], 4),
        ([*good, b"{}"], 7),
    ):
        file.write_bytes(b"\n".join(lines) + b"\n")
        bad = verify(file)
        assert bad is not None
        assert bad.line == line, lines


def test_a_number_that_is_not_next_is_found_though_the_hashes_fit(log: AuditLog, file: Path) -> None:
    written(log, 1)
    [first] = lines_of(file)
    skipping = json.dumps({**json.loads(first), "n": 3, "before": hash_of(first)}).encode()
    file.write_bytes(first + b"\n" + skipping + b"\n")
    assert verify(file) == BadLine("audit.jsonl", 2, "it has the number 3, and 2 is expected")


# --- crashes ----------------------------------------------------------------------------------------------


def test_a_line_that_broke_off_anywhere_is_noted_and_the_log_goes_on(tmp_path: Path) -> None:
    """Append-only also after a crash: what is left of the line stays, and the next one tells of it."""
    clock = SimClock()
    AuditLog(tmp_path, clock).write("opened")
    whole = (tmp_path / "audit.jsonl").read_bytes()
    AuditLog(tmp_path, clock).write("refused", why="é")
    both = (tmp_path / "audit.jsonl").read_bytes()
    for end in range(len(whole) + 1, len(both)):
        (tmp_path / "audit.jsonl").write_bytes(both[:end])
        assert verify(tmp_path) is None, "it may be being written"
        AuditLog(tmp_path, clock).write("opened")
        data = (tmp_path / "audit.jsonl").read_bytes()
        assert data.startswith(both[:end])
        found = examine(tmp_path)
        assert found.bad is None
        is_whole = end == len(both) - 1
        assert found.torn == (0 if is_whole else 1)
        assert [each.event for each in found.entries] == ["opened", "refused" if is_whole else "torn", "opened"]


def test_the_very_first_line_may_break_off(log: AuditLog, file: Path) -> None:
    file.write_bytes(b'{"n":1,"at":17')
    file.chmod(0o600)
    log.write("opened")
    assert verify(file) is None
    assert events(file.parent) == ["torn", "opened"]


def test_a_torn_line_that_is_changed_later_is_found(log: AuditLog, file: Path) -> None:
    written(log, 2)
    file.write_bytes(file.read_bytes() + b'{"n":3,')
    log.write("opened")
    assert verify(file) is None
    file.write_bytes(file.read_bytes().replace(b'{"n":3,\n', b'{"n":4,\n'))
    bad = verify(file)
    assert bad is not None
    assert bad.line == 3


def test_when_the_disk_is_full_the_log_says_so_and_goes_on_afterwards(
    log: AuditLog, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(log, 2)

    def full(self: File, data: bytes) -> None:
        os.write(self._descriptor, data[:20])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(File, "write", full)
        with pytest.raises(UnavailableError, match="No space left on device; is there room"):
            log.write("opened")
    log.write("opened")
    assert verify(file) is None
    assert events(file.parent) == ["opened", "opened", "torn", "opened"]


class Mute:
    def __str__(self) -> str:
        raise ValueError("no")


def test_a_fact_that_cannot_be_told_leaves_the_chain_whole(log: AuditLog, file: Path) -> None:
    written(log, 2)
    file.write_bytes(file.read_bytes() + b'{"n":3,')
    with pytest.raises(ValueError, match="no"):
        log.write("opened", fact=Mute())
    log.write("opened")
    assert verify(file) is None
    assert events(file.parent) == ["opened", "opened", "torn", "opened"]


# --- rotation ---------------------------------------------------------------------------------------------


def small(folder: Path, files_max: int = FILES_MAX) -> AuditLog:
    return AuditLog(folder, SimClock(), bytes_max=1500, files_max=files_max)


def files_in(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in sorted(folder.glob("audit*.jsonl"))}


def test_a_full_file_is_put_aside_and_the_chain_goes_on_in_the_next(tmp_path: Path) -> None:
    log = small(tmp_path)
    for number in range(100):
        log.write("opened", number=number)
    found = files_in(tmp_path)
    assert len(found) > 5
    assert max(found.values()) < 1500 + 300
    assert {path.stat().st_mode & 0o777 for path in tmp_path.glob("audit*")} == {0o600}
    last = lines_of(tmp_path / "audit-1.jsonl")[-1]
    first = json.loads(lines_of(tmp_path / "audit-2.jsonl")[0])
    assert (first["event"], first["before"]) == ("rotated", hash_of(last))
    report = examine(tmp_path)
    assert report.bad is None
    assert [each.n for each in report.entries] == list(range(1, report.lines + 1))
    assert [each.facts["number"] for each in report.entries if each.event == "opened"] == list(range(100))


def test_the_oldest_files_go_and_the_log_says_so(tmp_path: Path) -> None:
    log = small(tmp_path, files_max=4)
    for number in range(100):
        log.write("opened", number=number)
    assert len(files_in(tmp_path)) == 4
    assert verify(tmp_path) is None
    newest = examine(tmp_path, limit=1)
    assert newest.entries[0].facts.get("number", 99) == 99
    assert len(newest.entries) == 1


def test_a_file_that_somebody_else_removed_is_missed(tmp_path: Path) -> None:
    log = small(tmp_path, files_max=6)
    for number in range(60):
        log.write("opened", number=number)
    names = list(files_in(tmp_path))
    for name in names:
        data = (tmp_path / name).read_bytes()
        (tmp_path / name).unlink()
        if name == "audit.jsonl":
            assert verify(tmp_path) is None, "the end can be cut off unnoticed"
        else:
            assert verify(tmp_path) is not None, name
        (tmp_path / name).write_bytes(data)
    for name in names[:-1]:
        (tmp_path / name).unlink()
    bad = verify(tmp_path)
    assert bad is not None
    assert "the log did not remove it" in bad.why


def test_a_file_that_does_not_say_which_it_follows_is_found(log: AuditLog, file: Path) -> None:
    written(log, 4)
    *before, last = lines_of(file)
    (file.parent / "audit-1.jsonl").write_bytes(b"\n".join(before) + b"\n")
    file.write_bytes(last + b"\n")
    assert verify(file) == BadLine("audit.jsonl", 1, "a file of the log does not begin with it")


def test_a_crash_at_any_moment_of_a_rotation_loses_nothing(tmp_path: Path) -> None:
    log = small(tmp_path)
    for number in range(30):
        log.write("opened", number=number)
    present = tmp_path / "audit.jsonl"
    first = present.read_bytes().splitlines(keepends=True)[0]
    for left in (None, b"", first[:30], first[:-1], first):
        present.unlink(missing_ok=True)
        if left is not None:
            present.write_bytes(left)
            present.chmod(0o600)
        small(tmp_path).write("opened", number="after")
        report = examine(tmp_path)
        assert report.bad is None, left
        assert report.entries[-1].facts == {"number": "after"}


# --- several writers --------------------------------------------------------------------------------------


def _write_many(folder: str, name: str, count: int) -> None:
    log = AuditLog(Path(folder), SystemClock(), bytes_max=4000)
    # On a busy machine a writer may wait longer than a server would.
    with patch.object(audit_log, "WAIT_S", 60.0):
        for number in range(count):
            log.write("opened", who=name, number=number)


def test_processes_and_threads_that_write_at_once_make_one_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = multiprocessing.get_context("spawn")
    workers: list[Any] = [
        context.Process(target=_write_many, args=(str(tmp_path), f"process {number}", 100)) for number in range(2)
    ]
    shared = AuditLog(tmp_path, SystemClock(), bytes_max=4000)

    def write() -> None:
        for number in range(100):
            shared.write("opened", who=threading.current_thread().name, number=number)

    monkeypatch.setattr(audit_log, "WAIT_S", 60.0)
    workers += [threading.Thread(target=write, name=f"thread {number}") for number in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    report = examine(tmp_path)
    assert report.bad is None
    found: dict[object, list[object]] = {}
    for each in report.entries:
        if each.event == "opened":
            found.setdefault(each.facts["who"], []).append(each.facts["number"])
    assert found == {f"{kind} {number}": list(range(100)) for kind in ("process", "thread") for number in range(2)}


def test_a_process_that_stopped_in_the_middle_is_not_waited_for_long(
    log: AuditLog, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.access.audit_log.WAIT_S", 0.02)
    with locked(file.with_name("audit.lock")), pytest.raises(UnavailableError, match="locked by another process"):
        log.write("opened")
    log.write("opened")
    assert verify(file) is None


def test_the_files_are_opened_while_nobody_can_rotate_them(
    log: AuditLog, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[Path] = []

    def listing(folder: Path) -> dict[int, Path]:
        listed.append(folder)
        with pytest.raises(UnavailableError, match="locked"), locked(folder / "audit.lock", wait_s=0):
            pass
        return older_files(folder)

    log.write("opened")
    monkeypatch.setattr(audit_check, "older_files", listing)
    assert verify(file) is None
    assert listed == [file.parent]


def test_a_log_that_begins_while_it_is_looked_at_is_looked_at_again(
    log: AuditLog, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def listing(folder: Path) -> dict[int, Path]:
        found = older_files(folder)
        if not file.exists():
            log.write("opened")
        return found

    monkeypatch.setattr(audit_check, "older_files", listing)
    assert examine(file.parent).lines == 1


def test_the_log_is_checked_while_it_is_written(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, SystemClock(), bytes_max=2000)
    is_done = threading.Event()

    def write() -> None:
        while not is_done.is_set():
            log.write("opened", fact="x" * 50)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        found = [examine(tmp_path) for _ in range(30)]
    finally:
        is_done.set()
        writer.join()
    assert [each.bad for each in found] == [None] * 30
