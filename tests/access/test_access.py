"""Who is let in: grants in a file that other processes change while the server has it."""

from __future__ import annotations

import hmac
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.access import audit_check, grants, keys, tokens
from headwater.access.access_control import EXPIRED_KEPT_MS, LOCAL, LOOK_EVERY_MS, AccessControl, Grant
from headwater.access.private_files import locked
from headwater.access.rights import EVERY_SPACE, Right
from headwater.errors import (
    LimitError,
    NameRefusedError,
    NotFoundError,
    UnavailableError,
    UsageError,
)
from headwater.testing.sim_clock import SimClock
from tests.server.desk import Desk

PUBLIC = keys.parse_public("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo")
OTHER = keys.parse_public("PUAXw-hDiVqStwqnTRt-vJyYLM8uxJaMwM1V8Sr0Zgw")
DAY = 86_400_000


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


# --- tokens -----------------------------------------------------------------------------------------------


def test_a_token_lets_its_bearer_do_what_it_grants_and_no_more(desk: Desk) -> None:
    token, grant = desk.server.create(space="notes", can=Right.WRITE, actor="ann")
    assert desk.server.with_token(token) == grant
    assert desk.server.right(grant.id, "notes") is Right.WRITE
    assert desk.server.right(grant.id, "other") is Right.NONE
    assert desk.server.right(grant.id, EVERY_SPACE) is Right.NONE
    assert (grant.actor, grant.expires, grant.created) == ("ann", None, desk.clock.now_ms())


def test_a_grant_for_every_space_is_one(desk: Desk) -> None:
    _, grant = desk.server.create(space="*", can=Right.OWN)
    assert {desk.server.right(grant.id, name) for name in ("a", "ß", "*", "b c")} == {Right.OWN}


def test_names_that_look_alike_are_different_spaces(desk: Desk) -> None:
    _, grant = desk.server.create(space="caf\u00e9", can=Right.READ, actor="Ångström 🌊", note="für 日本")
    assert desk.server.right(grant.id, "caf\u00e9") is Right.READ
    for other in ("cafe\u0301", "CAF\u00c9", "cafe", "caf\u00e9 "):
        assert desk.server.right(grant.id, other) is Right.NONE
    assert desk.command().ls() == [grant]


def test_neither_the_token_nor_a_part_of_it_is_stored(desk: Desk) -> None:
    token, _ = desk.server.create(space="notes", can=Right.READ)
    for path in desk.folder.iterdir():
        text = path.read_text(encoding="utf-8")
        assert token not in text
        assert token[3:19] not in text


def test_a_token_that_nobody_made_lets_nobody_in(desk: Desk) -> None:
    token, grant = desk.server.create(space="notes", can=Right.READ)
    near = token[:-1] + ("A" if token[-1] != "A" else "B")
    for guess in (near, tokens.mint(), "", "hw_", token + "\n", token.lower(), grant.secret, grant.id, "\ud800"):
        assert desk.server.with_token(guess) is None


def test_an_expired_token_is_as_good_as_none(desk: Desk) -> None:
    token, grant = desk.server.create(space="notes", can=Right.READ, lasts_ms=30 * DAY)
    desk.clock.advance(30 * DAY - 1)
    assert desk.server.with_token(token) == grant
    assert desk.server.right(grant.id, "notes") is Right.READ
    desk.clock.advance(1)
    assert desk.server.with_token(token) is None
    assert desk.server.right(grant.id, "notes") is Right.NONE
    assert desk.server.ls() == [grant], "it is still told why"


def test_what_expired_long_ago_makes_room(desk: Desk) -> None:
    _, old = desk.server.create(space="notes", can=Right.READ, lasts_ms=DAY)
    desk.clock.advance(DAY + EXPIRED_KEPT_MS - 1)
    _, middle = desk.server.create(space="notes", can=Right.READ)
    assert desk.server.ls() == [old, middle]
    desk.clock.advance(1)
    _, new = desk.server.create(space="notes", can=Right.READ)
    assert desk.server.ls() == [middle, new]


# --- while the server runs --------------------------------------------------------------------------------


def test_what_another_process_grants_counts_after_the_next_look(desk: Desk) -> None:
    token, grant = desk.command().create(space="notes", can=Right.READ)
    assert desk.server.with_token(token) is None, "looked at already"
    desk.later(LOOK_EVERY_MS - 1)
    assert desk.server.with_token(token) is None
    desk.later(1)
    assert desk.server.with_token(token) == grant


