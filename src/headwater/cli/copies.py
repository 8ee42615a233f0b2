"""Copies of a space's file: backup, restore. What is put in place was verified before."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from headwater.cli.exits import RefusalError
from headwater.cli.files import beside, check_free, put_in_place, unfinished
from headwater.cli.options import as_object, on_space
from headwater.cli.output import Form, Progress, answer, progress, size_text
from headwater.cli.remote import on_space_or_server
from headwater.errors import (
    CorruptError,
    HeadwaterError,
    MigrationError,
    NotFoundError,
    SpaceHeldError,
    StoreError,
    UsageError,
)
from headwater.values.author_text import kind_of, text_of

if TYPE_CHECKING:
    from headwater.cli.remote import Server
    from headwater.values.ids import Seq

_CHUNK: Final = 1024 * 1024


# --- backup ---------------------------------------------------------------------------------------------------


@click.command
@click.argument("file", type=Path)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.option("--unverified", is_flag=True, help="Keep the copy as it is, even of a damaged space.")
@on_space_or_server
@as_object
def back_up(
    *,
    file: Path,
    force: bool,
    unverified: bool,
    url: str | None,
    space: str | None,
    token_file: Path | None,
    form: Form,
) -> None:
    """Copy a space into a new FILE, which is a space itself. It is verified, and there whole or not at all.

    Of a server's space, which goes on being used meanwhile, with a token that owns it.
    """
    from headwater.cli.remote import server_of
    from headwater.cli.spaces import open_space

    check_free(file, force=force)
    server = server_of(url, space, token_file)
    if server is not None:
        _tell_backup(file, server.url.space, _fetch(server, file, verified=not unverified), form)
        return
    with open_space(url, space) as storage:
        _check_not_space(file, url, space)
        with unfinished(file.parent) as part:
            with progress("backing up") as advance:
                storage.call(lambda engine: engine.backend.backup(str(part), advance))
            if not unverified:
                _check_copy(part)
            replace_space(part, file)
        seq, name = storage.call(lambda engine: engine.head), storage.name
    _tell_backup(file, name, seq, form)


def _tell_backup(file: Path, name: str, seq: int, form: Form) -> None:
    size = file.stat().st_size
    record = {"file": str(file), "space": name, "seq": seq, "bytes": size}
    sentence = f"space {name} backed up to {file}, up to {seq} ({size_text(size)})"
    answer(record, sentence=sentence, plain=file, form=form)


def _fetch(server: Server, file: Path, *, verified: bool) -> int:
    """From a server. How far it goes."""
    from headwater.cli.pages import download

    with unfinished(file.parent) as part:
        with progress("downloading") as advance:
            seq = download(server, part, advance)
        if verified:
            _check_copy(part)
        replace_space(part, file)
    return seq


def _check_copy(part: Path) -> None:
    """A backup is for the day the space is damaged: that it is not the damage is found out today."""
    from headwater.host.space_files import open_space
    from headwater.store.verification import verify

    with open_space(str(part), create=False) as copy, progress("verifying") as advance:
        findings = copy.call(lambda engine: verify(engine, advance)).findings
    if findings:
        message = f"the space is damaged: {findings[0]}; no backup was made (--unverified copies it as it is)"
        raise CorruptError(message, findings=tuple(findings))


def _check_not_space(file: Path, url: str | None, space: str | None) -> None:
    """A space must not be replaced by its own backup while it is open."""
    if _same(locate_space(url, space, "").path, file):
        raise UsageError(f"{file} is the space itself; name another file for its backup", path=str(file))


# --- restore --------------------------------------------------------------------------------------------------


@click.command
@click.argument("file", type=Path)
@click.option("--force", is_flag=True, help="Replace the space if it exists.")
@on_space
@as_object
def restore_space(*, file: Path, force: bool, url: str | None, space: str | None, form: Form) -> None:
    """Put a backup in the place that --url names, after verifying it.

    The backup is only read. The space keeps its name, unless --space gives it another.
    """
    from headwater.cli.spaces import is_folder
    from headwater.host.space_files import default_url

    if not file.is_file():
        raise FileNotFoundError(errno.ENOENT, "", str(file))
    url = url if url is not None else default_url()
    folder = folder_of(url, space)
    if space is not None or not is_folder(url):
        # Where it goes is known before the backup has been read: no need to copy it only to be refused.
        _check_target(locate_space(url, space, ""), file, force=force)
    with unfinished(folder) as part:
        _copy(file, part)
        target, seq = _verified(part, file, url, space)
        _check_target(target, file, force=force)
        replace_space(part, target.path)
    record = {"space": target.space, "path": str(target.path), "seq": seq}
    sentence = f"space {target.space} restored to {target.path}, up to {seq}"
    answer(record, sentence=sentence, plain=target.path, form=form)


def _check_target(target: Target, file: Path, *, force: bool) -> None:
    if _same(target.path, file):
        raise UsageError(f"{file} is the backup itself; name the place to restore to with --url", path=str(file))
    check_free(target.path, force=force)


def _copy(source: Path, target: Path) -> None:
    """The file, and its write-ahead log if whoever had it open was interrupted: it holds the newest commits."""
    from headwater.store.backends.sqlite_file import held, holder

    if holder(str(source)) is not None:
        raise held(str(source))
    pairs = [(source, target), *((a, b) for a, b in zip(beside(source), beside(target), strict=True) if a.is_file())]
    total, done = sum(path.stat().st_size for path, _ in pairs), 0
    with progress("copying") as advance:
        for path, copy in pairs:
            done = _copy_file(path, copy, done, total, advance)


def _copy_file(path: Path, copy: Path, done: int, total: int, advance: Progress) -> int:
    with path.open("rb") as reading, copy.open("wb") as writing:
        while chunk := reading.read(_CHUNK):
            writing.write(chunk)
            done += len(chunk)
            advance(done, total)
    return done


def _verified(part: Path, file: Path, url: str, space: str | None) -> tuple[Target, Seq]:
    """Where the copy belongs, and what is in it. The copy is given the name it will be opened by."""
    from headwater.host.space_files import open_space
    from headwater.server.spaces.space_lineage import renew
    from headwater.store.verification import verify

    try:
        with open_space(str(part), create=False) as storage, progress("verifying") as advance:
            checked = storage.call(lambda engine: verify(engine, advance))
            target, seq = locate_space(url, space, storage.name), storage.call(lambda engine: engine.head)
            if target.space != storage.name:
                storage.call(lambda engine: engine.backend.set_meta("space", target.space))
            # Clients that have seen what comes after it must not take it for what they know.
            storage.call(renew)
    except HeadwaterError as error:
        # It speaks of the copy; people know the backup.
        message = error.message.replace(str(part), str(file))
        raise type(error)(f"nothing was restored: {message}", **error.facts) from error
    except Exception as error:
        # In a damaged file anything may turn up.
        message = f"nothing was restored: {file} cannot be read: {kind_of(error)} {text_of(error)}".strip()
        raise CorruptError(message, path=str(file)) from error
    if checked.findings:
        findings = "; ".join(checked.findings[:3]).replace(str(part), str(file))
        message = f"nothing was restored: {file} is damaged: {findings}"
        raise CorruptError(message, path=str(file), findings=tuple(checked.findings))
    return target, seq


# --- for both, and for import ---------------------------------------------------------------------------------


class Target(NamedTuple):
    """Where a space is to be."""

    space: str
    path: Path


def locate_space(url: str | None, space: str | None, stored: str) -> Target:
    """Where a space belongs that came from elsewhere. It keeps its name, unless another was given."""
    from headwater.cli.spaces import is_folder
    from headwater.host.space_files import Location, default_url, locate

    url = url if url is not None else default_url()
    if space is not None or not stored:
        location = locate(url, space)
    else:
        location = locate(url, stored) if is_folder(url) else Location(stored, locate(url).path)
    if location.path is None:
        raise UsageError("memory: ends with this command; name a file with --url")
    return Target(location.space, location.path)


def folder_of(url: str, space: str | None) -> Path:
    """The folder that a space's file is put in. One of many spaces is made if it is missing."""
    from headwater.cli.spaces import is_folder
    from headwater.host.space_files import locate

    path = locate(url, space).path
    if path is None:
        raise UsageError("memory: ends with this command; name a file with --url")
    if is_folder(url):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    elif not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "", str(path.parent))
    return path.parent


def _same(path: Path, file: Path) -> bool:
    return path.exists() and file.exists() and path.samefile(file)


def replace_space(part: Path, target: Path) -> None:
    """Put a finished file where a space belongs. One that is there must be ours, and nobody may hold it."""
    from headwater.host.space_files import open_space
    from headwater.store.backends.sqlite_file import held, holder

    if target.is_symlink():
        raise RefusalError(f"{target} is a symbolic link; name the file itself")
    if target.exists():
        if holder(str(target)) is not None:
            raise held(str(target))
        try:
            # Opened and closed, it leaves no log of its own behind that SQLite would take for the new one's.
            open_space(str(target), create=False).close()
        except (SpaceHeldError, MigrationError):
            raise
        except (StoreError, NotFoundError):
            # Damaged: that is why it is replaced.
            pass
        for leftover in beside(target):
            leftover.unlink(missing_ok=True)
    put_in_place(part, target)
