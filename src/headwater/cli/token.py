"""Who may use a server: create tokens, register keys, list and revoke them, read the audit log."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from headwater.cli.exits import Exit
from headwater.cli.group import Group
from headwater.cli.options import as_list, as_object
from headwater.cli.output import (
    Column,
    Form,
    Record,
    answer,
    count_text,
    json_text,
    note,
    preview,
    show,
    write,
)
from headwater.errors import NotFoundError, UsageError
from headwater.machine import machine

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.access.access_control import AccessControl
    from headwater.access.audit_check import AuditReport
    from headwater.access.audit_log import AuditEntry
    from headwater.access.grants import Grant

_ACCESS: Final = "access.json"


@click.group("token", cls=Group)
def token() -> None:
    """Say who may use a server: tokens and keys.

    They take effect at once, also while the server runs. DIR is what `headwater serve --store` has.
    """


def in_store(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--store`."""
    help_text = "The server's data; else $HEADWATER_STORE, or this folder if it has access.json."
    return click.option("--store", metavar="DIR", type=Path, help=help_text)(command)


def _folder(store: Path | None) -> Path:
    if store is not None:
        return store
    if named := os.environ.get("HEADWATER_STORE"):
        return Path(named)
    if Path(_ACCESS).exists():
        return Path()
    message = f"which server? There is no {_ACCESS} here; name its data with --store DIR, or set HEADWATER_STORE"
    raise UsageError(message)


def _access(store: Path | None) -> AccessControl:
    from headwater.access.access_control import AccessControl
    from headwater.host.system_clock import SystemClock

    return AccessControl(_folder(store), SystemClock())


# --- create ---------------------------------------------------------------------------------------------------


@token.command("create")
@in_store
@click.option("--space", metavar="S", required=True, help="Which space; '*' for every one.")
@click.option("--can", type=click.Choice(["read", "write", "own"]), required=True, help="What it may do there.")
@click.option("--actor", metavar="NAME", help="As whom it acts. Without it there are no user documents.")
@click.option("--any-actor", is_flag=True, help="It acts as any user the program names, and reads their documents.")
@click.option("--expires", metavar="30d", help="After how long it ends: 90m, 12h, 30d. Never, unless said.")
@click.option("--note", "remark", metavar="TEXT", default="", help="For you: who has it, and what for.")
@click.option("--key", metavar="PUBLIC", help="Let in whoever has the private key to this one; no token is made.")
@as_object
def create_token(
    *,
    store: Path | None,
    space: str,
    can: str,
    actor: str | None,
    any_actor: bool,
    expires: str | None,
    remark: str,
    key: str | None,
    form: Form,
) -> None:
    """Make a token, or register a public key.

    The token is shown once; only its hash is kept. A pipe gets the token alone.
    """
    from headwater.access import keys
    from headwater.access.rights import WORDS
    from headwater.values.duration import to_ms

    wanted: dict[str, Any] = {
        "space": space,
        "can": WORDS[can],
        "actor": actor,
        "any_actor": any_actor,
        "lasts_ms": None if expires is None else to_ms(expires, "--expires"),
        "note": remark,
    }
    public = None
    if key is not None:
        keys.require()
        public = keys.parse_public(key)
    folder = _folder(store)
    if not folder.exists():
        folder.mkdir(parents=True, mode=0o700, exist_ok=True)  # another command may be quicker
        note(f"{folder} was not there: made it")
    access = _access(folder)
    if public is not None:
        grant = access.add_key(public, **wanted)
        _tell_created(grant, None, form)
    else:
        made, grant = access.create(**wanted)
        _tell_created(grant, made, form)
    if actor is None and not any_actor:
        note("It names no actor: documents of users cannot be read with it (--actor NAME, or --any-actor).")
    _tell_about_space(folder, space)


def _whose(grant: Grant) -> str:
    return "any actor" if grant.any_actor else grant.actor or "no one"


def _tell_created(grant: Grant, made: str | None, form: Form) -> None:
    record = _record(grant, 0) | ({"token": made} if made is not None else {})
    del record["expired"]
    until = f" until {_local(grant.expires)}" if grant.expires is not None else ""
    whom = f" as {_whose(grant)}" if grant.actor is not None or grant.any_actor else ""
    sentence = f"{grant.kind} {grant.id} can {grant.can.word} {_where(grant)}{whom}{until}"
    if form is not None:
        answer(record, sentence="", plain="", form=form)
    elif made is None:
        answer(record, sentence=sentence, plain=grant.id, form=None)
    else:
        note(sentence)
        note("This is all that is ever shown of it; keep it where only its user can read it:")
        write(made)


def _where(grant: Grant) -> str:
    return "every space" if grant.space == "*" else f"the space {grant.space}"


def _tell_about_space(folder: Path, space: str) -> None:
    """A slip in a name is not found later: strangers and unknown spaces are answered alike."""
    from headwater.host.space_files import file_name

    if space != "*" and not (folder / file_name(space)).exists():
        note(f"There is no space {space} in {folder} yet.")


# --- ls, revoke -----------------------------------------------------------------------------------------------


def _record(grant: Grant, now: int) -> dict[str, object]:
    from headwater.cli.runtime import utc

    record: dict[str, object] = {
        "id": grant.id,
        "kind": grant.kind,
        "space": grant.space,
        "can": grant.can.word,
        "actor": grant.actor,
        "any_actor": grant.any_actor,
        "created": utc(grant.created),
        "expires": None if grant.expires is None else utc(grant.expires),
        "expired": grant.expires is not None and grant.expires <= now,
        "note": grant.note,
    }
    return record | ({"public": grant.secret} if grant.kind == "key" else {})