def test_what_another_process_revokes_is_gone_after_the_next_look(desk: Desk) -> None:
    token, grant = desk.server.create(space="notes", can=Right.OWN)
    desk.later()
    assert desk.server.right(grant.id, "notes") is Right.OWN
    assert desk.command().revoke(grant.id) == grant
    desk.later()
    assert desk.server.right(grant.id, "notes") is Right.NONE
    assert desk.server.with_token(token) is None
    assert desk.server.ls() == []


def test_what_the_server_itself_revokes_is_gone_at_once(desk: Desk) -> None:
    token, grant = desk.server.create(space="notes", can=Right.OWN)
    desk.server.revoke(grant.id)
    assert desk.server.right(grant.id, "notes") is Right.NONE
    assert desk.server.with_token(token) is None


def test_every_change_is_seen_though_it_has_the_size_and_the_times_of_the_one_before(desk: Desk) -> None:
    """Numbers of files are given out again, and clocks are coarse; so the server keeps what it has read open."""
    when = (10**18, 10**18)
    for _ in range(50):
        _, one = desk.command().create(space="notes", can=Right.READ)
        os.utime(desk.file, ns=when)
        desk.later()
        assert desk.server.right(one.id, "notes") is Right.READ
        desk.command().revoke(one.id)
        os.utime(desk.file, ns=when)
        desk.later()
        assert desk.server.right(one.id, "notes") is Right.NONE


def test_when_the_file_is_removed_everything_is_revoked(desk: Desk) -> None:
    _, grant = desk.server.create(space="notes", can=Right.READ)
    desk.file.unlink()
    desk.later()
    assert desk.server.right(grant.id, "notes") is Right.NONE


