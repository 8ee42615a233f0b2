"""The check of one space: its file, its commits, its documents and the tables of its workflows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from headwater.errors import (
    CorruptError,
    HeadwaterError,
    InvariantError,
    MigrationError,
    NotFoundError,
    SpaceHeldError,
)
from headwater.host.space_files import file_name
from headwater.host.storage import Storage
from headwater.host.system_clock import SystemClock
from headwater.machine import machine
from headwater.store.engine import Engine
from headwater.store.verification import verify
from headwater.values.author_text import kind_of, text_of
from headwater.workflow.table_checks import check_all
from headwater.workflow.tables import WorkflowTables


def check_file(
    path: Path | None, opened: Callable[[], Storage], advance: Callable[[int, int], None], *, rebuild: bool = False
) -> dict[str, object]:
    """The state of one space, its counts and the findings. An error of opening is a finding, too.

    `opened` opens it; `path` is its file, None in memory. With `rebuild`, damaged indexes are made again.

    Raises NotFoundError if there is no file.
    """
    counts: dict[str, object] = {}
    try:
        with opened() as storage:
            report = storage.call(lambda engine: verify(engine, advance, rebuild=rebuild))
            counts = {"space": storage.name, "commits": report.commits, "documents": report.documents}
            counts["observations"] = report.observations
            counts["rebuilt"] = report.rebuilt
            findings = report.findings + storage.call(_workflow_findings)
            own = file_name(storage.name)
            if path is not None and _looks_named(path.name) and path.name != own:
                findings.append(f"the file of space {storage.name!r} should be called {own}; it was renamed or swapped")
    except NotFoundError as error:
        if path is None or not machine().files.exists(path):
            raise
        findings = [error.message]
    except SpaceHeldError as error:
        return {**counts, "state": "held", "findings": [error.message]}
    except (CorruptError, MigrationError) as error:
        findings = [error.message]
    except HeadwaterError as error:
        return {**counts, "state": "unknown", "findings": [error.message]}
    except Exception as error:  # noqa: BLE001  # in a damaged file anything may turn up; other spaces are still checked
        findings = [f"it cannot be read: {kind_of(error)} {text_of(error)}".strip()]
    return {**counts, "state": "damaged" if findings else "sound", "findings": findings}


def _workflow_findings(engine: Engine) -> list[str]:
    """Inconsistencies in the tables of workflows, which have no checksums."""
    try:
        check_all(WorkflowTables(engine.backend.tables, SystemClock().now_ms()))
    except (InvariantError, CorruptError) as error:
        return [f"workflows: {error.message}"]
    return []


def _looks_named(name: str) -> bool:
    """Whether this is a name for a file of a space in a folder."""
    stem, _, digest = name.removesuffix(".db").rpartition("-")
    return bool(stem) and len(digest) == len("0123456789") and set(digest) <= set("0123456789abcdef")
