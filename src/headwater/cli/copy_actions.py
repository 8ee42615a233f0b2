"""Copies of the file of a space: backup, restore."""

from __future__ import annotations

import errno
from pathlib import Path

from headwater.cli.copied_space import copied_to, is_same_file
from headwater.cli.output import Form, answer, progress
from headwater.cli.target import SpaceFile, Target
from headwater.errors import UsageError
from headwater.host.space_copies import check_backup, check_restored, copy_space, make_new_space, replace_space
from headwater.host.space_files import open_space
from headwater.host.storage import Storage
from headwater.host.whole_files import check_free, unfinished
from headwater.machine import machine
from headwater.store.space_identity import renew_lineage
from headwater.values.ids import Seq
from headwater.values.text import size_text


def back_up(*, file: Path, force: bool, unverified: bool, as_new: bool, target: Target, form: Form) -> None:
    """Carry out `backup`."""
    check_free(file, force=force)
    if target.server is None and target.path is not None and is_same_file(target.path, file):
        raise UsageError(f"{file} is the space itself; name another file for its backup", path=str(file))
    with unfinished(file.parent) as part:
        seq, name = copied_to(part, target)
        if not unverified:
            with progress("verifying") as advance:
                check_backup(part, advance)
        if as_new:
            with open_space(str(part), create=False) as copy:
                make_new_space(copy)
        replace_space(part, file)
    size = file.stat().st_size
    record = {"file": str(file), "space": name, "seq": seq, "bytes": size}
    new = " as a new space" if as_new else ""
    sentence = f"space {name} backed up to {file}{new}, up to {seq} ({size_text(size)})"
    answer(record, sentence=sentence, plain=file, form=form)


def restore_space(*, file: Path, force: bool, target: Target, form: Form) -> None:
    """Carry out `restore`."""
    if not file.is_file():
        raise FileNotFoundError(errno.ENOENT, "", str(file))
    folder = target.make_folder()
    if target.space is not None or not target.is_folder:
        # The target is known before the backup is read: reject it before the copy.
        _check_file(target.file_for(""), file, force=force)
    found: list[tuple[SpaceFile, Seq]] = []

    def prepare(storage: Storage) -> None:
        """Give the copy its new name, and a new lineage: clients may have seen later commits."""
        place = target.file_for(storage.name)
        found.append((place, storage.call(lambda engine: engine.head)))
        if place.space != storage.name:
            storage.call(lambda engine: engine.backend.set_meta("space", place.space))
        storage.call(lambda engine: renew_lineage(engine.backend, machine().token_bytes))

    with unfinished(folder) as part:
        with progress("copying") as advance:
            copy_space(file, part, advance)
        with progress("verifying") as advance:
            check_restored(part, file, advance, prepare)
        [(place, seq)] = found
        _check_file(place, file, force=force)
        replace_space(part, place.path)
    record = {"space": place.space, "path": str(place.path), "seq": seq}
    answer(record, sentence=f"space {place.space} restored to {place.path}, up to {seq}", plain=place.path, form=form)


def _check_file(found: SpaceFile, file: Path, *, force: bool) -> None:
    if is_same_file(found.path, file):
        raise UsageError(f"{file} is the backup itself; name the place to restore to with --url", path=str(file))
    check_free(found.path, force=force)
