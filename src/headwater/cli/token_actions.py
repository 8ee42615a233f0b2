"""Access to a server: create tokens, register keys, list and revoke them, show the audit log."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import click

from headwater.access import keys
from headwater.access.access_control import AccessControl
from headwater.access.audit_check import AuditReport, examine
from headwater.access.audit_log import AuditEntry
from headwater.access.grants import Grant
from headwater.access.rights import WORDS
from headwater.cli.care_syntax import AUDIT, GRANT
from headwater.cli.exits import Exit
from headwater.cli.output import Form, answer, json_text, local, note, show, utc, write
from headwater.errors import NotFoundError, UsageError
from headwater.host.space_files import file_name
from headwater.host.system_clock import SystemClock
from headwater.host.whole_files import check_free
from headwater.values.duration import to_ms
from headwater.values.suggestions import did_you_mean
from headwater.values.text import count_text

_ACCESS: Final = "access.json"


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
    return AccessControl(_folder(store), SystemClock())


# --- create ---------------------------------------------------------------------------------------------------


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
    roles: tuple[str, ...],
    form: Form,
) -> None:
    """Carry out `token create`."""
    wanted: dict[str, Any] = {
        "space": space,
        "can": WORDS[can],
        "actor": actor,
        "any_actor": any_actor,
        "lasts_ms": None if expires is None else to_ms(expires, "--expires"),
        "note": remark,
        "roles": roles,
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
        _report_created(grant, None, form)
    else:
        made, grant = access.create(**wanted)
        _report_created(grant, made, form)
    if actor is None and not any_actor:
        note("It names no actor: documents of users cannot be read with it (--actor NAME, or --any-actor).")
    _note_missing_space(folder, space)


def _whose(grant: Grant) -> str:
    return "any actor" if grant.any_actor else grant.actor or "no one"


def _report_created(grant: Grant, made: str | None, form: Form) -> None:
    record = _record(grant, 0) | ({"token": made} if made is not None else {})
    del record["expired"]
    until = f" until {local(grant.expires, '%Y-%m-%d %H:%M')}" if grant.expires is not None else ""
    whom = f" as {_whose(grant)}" if grant.actor is not None or grant.any_actor else ""
    sentence = f"{grant.kind} {grant.id} can {grant.can.word} {_where(grant)}{whom}{_with(grant)}{until}"
    if form is not None:
        answer(record, sentence="", plain="", form=form)
    elif made is None:
        answer(record, sentence=sentence, plain=grant.id, form=None)
    else:
        note(sentence)
        note("This is all that is ever shown of it; keep it where only its user can read it:")
        write(made)


def _with(grant: Grant) -> str:
    return f" with the role {', '.join(grant.roles)}" if grant.roles else ""


def _where(grant: Grant) -> str:
    return "every space" if grant.space == "*" else f"the space {grant.space}"


def _note_missing_space(folder: Path, space: str) -> None:
    """Note a space that does not exist. The server does not report it: its answer is the same as for missing rights."""
    if space != "*" and not (folder / file_name(space)).exists():
        note(f"There is no space {space} in {folder} yet.")


# --- ls, revoke -----------------------------------------------------------------------------------------------


def _record(grant: Grant, now: int) -> dict[str, object]:
    record: dict[str, object] = {
        "id": grant.id,
        "kind": grant.kind,
        "space": grant.space,
        "can": grant.can.word,
        "actor": grant.actor,
        "any_actor": grant.any_actor,
        "roles": list(grant.roles),
        "created": utc(grant.created),
        "expires": None if grant.expires is None else utc(grant.expires),
        "expired": grant.expires is not None and grant.expires <= now,
        "note": grant.note,
    }
    return record | ({"public": grant.secret} if grant.kind == "key" else {})


def list_tokens(*, store: Path | None, form: Form) -> None:
    """Carry out `token ls`."""
    now = SystemClock().now_ms()
    records = [_record(grant, now) for grant in _access(store).ls()]
    show(records, GRANT, form, empty="no tokens and no keys; `headwater token create` makes one")


def revoke_token(*, grant_id: str, store: Path | None, form: Form) -> None:
    """Carry out `token revoke`."""
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


def make_key(*, file: Path, form: Form) -> None:
    """Carry out `token keygen`."""
    keys.require()
    check_free(file, force=False)
    private = keys.generate()
    public = keys.public_text(keys.public_of(private))
    keys.write_private_key(file, private)
    record = {"file": str(file), "public": public}
    answer(record, sentence=f"private key written to {file}; its public key is\n{public}", plain=public, form=form)


# --- audit ----------------------------------------------------------------------------------------------------


def show_audit(*, limit: int | None, store: Path | None, form: Form) -> None:
    """Carry out `token audit`."""
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
        show(records, AUDIT, form, empty="nothing is shown")
    note(_verdict(report))
    if bad is not None:
        raise click.exceptions.Exit(Exit.FAILED)


def _verdict(report: AuditReport) -> str:
    if report.bad is not None:
        return f"The log was CHANGED: {report.bad.file}, line {report.bad.line}: {report.bad.why}"
    torn = f", {count_text(report.torn, 'of them')} broken off by a crash" if report.torn else ""
    return f"{count_text(report.lines, 'line')}, and each follows from the one before{torn}"


def _entry(entry: AuditEntry) -> dict[str, object]:
    return {"n": entry.n, "at": utc(entry.at), "event": entry.event, "facts": entry.facts}