def _local(ms: int) -> str:
    return machine().local_time(ms / 1000, "%Y-%m-%d %H:%M")


def _shown_time(record: Record, name: str) -> str:
    from datetime import datetime

    text = record[name]
    return "" if text is None else _local(round(datetime.fromisoformat(str(text)).timestamp() * 1000))


def _shown_end(record: Record) -> str:
    return "expired" if record["expired"] else _shown_time(record, "expires") or "never"


_GRANTS: Final = (
    Column(title="id", text=lambda record: str(record["id"])),
    Column(title="kind", text=lambda record: str(record["kind"])),
    Column(title="space", text=lambda record: str(record["space"])),
    Column(title="can", text=lambda record: str(record["can"])),
    Column(
        title="actor",
        text=lambda record: str(record["actor"] or ("any" if record["any_actor"] else "none")),
        shown=lambda record: str(record["actor"] or ("any" if record["any_actor"] else "none")),
    ),
    Column(
        title="created",
        text=lambda record: str(record["created"]),
        shown=lambda record: _shown_time(record, "created"),
    ),
    Column(title="expires", text=lambda record: str(record["expires"] or ""), shown=_shown_end),
    Column(title="note", text=lambda record: str(record["note"]), elastic=True),
)


@token.command("ls")
@in_store
@as_list
def list_tokens(*, store: Path | None, form: Form) -> None:
    """List tokens and keys: what each may do, as whom, and until when. The tokens themselves are not kept."""
    from headwater.host.system_clock import SystemClock

    now = SystemClock().now_ms()
    records = [_record(grant, now) for grant in _access(store).ls()]
    show(records, _GRANTS, form, empty="no tokens and no keys; `headwater token create` makes one")


@token.command("revoke")
@click.argument("grant_id", metavar="ID")
@in_store
@as_object
def revoke_token(*, grant_id: str, store: Path | None, form: Form) -> None:
    """Take a token or key back. Whoever is connected with it is turned out."""
    from headwater.cli.spaces import did_you_mean

    access = _access(store)
    try:
        grant = access.revoke(grant_id)
    except NotFoundError as error:
        hint = did_you_mean(grant_id, [each.id for each in access.ls()]) or "; `headwater token ls` lists them"
        raise NotFoundError(error.message + hint, **error.facts) from None
    record = _record(grant, 0)
    del record["expired"]
    sentence = f"{grant.kind} {grant.id} is revoked; it could {grant.can.word} {_where(grant)}"
    answer(record, sentence=sentence, plain=grant.id, form=form)


# --- keys -----------------------------------------------------------------------------------------------------


@token.command("keygen")
@click.argument("file", type=Path)
@as_object
def make_key(*, file: Path, form: Form) -> None:
    """Write a new private key into FILE, which only you can read, and print its public key.

    The public key is for whoever runs the server: `headwater token create --key PUBLIC`. It needs PyNaCl, from
    `pip install "pynacl>=1.5"`.
    """
    from headwater.access import keys
    from headwater.cli.files import check_free

    keys.require()
    check_free(file, force=False)
    private = keys.generate()
    public = keys.public_text(keys.public_of(private))
    keys.write_private_key(file, private)
    record = {"file": str(file), "public": public}
    answer(record, sentence=f"private key written to {file}; its public key is\n{public}", plain=public, form=form)


# --- audit ----------------------------------------------------------------------------------------------------

_ENTRIES: Final = (
    Column(title="n", text=lambda record: str(record["n"]), number=True),
    Column(title="at", text=lambda record: str(record["at"]), shown=lambda record: _shown_time(record, "at")),
    Column(title="event", text=lambda record: str(record["event"])),
    Column(
        title="facts",
        text=lambda record: json_text(record["facts"]),
        shown=lambda record: _facts_in_short(record["facts"]),
        elastic=True,
    ),
)


@token.command("audit")
@click.option("--limit", metavar="N", type=click.IntRange(min=0), help="Only the newest N. All are checked.")
@in_store
@as_list
def show_audit(*, limit: int | None, store: Path | None, form: Form) -> None:
    """Show the audit log, oldest first, and check that nobody has changed it. Exit 1 if somebody has.

    Each line has the hash of the one before. That lines are missing at the very end cannot be seen.
    """
    from headwater.access.audit_check import examine

    folder = _folder(store)
    if not folder.is_dir():
        raise NotFoundError(f"there is no folder {folder}", path=str(folder))
    report = examine(folder, limit=limit)
    records = [_entry(each) for each in report.entries]
    bad = report.bad
    if form == "json":
        wrong = None if bad is None else {"file": bad.file, "line": bad.line, "why": bad.why}
        found = {"sound": bad is None, "lines": report.lines, "torn": report.torn, "bad": wrong, "entries": records}
        write(json_text(found))
    else:
        show(records, _ENTRIES, form, empty="nothing is shown")
    note(_verdict(report))
    if bad is not None:
        raise click.exceptions.Exit(Exit.FAILED)


def _verdict(report: AuditReport) -> str:
    if report.bad is not None:
        return f"The log was CHANGED: {report.bad.file}, line {report.bad.line}: {report.bad.why}"
    torn = f", {count_text(report.torn, 'of them')} broken off by a crash" if report.torn else ""
    return f"{count_text(report.lines, 'line')}, and each follows from the one before{torn}"


def _entry(entry: AuditEntry) -> dict[str, object]:
    from headwater.cli.runtime import utc

    return {"n": entry.n, "at": utc(entry.at), "event": entry.event, "facts": entry.facts}


def _facts_in_short(facts: object) -> str:
    assert isinstance(facts, dict)
    return "  ".join(
        f"{name}={value if isinstance(value, str) else preview(value)}"
        for name, value in facts.items()
        if value not in (None, "")
    )
