"""Care of spaces: verify, compact."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from headwater.cli.exits import Exit, exit_of
from headwater.cli.options import as_list, as_object, on_space
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
)
from headwater.errors import (
    CorruptError,
    HeadwaterError,
    InvariantError,
    MigrationError,
    NotFoundError,
    SpaceHeldError,
)
from headwater.values.author_text import kind_of, text_of
from headwater.values.text import inert

if TYPE_CHECKING:
    from headwater.store.engine import Engine
    from headwater.values.ids import Seq

_WORDS: Final = {"sound": "sound", "damaged": "DAMAGED", "held": "not checked", "unknown": "not checked"}


# --- verify ---------------------------------------------------------------------------------------------------


@click.command
@on_space
@as_list
def verify_spaces(*, url: str | None, space: str | None, form: Form) -> None:
    """Check that a space, or every space of a folder, holds what was written.

    The database checks its file, the hash chain of the commits is walked, all documents are made again from the log and
    compared, and the tables of workflows are checked to fit together. Exit 1 if anything is wrong, 4 if a space could
    not be looked at because it is open elsewhere.
    """
    found: list[dict[str, object]] = []
    for path in _files(url, space):
        record = _verify(path, space)
        found.append(record)
        if form == "jsonl":
            write(json_text(record))
        elif form is None:
            _tell(record)
    if form == "json":
        write(json_text({"sound": all(one["state"] == "sound" for one in found), "spaces": found}))
    states = {str(one["state"]) for one in found}
    if states & {"damaged", "unknown"}:
        raise click.exceptions.Exit(Exit.FAILED)
    if "held" in states:
        raise click.exceptions.Exit(exit_of(SpaceHeldError))


def _files(url: str | None, space: str | None) -> list[str]:
    """What to check, as URLs of one space each."""
    from headwater.cli.spaces import is_folder
    from headwater.host.space_files import default_url, spaces_in

    url = url if url is not None else default_url()
    if space is not None or not is_folder(url):
        return [url]
    folder = Path(url)
    if not folder.is_dir():
        raise NotFoundError(f"there is no folder {url}", url=url)
    files = spaces_in(folder)
    if not files:
        raise NotFoundError(f"there are no spaces in {url}", url=url)
    return list(map(str, files))


def _verify(url: str, space: str | None) -> dict[str, object]:
    """One space; what cannot even be opened is a finding, too."""
    from headwater.cli.spaces import open_space
    from headwater.host.space_files import file_name, locate
    from headwater.store.verification import verify

    path = locate(url, space).path
    record: dict[str, object] = {"path": url if path is None else str(path), "space": space, "state": "sound"}
    try:
        with open_space(url, space) as storage, progress(f"verifying {path}") as advance:
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
    except Exception as error:  # noqa: BLE001  # in a damaged file anything may turn up; other spaces are still checked
        findings = [f"it cannot be read: {kind_of(error)} {text_of(error)}".strip()]
    return record | {"state": "damaged" if findings else "sound", "findings": findings}


def _workflow_findings(engine: Engine) -> list[str]:
    """What does not fit together in the tables of workflows, which have no checksums."""
    from headwater.host.system_clock import SystemClock
    from headwater.workflow.table_checks import check_all
    from headwater.workflow.tables import WorkflowTables

    try:
        check_all(WorkflowTables(engine.backend.tables, SystemClock().now_ms()))
    except (InvariantError, CorruptError) as error:
        return [f"workflows: {error.message}"]
    return []


def _looks_named(name: str) -> bool:
    """Whether files of spaces in a folder are called like this."""
    stem, _, digest = name.removesuffix(".db").rpartition("-")
    return bool(stem) and len(digest) == len("0123456789") and set(digest) <= set("0123456789abcdef")


def _tell(record: Record) -> None:
    findings = record["findings"]
    assert isinstance(findings, list)
    counts = [record.get(name, 0) for name in ("commits", "documents")]
    if not is_terminal():
        write("\t".join(inert(str(field)) for field in (record["path"], record["state"], *counts, "; ".join(findings))))
        return
    line = f"{record['path']}: {_WORDS[str(record['state'])]}"
    if "commits" in record:
        line += f" ({counts[0]:,} commits, {counts[1]:,} documents)"
    write("\n".join(inert(text) for text in [line, *(f"  {finding}" for finding in findings)]))


# --- compact --------------------------------------------------------------------------------------------------


@click.command
@click.option(
    "--before", metavar="SEQ", type=click.IntRange(min=0), help="Forget the past up to this number, for good."
)
@on_space
@as_object
def compact_space(*, before: Seq | None, url: str | None, space: str | None, form: Form) -> None:
    """Make a space's file as small as it can be, and tell how many bytes were freed.

    With --before the log up to SEQ is dropped: documents stay as they are, but their past up to there cannot be
    read any more. It is kept from where a branch was forked on. What is kept of functions whose results were deleted
    goes in any case.
    """
    from headwater.cli.spaces import open_space
    from headwater.store.compaction import compact

    with open_space(url, space) as storage, progress("compacting") as advance:
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