def test_a_right_is_asked_for_without_a_look_at_the_file_each_time(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    _, grant = desk.server.create(space="notes", can=Right.READ)
    looks = 0
    identity = desk.server._identity

    def counting() -> tuple[int, ...] | None:
        nonlocal looks
        looks += 1
        return identity()

    monkeypatch.setattr(desk.server, "_identity", counting)
    for _ in range(1000):
        desk.later(1)
        assert desk.server.right(grant.id, "notes") is Right.READ
    assert looks == 1000 / LOOK_EVERY_MS


def count_open() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_descriptors_are_given_back(desk: Desk) -> None:
    open_before = count_open()
    for _ in range(30):
        desk.command().create(space="notes", can=Right.READ)
        desk.later()
        desk.server.ls()
    assert count_open() <= open_before + 1


# --- guesses ----------------------------------------------------------------------------------------------


def test_a_hundred_thousand_guesses_read_no_file_and_compare_alike(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Known, unknown or nearly right: each guess costs one hash, one look into a dict and the same two comparisons."""
    token, grant = desk.server.create(space="notes", can=Right.READ)
    local = tokens.mint()
    desk.server.admit_local(local)
    compared: list[tuple[int, int]] = []
    compare = hmac.compare_digest

    def counting(one: str, other: str) -> bool:
        compared.append((len(one), len(other)))
        return compare(one, other)

    monkeypatch.setattr(hmac, "compare_digest", counting)
    monkeypatch.setattr(grants, "open_file", None)
    for guess in (token, local, tokens.mint(), token[:-2] + "AA"):
        compared.clear()
        desk.server.with_token(guess)
        assert compared == [(64, 64), (64, 64)]
    found = [desk.server.with_token(f"hw_{number:043d}") for number in range(100_000)]
    assert set(found) == {None}
    assert desk.server.with_token(token) == grant


# --- keys -------------------------------------------------------------------------------------------------


def test_a_registered_key_is_known_by_its_public_half(desk: Desk) -> None:
    grant = desk.server.add_key(PUBLIC, space="notes", can=Right.WRITE, actor="bo", lasts_ms=DAY)
    assert grant.secret == keys.public_text(PUBLIC)
    assert desk.server.with_key(PUBLIC) == grant
    assert desk.server.with_key(OTHER) is None
    assert desk.server.with_key(b"") is None
    assert desk.server.with_token(grant.secret) is None
    desk.clock.advance(DAY)
    assert desk.server.with_key(PUBLIC) is None


def test_one_key_may_have_different_rights_in_different_spaces(desk: Desk) -> None:
    everywhere = desk.server.add_key(PUBLIC, space="*", can=Right.READ)
    here = desk.server.add_key(PUBLIC, space="notes", can=Right.OWN)
    assert desk.server.with_key(PUBLIC, "notes") == here
    assert desk.server.with_key(PUBLIC, "other") == everywhere
    desk.server.revoke(everywhere.id)
    assert desk.server.with_key(PUBLIC, "other") is None
    with pytest.raises(UsageError, match=f"registered for notes already, as {here.id}"):
        desk.server.add_key(PUBLIC, space="notes", can=Right.READ)


def test_what_is_no_key_is_not_registered(desk: Desk) -> None:
    for public in (b"", b"\0" * 32, b"\xff" * 32, PUBLIC[:-1]):
        with pytest.raises(UsageError, match="is not a public key"):
            desk.server.add_key(public, space="notes", can=Right.READ)
    assert not desk.file.exists()


# --- the server's own user --------------------------------------------------------------------------------


def test_the_local_token_may_act_as_anybody_everywhere_and_is_never_in_the_file(desk: Desk) -> None:
    token = tokens.mint()
    grant = desk.server.admit_local(token)
    assert (grant.id, grant.space, grant.can, grant.actor, grant.expires) == (LOCAL, "*", Right.OWN, None, None)
    assert desk.server.with_token(token) == grant
    assert desk.server.right(LOCAL, "whatever") is Right.OWN
    desk.server.create(space="notes", can=Right.READ)
    assert LOCAL not in desk.file.read_text(encoding="utf-8")
    assert [each.kind for each in desk.server.ls()] == ["token"]
    with pytest.raises(NotFoundError):
        desk.server.revoke(LOCAL)
    desk.server.dismiss_local()
    assert desk.server.with_token(token) is None
    assert desk.server.right(LOCAL, "whatever") is Right.NONE


# --- what is refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize("space", ["", " ", "a/b", "..\\x", "a\0b", "a\u202eb", "x" * 201, "\ud800"])
def test_what_is_no_name_of_a_space_is_refused(desk: Desk, space: str) -> None:
    with pytest.raises(NameRefusedError):
        desk.server.create(space=space, can=Right.READ)


@pytest.mark.parametrize("actor", ["", " ann", "a\nb", "a\x1b[31m", "x" * 201, "\ud800"])
def test_what_is_no_name_of_an_actor_is_refused(desk: Desk, actor: str) -> None:
    with pytest.raises(NameRefusedError):
        desk.server.create(space="notes", can=Right.READ, actor=actor)


@pytest.mark.parametrize("lasts_ms", [0, -1, 0.5, float("inf"), float("nan"), 1e300])
def test_a_time_that_is_none_is_refused(desk: Desk, lasts_ms: float) -> None:
    with pytest.raises(UsageError, match="leave it out"):
        desk.server.create(space="notes", can=Right.READ, lasts_ms=lasts_ms)


def test_notes_are_one_line_and_short(desk: Desk) -> None:
    with pytest.raises(LimitError, match="201 characters"):
        desk.server.create(space="notes", can=Right.READ, note="x" * 201)
    with pytest.raises(UsageError, match="not seen"):
        desk.server.create(space="notes", can=Right.READ, note="a\nb")


def test_nothing_is_not_granted(desk: Desk) -> None:
    with pytest.raises(UsageError, match="read, write or own"):
        desk.server.create(space="notes", can=Right.NONE)
    assert sorted(path.name for path in desk.folder.iterdir()) == []


def test_there_is_room_for_so_many(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grants, "GRANTS_MAX", 3)
    for _ in range(3):
        desk.server.create(space="notes", can=Right.READ)
    with pytest.raises(LimitError, match="at most 3 tokens and keys; revoke some"):
        desk.server.create(space="notes", can=Right.READ)
    assert len(desk.command().ls()) == 3


def test_what_is_not_there_cannot_be_revoked(desk: Desk) -> None:
    with pytest.raises(NotFoundError, match="no token or key with the id 'abc'"):
        desk.server.revoke("abc")


def test_a_folder_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="there is no folder"):
        AccessControl(tmp_path / "gone", SimClock())


# --- files ------------------------------------------------------------------------------------------------


def test_every_file_is_its_owners_alone_whatever_the_mask(desk: Desk) -> None:
    for mask in (0o000, 0o022, 0o077, 0o777):
        before = os.umask(mask)
        try:
            desk.server.create(space="notes", can=Right.READ)
        finally:
            os.umask(before)
        found = {path.name: path.stat().st_mode & 0o777 for path in desk.folder.iterdir()}
        assert found == dict.fromkeys(["access.json", "access.lock", "audit.jsonl", "audit.lock"], 0o600)


def test_files_belong_to_whom_the_folder_belongs_also_if_root_makes_them(desk: Desk) -> None:
    if os.geteuid() == 0:
        os.chown(desk.folder, 12_345, 12_345)
    desk.server.create(space="notes", can=Right.READ)
    assert {path.stat().st_uid for path in desk.folder.iterdir()} == {desk.folder.stat().st_uid}
    assert len(desk.command().ls()) == 1


def test_a_change_that_cannot_be_written_leaves_all_as_it_was(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    _, grant = desk.server.create(space="notes", can=Right.READ)
    before = desk.file.read_bytes()

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("headwater.access.private_files.os.fsync", full)
        with pytest.raises(UnavailableError, match="No space left on device"):
            desk.server.revoke(grant.id)
    assert desk.file.read_bytes() == before
    assert [path for path in desk.folder.iterdir() if path.name.endswith(".part")] == []


def test_grants_and_revocations_are_in_the_log_without_a_secret(desk: Desk) -> None:
    token, grant = desk.server.create(space="notes", can=Right.READ, note=f"oh {tokens.mint()}")
    desk.server.add_key(PUBLIC, space="*", can=Right.OWN, actor="bo")
    desk.server.revoke(grant.id)
    found = audit_check.examine(desk.folder)
    assert found.bad is None
    assert [each.event for each in found.entries] == ["granted", "granted", "revoked"]
    assert found.entries[0].facts == {
        "id": grant.id,
        "kind": "token",
        "space": "notes",
        "can": "read",
        "actor": None,
        "any_actor": None,
        "roles": None,
        "expires": None,
        "note": "oh hw_…",
        "by": os.getuid(),
    }
    assert found.entries[1].facts["key"] == keys.public_text(PUBLIC)
    text = (desk.folder / "audit.jsonl").read_text(encoding="utf-8")
    assert token not in text
    assert grant.secret not in text


# --- processes --------------------------------------------------------------------------------------------

CREATING = """
import sys
from pathlib import Path
from headwater.host.system_clock import SystemClock
from headwater.access.access_control import AccessControl
from headwater.access.rights import Right
access = AccessControl(Path(sys.argv[1]), SystemClock())
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[3])):
    token, grant = access.create(space="notes", can=Right.READ, note=f"{sys.argv[2]} {number}")
    if number % 5 == 4:
        access.revoke(grant.id)
    else:
        print(token)
