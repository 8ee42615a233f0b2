"""Care of spaces: verify, compact."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from headwater.cli.exits import Exit, exit_of
from headwater.cli.output import (
    Form,
    Record,
    answer,
    count_text,
    is_terminal,
    json_text,
    note,
    progress,
    size_text,
    write,
    write_fields,
)
from headwater.cli.target import Target
from headwater.errors import (
    CorruptError,
    HeadwaterError,
    InvariantError,
    MigrationError,
    NotFoundError,
    SpaceHeldError,
)
from headwater.host.space_files import file_name, spaces_in
from headwater.host.system_clock import SystemClock
from headwater.store.compaction import compact
from headwater.store.engine import Engine
from headwater.store.verification import verify
from headwater.values.author_text import kind_of, text_of
from headwater.values.ids import Seq
from headwater.values.text import inert
from headwater.workflow.table_checks import check_all
from headwater.workflow.tables import WorkflowTables

_WORDS: Final = {"sound": "sound", "damaged": "DAMAGED", "held": "not checked", "unknown": "not checked"}


# --- verify ---------------------------------------------------------------------------------------------------


def verify_spaces(*, target: Target, form: Form) -> None:
    """Carry out `verify`."""
    found: list[dict[str, object]] = []
    for each in _targets(target):
        record = _verify(each)
        found.append(record)
        if form == "jsonl":
            write(json_text(record))
        elif form is None:
            _print(record)
    if form == "json":
        write(json_text({"sound": all(one["state"] == "sound" for one in found), "spaces": found}))
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


def _verify(target: Target) -> dict[str, object]:
    """One space. That it cannot be opened is a finding, too."""
    path = target.path
    record: dict[str, object] = {"path": target.url if path is None else str(path), "space": target.space}
    record["state"] = "sound"
    try:
        with target.open() as storage, progress(f"verifying {path}") as advance:
            report = storage.call(lambda engine: verify(engine, advance))
            record |= {"space": storage.name, "commits": report.commits, "documents": report.documents}
            record |= {"observations": report.observations}
            findings = report.findings + storage.call(_workflow_findings)
            own = file_name(storage.name)
            if path is not None and _looks_named(path.name) and path.name != own:
                findings.append(f"the file of space {storage.name!r} should be called {own}; it was renamed or swapped")
    except NotFoundError as error:
        if path is None or not path.exists():
            raise
        findings = [error.message]
    except SpaceHeldError as error:
        return record | {"state": "held", "findings": [error.message]}
    except (CorruptError, MigrationError) as error:
        findings = [error.message]
    except HeadwaterError as error:
        return record | {"state": "unknown", "findings": [error.message]}
    except Exception as error:  # in a damaged file anything may turn up; other spaces are still checked  # noqa: BLE001  # in a damaged file anything may turn up; other spaces are still checked
        findings = [f"it cannot be read: {kind_of(error)} {text_of(error)}".strip()]
    return record | {"state": "damaged" if findings else "sound", "findings": findings}


def _workflow_findings(engine: Engine) -> list[str]:
    """Inconsistencies in the tables of workflows, which have no checksums."""
    try:
        check_all(WorkflowTables(engine.backend.tables, SystemClock().now_ms()))
    except (InvariantError, CorruptError) as error:
        return [f"workflows: {error.message}"]
    return []


def _looks_named(name: str) -> bool:
    """Whether files of spaces in a folder have names like this."""
    stem, _, digest = name.removesuffix(".db").rpartition("-")
    return bool(stem) and len(digest) == len("0123456789") and set(digest) <= set("0123456789abcdef")


def _print(record: Record) -> None:
    findings = record["findings"]
    assert isinstance(findings, list)
    counts = [record.get(name, 0) for name in ("commits", "documents")]
    if not is_terminal():
        write_fields(record["path"], record["state"], *counts, "; ".join(findings))
        return
    line = f"{record['path']}: {_WORDS[str(record['state'])]}"
    if "commits" in record:
        line += f" ({counts[0]:,} commits, {counts[1]:,} documents)"
    write("\n".join(inert(text) for text in [line, *(f"  {finding}" for finding in findings)]))


# --- compact --------------------------------------------------------------------------------------------------


def compact_space(*, before: Seq | None, target: Target, form: Form) -> None:
    """Carry out `compact`."""
    with target.open() as storage, progress("compacting") as advance:
        done = storage.call(lambda engine: compact(engine, before, advance))
    freed = done.bytes_before - done.bytes_after
    if before is not None and done.first < before:
        note(f"kept from {done.first} on: a branch was forked there")
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
    answer(record, sentence=sentence, plain=freed, form=form)
