"""Tokens and keys on the command line: create, list, revoke; the audit log."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from headwater.access import keys
from headwater.access.access_control import AccessControl
from headwater.access.rights import Right
from headwater.host.system_clock import SystemClock
from tests.cli import processes
from tests.cli.conftest import Run, Terminal
from tests.cli.test_group import loaded_by

TOKEN = re.compile(r"hw_[A-Za-z0-9_-]{43}")
DAY = 86_400_000


def create(run: Run, *more: str, space: str = "notes", can: str = "read") -> dict[str, Any]:
    made = run("token", "create", "--store", "data", "--space", space, "--can", can, "--json", *more)
    record: dict[str, Any] = json.loads(made.stdout)
    return record


def listed(run: Run) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("token", "ls", "--store", "data", "--json").stdout)
    return found


def server() -> AccessControl:
    return AccessControl(Path("data"), SystemClock())


# --- create -----------------------------------------------------------------------------------------------


def test_a_pipe_gets_the_token_alone_and_it_is_good_at_once(run: Run) -> None:
    Path("data").mkdir()
    made = run("token", "create", "--store", "data", "--space", "notes", "--can", "write", "--actor", "ann")
    assert TOKEN.fullmatch(made.stdout.removesuffix("\n"))
    assert made.stdout.strip() not in made.stderr
    grant = server().with_token(made.stdout.strip())
    assert grant is not None
    assert (grant.space, grant.can, grant.actor, grant.expires) == ("notes", Right.WRITE, "ann", None)
    assert f"token {grant.id} can write the space notes as ann\n" in made.stderr


def test_a_person_is_told_that_it_is_shown_once(terminal: Terminal) -> None:
    text = terminal(100, "token", "create", "--store", "data", "--space", "*", "--can", "own", "--expires", "30d")
    assert len(TOKEN.findall(text)) == 1
    assert "can own every space until 2" in text
    assert "This is all that is ever shown of it" in text


def test_what_was_made_as_json(run: Run) -> None:
    before = SystemClock().now_ms()
    record = create(run, "--expires", "30d", "--note", "für 日本", "--actor", "Ångström")
    token = record.pop("token")
    assert TOKEN.fullmatch(token)
    [grant] = server().ls()
    assert grant.expires is not None
    assert before + 30 * DAY <= grant.expires <= SystemClock().now_ms() + 30 * DAY
    [kept] = listed(run)
    assert kept.pop("expired") is False
    assert kept == record
    assert (record["note"], record["actor"], record["can"]) == ("für 日本", "Ångström", "read")


def test_a_space_that_is_not_there_yet_is_pointed_out(run: Run) -> None:
    run("set", "a", "1", "--url", "data/", "--space", "notes")
    made = run("token", "create", "--store", "data", "--space", "notez", "--can", "read")
    assert "There is no space notez in data yet." in made.stderr
    made = run("token", "create", "--store", "data", "--space", "notes", "--can", "read")
    assert "There is no space" not in made.stderr


def test_a_folder_that_was_not_there_is_made_for_its_owner_only(run: Run) -> None:
    made = run("token", "create", "--store", "deep/data", "--space", "notes", "--can", "read")
    assert "deep/data was not there: made it" in made.stderr
    assert Path("deep/data").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--space", "a/b", "--can", "read"], 2, "NameRefusedError HW105"),
        (["--space", "", "--can", "read"], 2, "NameRefusedError HW105"),
        (["--space", "a", "--can", "admin"], 2, "Invalid value for '--can'"),
        (["--space", "a"], 2, "Missing option '--can'"),
        (["--can", "read"], 2, "Missing option '--space'"),
        (["--space", "a", "--can", "read", "--expires", "soon"], 2, "--expires: 'soon' is no duration"),
        (["--space", "a", "--can", "read", "--expires", "0s"], 2, "from a millisecond to 100 years"),
        (["--space", "a", "--can", "read", "--expires", "9" * 400 + "d"], 2, "is no duration"),
        (["--space", "a", "--can", "read", "--expires", "99999999d"], 2, "from a millisecond to 100 years"),
        (["--space", "a", "--can", "read", "--actor", ""], 2, "NameRefusedError HW105"),
        (["--space", "a", "--can", "read", "--note", "x" * 300], 4, "LimitError HW102"),
        (["--space", "a", "--can", "read", "--key", "abc"], 2, "is not a public key"),
    ],
)
def test_what_cannot_be_is_refused_and_makes_no_token(run: Run, options: list[str], code: int, said: str) -> None:
    Path("data").mkdir()
    result = run("token", "create", "--store", "data", *options, exit=code)
    assert said in result.stderr
    assert result.stdout == ""
    assert list(Path("data").iterdir()) == []


# --- which server -----------------------------------------------------------------------------------------


def test_the_store_is_named_by_the_option_the_environment_or_this_folder(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = create(run)
    said = run("token", "ls", exit=2).stderr
    assert "which server? There is no access.json here; name its data with --store DIR, or set HEADWATER_STORE" in said
    monkeypatch.setenv("HEADWATER_STORE", "data")
    assert run("token", "ls").stdout.startswith(record["id"])
    monkeypatch.delenv("HEADWATER_STORE")
    monkeypatch.chdir("data")
    assert run("token", "ls").stdout.startswith(record["id"])


@pytest.mark.parametrize("command", [["ls"], ["revoke", "abc"], ["audit"]])
def test_a_folder_that_is_not_there_is_not_made_by_looking(run: Run, command: list[str]) -> None:
    assert "there is no folder gone" in run("token", *command, "--store", "gone", exit=3).stderr
    assert not Path("gone").exists()


# --- ls ---------------------------------------------------------------------------------------------------


def test_a_list_for_pipes_has_everything_but_secrets(run: Run) -> None:
    made = [create(run, "--note", "one"), create(run, "--actor", "bo", "--expires", "1d", can="own")]
    rows = [line.split("\t") for line in run("token", "ls", "--store", "data").stdout.splitlines()]
    assert [row[:5] for row in rows] == [
        [made[0]["id"], "token", "notes", "read", "none"],
        [made[1]["id"], "token", "notes", "own", "bo"],
    ]
    assert rows[0][6:8] == ["", "one"]
    assert rows[1][6] == made[1]["expires"]
    text = run("token", "ls", "--store", "data", "--json").stdout
    assert made[0]["token"] not in text
    assert server().ls()[0].secret not in text


def test_a_list_for_people(run: Run, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    create(run, "--note", "for the printer", "--expires", "1d")
    create(run, "--actor", "bo", can="own")
    now = SystemClock().now_ms()
    monkeypatch.setattr(SystemClock, "now_ms", lambda _: now + 2 * DAY)
    title, first, second = terminal(120, "token", "ls", "--store", "data").splitlines()
    assert title.split() == ["id", "kind", "space", "can", "actor", "created", "expires", "note", "roles"]
    assert re.search(r" none .* expired +for the printer *$", first)
    assert re.search(r" own +bo .* never *$", second)
    assert listed(run)[0]["expired"] is True


def test_an_empty_list_says_how_to_fill_it(run: Run, terminal: Terminal) -> None:
    Path("data").mkdir()
    assert "no tokens and no keys; `headwater token create` makes one" in terminal(
        100, "token", "ls", "--store", "data"
    )
    assert run("token", "ls", "--store", "data").stdout == ""


def test_a_damaged_file_is_one_line_on_stderr(run: Run) -> None:
    create(run)
    Path("data/access.json").write_text("{", encoding="utf-8")
    for command in (["ls"], ["revoke", "abc"], ["create", "--space", "a", "--can", "read"]):
        result = run("token", *command, "--store", "data", exit=1)
        assert re.match(r"CorruptError HW205: data/access.json is damaged: .* put a copy back", result.stderr)
        assert result.stdout == ""


def test_a_file_that_others_can_read_is_not_used(run: Run) -> None:
    create(run)
    Path("data/access.json").chmod(0o644)
    assert "(mode 0644); `chmod 600` it" in run("token", "ls", "--store", "data", exit=1).stderr


# --- revoke -----------------------------------------------------------------------------------------------


def test_a_revoked_token_is_gone_for_a_server_that_runs(run: Run) -> None:
    one, other = create(run), create(run)
    access = server()
    assert access.with_token(one["token"]) is not None
    assert run("token", "revoke", one["id"], "--store", "data").stdout == f"{one['id']}\n"
    assert [record["id"] for record in listed(run)] == [other["id"]]
    access.ls()
    assert access.with_token(one["token"]) is None
    assert access.right(one["id"], "notes") is Right.NONE


def test_an_id_with_a_slip_is_answered_with_a_close_one(run: Run) -> None:
    record = create(run)
    slip = record["id"][:-1] + "0"
    said = run("token", "revoke", slip, "--store", "data", exit=3).stderr
    assert f"there is no token or key with the id '{slip}'; did you mean {record['id']}?" in said
    assert "`headwater token ls` lists them" in run("token", "revoke", "zz", "--store", "data", exit=3).stderr
    assert len(listed(run)) == 1


def test_a_revoked_token_is_told_to_people(run: Run, terminal: Terminal) -> None:
    record = create(run, space="*", can="own")
    text = terminal(100, "token", "revoke", record["id"], "--store", "data")
    assert text == f"token {record['id']} is revoked; it could own every space"


# --- keys -------------------------------------------------------------------------------------------------


def test_a_key_is_made_and_registered(run: Run) -> None:
    public = run("token", "keygen", "my.key").stdout.strip()
    assert Path("my.key").stat().st_mode & 0o777 == 0o600
    private = keys.read_private_key(Path("my.key"))
    assert keys.public_text(keys.public_of(private)) == public
    made = run("token", "create", "--store", "data", "--space", "notes", "--can", "write", "--key", public)
    grant = server().with_key(keys.parse_public(public), "notes")
    assert grant is not None
    assert made.stdout == f"{grant.id}\n", "there is no token"
    [record] = listed(run)
    assert (record["kind"], record["public"], record["can"]) == ("key", public, "write")
    again = run("token", "create", "--store", "data", "--space", "notes", "--can", "own", "--key", public, exit=2)
    assert f"registered for notes already, as {grant.id}" in again.stderr


def test_a_key_that_starts_with_a_dash_can_be_given(run: Run) -> None:
    """Every 64th one does."""
    private = next(
        seed for number in range(10_000) if (seed := bytes(28) + number.to_bytes(4, "big")) and _starts(seed)
    )
    public = keys.public_text(keys.public_of(private))
    made = create(run, "--key", public)
    assert made["public"] == public
    assert "token" not in made


def _starts(private: bytes) -> bool:
    return keys.public_text(keys.public_of(private)).startswith("-")


def test_a_key_file_is_never_replaced(run: Run) -> None:
    run("token", "keygen", "my.key")
    before = Path("my.key").read_bytes()
    assert "my.key exists" in run("token", "keygen", "my.key", exit=4).stderr
    assert Path("my.key").read_bytes() == before
    assert "no such file or folder" in run("token", "keygen", "gone/my.key", exit=3).stderr


def test_a_private_key_given_for_the_public_one_is_not_repeated(run: Run) -> None:
    run("token", "keygen", "my.key")
    private = Path("my.key").read_text(encoding="ascii").strip()
    said = run("token", "create", "--store", "data", "--space", "a", "--can", "read", "--key", private, exit=2)
    assert "that is a private key" in said.stderr
    assert private not in said.output
    assert not Path("data").exists()


def test_without_pynacl_it_is_said_how_to_get_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "find_spec", lambda _name: None)
    for command in (["keygen", "my.key"], ["create", "--store", "data", "--space", "a", "--can", "read", "--key", "x"]):
        assert 'pip install "pynacl>=1.5"' in run("token", *command, exit=2).stderr
    assert list(Path().iterdir()) == []


# --- audit ------------------------------------------------------------------------------------------------


def test_the_audit_log_tells_what_was_granted_and_revoked(run: Run) -> None:
    record = create(run, "--actor", "ann")
    run("token", "revoke", record["id"], "--store", "data")
    shown = run("token", "audit", "--store", "data")
    rows = [line.split("\t") for line in shown.stdout.splitlines()]
    assert [(row[0], row[2]) for row in rows] == [("1", "granted"), ("2", "revoked")]
    assert json.loads(rows[0][3])["actor"] == "ann"
    assert shown.stderr == "2 lines, and each follows from the one before\n"
    found = json.loads(run("token", "audit", "--store", "data", "--json").stdout)
    assert (found["sound"], found["lines"], found["bad"]) == (True, 2, None)
    assert [each["facts"]["id"] for each in found["entries"]] == [record["id"]] * 2
    newest = json.loads(run("token", "audit", "--store", "data", "--json", "--limit", "1").stdout)
    assert [each["event"] for each in newest["entries"]] == ["revoked"]
    lines = run("token", "audit", "--store", "data", "--jsonl").stdout.splitlines()
    assert [json.loads(line)["n"] for line in lines] == [1, 2]
    assert record["token"] not in shown.output


def test_a_changed_log_is_found(run: Run) -> None:
    create(run)
    create(run)
    path = Path("data/audit.jsonl")
    path.write_bytes(path.read_bytes().replace(b'"can":"read"', b'"can":"rind"', 1))
    shown = run("token", "audit", "--store", "data", exit=1)
    assert "The log was CHANGED: audit.jsonl, line 2: it does not follow the line before" in shown.stderr
    found = json.loads(run("token", "audit", "--store", "data", "--json", exit=1).stdout)
    assert found["sound"] is False
    assert (found["bad"]["file"], found["bad"]["line"]) == ("audit.jsonl", 2)
    assert len(found["entries"]) == 2


def test_the_log_is_shown_to_people_without_what_a_terminal_would_obey(run: Run, terminal: Terminal) -> None:
    create(run)
    server().audit.write("refused", peer="\x1b[31m\u202eevil", why="no such token")
    text = terminal(160, "token", "audit", "--store", "data")
    assert "\x1b" not in text
    assert "peer=\\u001b[31m\\u202eevil  why=no such token" in text
    assert "id=" in text.splitlines()[1]


def test_a_log_that_is_not_there_is_empty(run: Run, terminal: Terminal) -> None:
    Path("data").mkdir()
    assert run("token", "audit", "--store", "data").stdout == ""
    assert "nothing is shown" in terminal(100, "token", "audit", "--store", "data")


# --- the command ------------------------------------------------------------------------------------------


def test_a_slip_in_a_command_is_answered_with_a_close_one(run: Run) -> None:
    assert "Did you mean revoke?" in run("token", "revok", exit=2).stderr
    assert "Usage: headwater token" in run("token", exit=2).output


@pytest.mark.parametrize("command", ["create", "ls", "revoke", "keygen", "audit"])
def test_every_command_explains_itself_and_loads_nothing_heavy_for_it(run: Run, command: str) -> None:
    assert run("token", command, "--help").stdout.startswith(f"Usage: headwater token {command}")
    program = f"from headwater.cli.main import cli\ncli.main(['token', {command!r}, '--help'], standalone_mode=False)"
    assert loaded_by(program) == []


def test_commands_at_once_lose_nothing() -> None:
    started = [
        subprocess.Popen(
            [*processes.COMMAND, "token", "create", "--store", "data", "--space", "notes", "--can", "read"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )
        for _ in range(4)
    ]
    made = [process.communicate(timeout=120)[0].strip() for process in started]
    access = server()
    assert len(set(made)) == 4
    assert all(access.with_token(token) for token in made)


def test_roles_are_given_listed_and_logged(run: Run) -> None:
    made = create(run, "--role", "courier", "--role", "night-clerk", "--actor", "eve")
    assert made["roles"] == ["courier", "night-clerk"]
    assert listed(run)[0]["roles"] == ["courier", "night-clerk"]
    assert "courier, night-clerk" in run("token", "ls", "--store", "data").stdout
    assert "courier, night-clerk" in run("token", "audit", "--store", "data").stdout
    command = ["token", "create", "--store", "data", "--space", "s", "--can", "read"]
    for bad in ("", "a b", "x" * 65):
        run(*command, "--role", bad, exit=2)
    run(*command, "--role", "a", "--role", "a", exit=2)
