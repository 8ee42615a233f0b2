"""Care of spaces: verify, compact."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from headwater.cli import output as out
from headwater.cli.exits import Exit, exit_of
from headwater.cli.output import Form, Record, progress
from headwater.cli.target import Target
from headwater.errors import NotFoundError, SpaceHeldError
from headwater.host.space_check import check_file
from headwater.host.space_files import spaces_in
from headwater.store.compaction import compact
from headwater.values.ids import Seq
from headwater.values.text import count_text, inert, size_text

_WORDS: Final = {"sound": "sound", "damaged": "DAMAGED", "held": "not checked", "unknown": "not checked"}


# --- verify ---------------------------------------------------------------------------------------------------


def verify_spaces(*, rebuild: bool, target: Target, form: Form) -> None:
    """Carry out `verify`."""
    found: list[dict[str, object]] = []
    for each in _targets(target):
        record = _checked(each, rebuild=rebuild)
        found.append(record)
        if form == "jsonl":
            out.write(out.json_text(record))
        elif form is None:
            _print(record)
    if form == "json":
        out.write(out.json_text({"sound": all(one["state"] == "sound" for one in found), "spaces": found}))
    states = {str(one["state"]) for one in found}
    if states & {"damaged", "unknown"}:
        raise click.exceptions.Exit(Exit.FAILED)
    if "held" in states:
        raise click.exceptions.Exit(exit_of(SpaceHeldError))


def _targets(target: Target) -> list[Target]:
    """The spaces to check."""
    url = target.url
    if target.space is not None or not target.is_folder:
        return [target]
    if not Path(url).is_dir():
        raise NotFoundError(f"there is no folder {url}", url=url)
    files = spaces_in(Path(url))
    if not files:
        raise NotFoundError(f"there are no spaces in {url}", url=url)
    return [Target(str(file)) for file in files]


def _checked(target: Target, *, rebuild: bool) -> dict[str, object]:
    path = target.path
    record: dict[str, object] = {"path": target.shown if path is None else str(path), "space": target.space}
    record["state"] = "sound"
    with progress(f"verifying {path}") as advance:
        return record | check_file(path, target.open, advance, rebuild=rebuild)


def _print(record: Record) -> None:
    findings, rebuilt = record["findings"], record.get("rebuilt", [])
    assert isinstance(findings, list)
    assert isinstance(rebuilt, list)
    for what in rebuilt:
        out.note(f"{record['path']}: made again from the log: {what}")
    counts = [record.get(name, 0) for name in ("commits", "documents")]
    if not out.is_terminal():
        out.write_fields(record["path"], record["state"], *counts, "; ".join(findings))
        return
    line = f"{record['path']}: {_WORDS[str(record['state'])]}"
    if "commits" in record:
        line += f" ({counts[0]:,} commits, {counts[1]:,} documents)"
    out.write("\n".join(inert(text) for text in [line, *(f"  {finding}" for finding in findings)]))


# --- compact --------------------------------------------------------------------------------------------------


def compact_space(*, before: Seq | None, target: Target, form: Form) -> None:
    """Carry out `compact`."""
    with target.open() as storage, progress("compacting") as advance:
        done = storage.call(lambda engine: compact(engine, before, advance))
    freed = done.bytes_before - done.bytes_after
    if before is not None and done.first < before:
        out.note(f"kept from {done.first} on: a branch was forked there")
    record = {
        "freed": freed,
        "bytes": done.bytes_after,
        "commits_dropped": done.commits_dropped,
        "first": done.first,
        "observations_dropped": done.observations_dropped,
    }
    dropped = f", {count_text(done.commits_dropped, 'commit')} forgotten" if done.commits_dropped else ""
    if done.observations_dropped:
        dropped += f", {count_text(done.observations_dropped, 'observation')} dropped"
    sizes = f"{size_text(done.bytes_before)} -> {size_text(done.bytes_after)}"
    sentence = f"{size_text(freed)} freed ({sizes}){dropped}; the past can be read from {done.first} on"
    out.answer(record, sentence=sentence, plain=freed, form=form)
