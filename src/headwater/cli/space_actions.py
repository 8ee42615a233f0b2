"""Spaces as a whole: spaces ls, new-id, rename; copy."""

from __future__ import annotations

import errno
from pathlib import Path

from headwater.cli.copied_space import copied_to, is_same_file
from headwater.cli.output import Form, Record, answer, progress, show
from headwater.cli.space_syntax import SPACE
from headwater.cli.target import Target
from headwater.errors import NotFoundError, UsageError
from headwater.host.postgres.database_checks import list_spaces as list_database
from headwater.host.postgres.database_url import DatabaseUrl, is_database, parse_database_url
from headwater.host.space_copies import check_backup, make_new_space, replace_space
from headwater.host.space_files import file_name, open_space
from headwater.host.space_listing import ListedSpace, list_folder, listed
from headwater.host.whole_files import RefusalError, check_free, unfinished
from headwater.machine import machine
from headwater.store.backends.postgres.listing import SpaceFacts
from headwater.values.space_names import check_space_name
from headwater.values.text import size_text


def list_spaces(*, folder: str, form: Form) -> None:
    """Carry out `spaces ls`."""
    if is_database(folder):
        database = parse_database_url(folder)
        records = [_database_record(each, database) for each in list_database(database)]
        show(records, SPACE, form, empty=f"there are no spaces at {database.shown}")
        return
    _list_folder(Path(folder), form)


def _list_folder(folder: Path, form: Form) -> None:
    if not folder.exists():
        raise NotFoundError(f"there is no folder {folder}", path=str(folder))
    found = list_folder(folder) if folder.is_dir() else [listed(folder)]
    show(map(_record, found), SPACE, form, empty=f"there are no spaces in {folder}")


def _database_record(found: SpaceFacts, database: DatabaseUrl) -> Record:
    return {
        "space": found.name,
        "id": found.id,
        "lineage": found.lineage,
        "bytes": found.bytes,
        "state": None if found.owner is None else f"open in {found.owner}",
        "process": None,
        "path": f"{database.shown}, space {found.name}",
    }


def _record(found: ListedSpace) -> Record:
    return {
        "space": found.name,
        "id": found.id,
        "lineage": found.lineage,
        "bytes": found.bytes,
        "state": None if found.process is None else f"open in process {found.process}",
        "process": found.process,
        "path": str(found.path),
    }


def renew_id(*, file: Path, form: Form) -> None:
    """Carry out `spaces new-id`."""
    if not file.is_file():
        raise FileNotFoundError(errno.ENOENT, "", str(file))
    with open_space(str(file), create=False) as storage:
        before, name = storage.identity.id, storage.name
        (made, lineage), dropped = make_new_space(storage)
    record = {"space": name, "id": made, "lineage": lineage.hex(), "path": str(file), "dropped": dropped}
    sentence = f"space {name} in {file} has the id {made} now; it was {before}{_dropped(dropped)}"
    answer(record, sentence=sentence, plain=made, form=form)


def rename_space(*, name: str, target: Target, form: Form) -> None:
    """Carry out `spaces rename`."""
    check_space_name(name)
    path = target.path
    if target.database is not None:
        raise UsageError(f"{target.shown} is a database, and spaces of a database keep their names for now")
    if path is None:
        raise UsageError("memory: ends with this command; name a file with --url")
    new = path.with_name(file_name(name)) if target.is_folder else path
    if new != path and not path.exists() and new.exists():
        # A rename that was interrupted, or is repeated.
        path = new
    if new != path and machine().files.lexists(new):
        raise RefusalError(f"{new} exists: there is a space {name!r} already")
    # By the file, not by the name: an interrupted rename has stored the new one.
    with open_space(str(path), create=False) as storage:
        before, found = storage.name, storage.identity.id
        if target.space is not None and before not in (target.space, name):
            raise NotFoundError(f"{path} holds the space {before!r}, not {target.space!r}", path=str(path))
        storage.call(lambda engine: engine.backend.set_meta("space", name))
    if new != path:
        machine().files.replace(path, new)
        machine().files.sync_folder(new.parent)
    record = {"space": name, "before": before, "id": found, "path": str(new)}
    answer(record, sentence=f"space {before} is called {name} now, in {new}", plain=new, form=form)


def copy_space(
    *,
    source: str,
    destination: str,
    space: str | None,
    name: str | None,
    force: bool,
    token_file: Path | None,
    form: Form,
) -> None:
    """Carry out `copy`."""
    at, to = Target(source, space, token_file=token_file), Target(destination, name)
    if to.server is not None:
        raise UsageError(f"{destination} is a server's; copy to a file, and put it into the folder of the server")
    with unfinished(to.make_folder()) as part:
        seq, stored = copied_to(part, at)
        place = to.file_for(name or stored)
        if at.server is None and at.path is not None and is_same_file(place.path, at.path):
            raise UsageError(f"{place.path} is the space itself; name another file for the copy", path=str(place.path))
        check_free(place.path, force=force)
        with progress("verifying") as advance:
            check_backup(part, advance)
        with open_space(str(part), create=False) as storage:
            storage.call(lambda engine: engine.backend.set_meta("space", place.space))
            (made, lineage), dropped = make_new_space(storage)
        replace_space(part, place.path)
    size = place.path.stat().st_size
    record = {
        "space": place.space,
        "id": made,
        "lineage": lineage.hex(),
        "path": str(place.path),
        "dropped": dropped,
        "seq": seq,
        "bytes": size,
    }
    sentence = f"space {stored} copied to {place.path} as a new space with the id {made} ({size_text(size)})"
    answer(record, sentence=sentence + _dropped(dropped), plain=place.path, form=form)


def _dropped(count: int) -> str:
    return f"; {count} events for other spaces were dropped, which the original sends" if count else ""