"""


def test_processes_that_create_and_revoke_at_once_lose_nothing(desk: Desk) -> None:
    each = 25
    names = ["one", "two", "three"]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", CREATING, str(desk.folder), name, str(each)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    made = [process.communicate("go\n", timeout=120)[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    desk.later()
    found = [desk.server.with_token(token) for tokens_of_one in made for token in tokens_of_one]
    assert len(found) == len(names) * each * 4 // 5
    assert None not in found
    notes = {f"{name} {number}" for name in names for number in range(each) if number % 5 != 4}
    assert {grant.note for grant in desk.server.ls()} == notes
    report = audit_check.examine(desk.folder)
    assert report.bad is None
    assert report.lines == len(names) * each * 6 // 5


def test_who_cannot_have_the_lock_says_so(desk: Desk) -> None:
    lock = desk.folder / "access.lock"
    with (
        locked(lock),
        pytest.raises(UnavailableError, match=r"locked by another process for 0.05 seconds"),
        locked(lock, wait_s=0.05),
    ):
        pass
    with locked(lock, wait_s=0):
        pass


def test_a_grant_says_what_it_is(desk: Desk) -> None:
    _, grant = desk.server.create(space="notes", can=Right.READ)
    assert isinstance(grant, Grant)
    assert len(grant.id) == 10
