"""Copies of a space's file: backup, restore. What is put in place was verified before."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final

from headwater.cli.exits import RefusalError
from headwater.cli.output import Form, Progress, answer, progress, size_text
from headwater.cli.target import ServerTarget, SpaceFile, Target
from headwater.cli.whole_files import beside, check_free, put_in_place, unfinished
from headwater.client.server_pages import OK, page, refusal, space_path
from headwater.errors import (
    CorruptError,
    HeadwaterError,
    MigrationError,
    NotFoundError,
    SpaceHeldError,
    StoreError,
    UnavailableError,
    UsageError,
)
from headwater.host.space_files import open_space as open_file
from headwater.server.spaces.space_lineage import renew
from headwater.store.backends.sqlite_file import held, holder
from headwater.store.verification import verify
from headwater.values.author_text import kind_of, text_of
from headwater.values.ids import Seq

_CHUNK: Final = 1024 * 1024


# --- backup ---------------------------------------------------------------------------------------------------


def back_up(*, file: Path, force: bool, unverified: bool, target: Target, form: Form) -> None:
    """Carry out `backup`."""
    check_free(file, force=force)
    if target.server is not None:
        _report(file, target.server.url.space, _fetch(target.server, file, verified=not unverified), form)
        return
    with target.open() as storage:
        if _same(target.file_for("").path, file):
            raise UsageError(f"{file} is the space itself; name another file for its backup", path=str(file))
        with unfinished(file.parent) as part:
            with progress("backing up") as advance:
                storage.call(lambda engine: engine.backend.backup(str(part), advance))
            if not unverified:
                _check_copy(part)
            replace_space(part, file)
        seq, name = storage.call(lambda engine: engine.head), storage.name
    _report(file, name, seq, form)


def _report(file: Path, name: str, seq: int, form: Form) -> None:
    size = file.stat().st_size
    record = {"file": str(file), "space": name, "seq": seq, "bytes": size}
    sentence = f"space {name} backed up to {file}, up to {seq} ({size_text(size)})"
    answer(record, sentence=sentence, plain=file, form=form)


def _fetch(server: ServerTarget, file: Path, *, verified: bool) -> int:
    """From a server. How far it goes."""
    with unfinished(file.parent) as part:
        with progress("downloading") as advance:
            seq = _download(server, part, advance)
        if verified:
            _check_copy(part)
        replace_space(part, file)
    return seq


def _download(server: ServerTarget, file: Path, advance: Progress) -> int:
    """Write a whole space into a file, as of one moment. Returns its newest sequence number."""
    url = server.url
    with page(url, server.token, space_path(url, "backup")) as response:
        if response.status != OK:
            raise refusal(url, response, f"{url} gives no backup")
        total, done = int(response.headers["content-length"]), 0
        with file.open("wb") as writing:
            while data := response.read(_CHUNK):
                writing.write(data)
                done += len(data)
                advance(done, total)
        if done != total:
            message = f"the backup of {url} was broken off after {done:,} of {total:,} bytes; try again"
            raise UnavailableError(message, url=str(url))
        return int(response.headers["headwater-seq"])


def _check_copy(part: Path) -> None:
    """A backup of a damaged space is found today, not on the day it is needed."""
    with open_file(str(part), create=False) as copy, progress("verifying") as advance:
        findings = copy.call(lambda engine: verify(engine, advance)).findings
    if findings:
        message = f"the space is damaged: {findings[0]}; no backup was made (--unverified copies it as it is)"
        raise CorruptError(message, findings=tuple(findings))


# --- restore --------------------------------------------------------------------------------------------------


def restore_space(*, file: Path, force: bool, target: Target, form: Form) -> None:
    """Carry out `restore`."""
    if not file.is_file():
        raise FileNotFoundError(errno.ENOENT, "", str(file))
    folder = target.make_folder()
    if target.space is not None or not target.is_folder:
        # The file is known before the backup has been read: no need to copy it only to be refused.
        _check_file(target.file_for(""), file, force=force)
    with unfinished(folder) as part:
        _copy(file, part)
        found, seq = _verified(part, file, target)
        _check_file(found, file, force=force)
        replace_space(part, found.path)
    record = {"space": found.space, "path": str(found.path), "seq": seq}
    sentence = f"space {found.space} restored to {found.path}, up to {seq}"
    answer(record, sentence=sentence, plain=found.path, form=form)


def _check_file(found: SpaceFile, file: Path, *, force: bool) -> None:
    if _same(found.path, file):
        raise UsageError(f"{file} is the backup itself; name the place to restore to with --url", path=str(file))
    check_free(found.path, force=force)


def _copy(source: Path, target: Path) -> None:
    """The file, and its write-ahead log, which holds the newest commits if its process was interrupted."""
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


def _verified(part: Path, file: Path, target: Target) -> tuple[SpaceFile, Seq]:
    """The file that the copy becomes, and its head. The copy gets the name that it will be opened by."""
    try:
        with open_file(str(part), create=False) as storage, progress("verifying") as advance:
            checked = storage.call(lambda engine: verify(engine, advance))
            found, seq = target.file_for(storage.name), storage.call(lambda engine: engine.head)
            if found.space != storage.name:
                storage.call(lambda engine: engine.backend.set_meta("space", found.space))
            # Clients that have seen what comes after it must not take it for what they know.
            storage.call(renew)
    except HeadwaterError as error:
        # The message names the copy; people know the backup.
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
    return found, seq


# --- for both, and for import ---------------------------------------------------------------------------------


def _same(path: Path, file: Path) -> bool:
    return path.exists() and file.exists() and path.samefile(file)


def replace_space(part: Path, target: Path) -> None:
    """Put a finished file where a space belongs. A file that exists there must be a space that no process has open."""
    if target.is_symlink():
        raise RefusalError(f"{target} is a symbolic link; name the file itself")
    if target.exists():
        if holder(str(target)) is not None:
            raise held(str(target))
        try:
            # Opened and closed, it leaves no log of its own behind that SQLite would take for the new one's.
            open_file(str(target), create=False).close()
        except (SpaceHeldError, MigrationError):
            raise
        except (StoreError, NotFoundError):
            # Damaged: that is why it is replaced.
            pass
        for leftover in beside(target):
            leftover.unlink(missing_ok=True)
    put_in_place(part, target)
