"""`headwater import` of an export with its past: the space is built beside, verified, then put in place.

Must never know: where the lines come from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.cli.exits import RefusalError
from headwater.cli.files import unfinished
from headwater.cli.output import progress
from headwater.errors import HeadwaterError, HistoryError, NotFoundError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headwater.store.backend import LogRow
    from headwater.store.engine import Engine
    from headwater.store.portable import Header
    from headwater.values.ids import Seq

    Rows = Callable[[], Iterator[LogRow]]
    """Reads the log from its start, as often as it is called."""


def rebuild_space(header: Header, rows: Rows, url: str | None, space: str | None, *, create: bool) -> tuple[Seq, int]:
    """Where the space is afterwards, and how many commits of the log it did not have before."""
    from headwater.cli.copies import folder_of, locate_space, replace_space
    from headwater.host.space_files import default_url
    from headwater.values.ids import NEVER

    url = url if url is not None else default_url()
    target = locate_space(url, space, header.space)
    path = target.path
    head = NEVER
    if path.exists():
        head = _compare(path, rows, header.seq)
    elif not create:
        raise NotFoundError(f"there is no space at {path}, and --no-create says not to make one", path=str(path))
    if head < header.seq or not path.exists():
        with unfinished(folder_of(url, space)) as part:
            _build(part, target.space, rows, header)
            replace_space(part, path)
    return max(header.seq, head), max(header.seq - head, 0)


def _compare(path: Path, rows: Rows, last: Seq) -> Seq:
    """How far a space is that has the same past. Another one is never overwritten."""
    from headwater.host.space_files import open_space
    from headwater.store.log_rebuild import first_difference

    def compare(engine: Engine) -> Seq:
        try:
            differs = first_difference(engine, rows(), last)
        except HistoryError as error:
            first = error.facts["first"]
            raise RefusalError(f"{path} has forgotten its past up to {first}; import into a new file") from None
        if differs is not None:
            raise RefusalError(f"{path} has another past: its commit {differs} differs; import into a new file")
        return engine.head

    with open_space(str(path), create=False) as storage:
        return storage.call(compare)


def _build(part: Path, name: str, rows: Rows, header: Header) -> None:
    from headwater.host.space_files import open_space
    from headwater.host.system_clock import SystemClock
    from headwater.store.features import parse
    from headwater.store.log_rebuild import append_rows, row_batches
    from headwater.store.verification import verify

    clock = SystemClock()
    try:
        # Nothing is lost by a power cut before it is put in place: no need to wait for the disk at every step.
        with open_space(str(part), name, durability="normal") as storage, progress("importing") as advance:
            for feature in parse(" ".join(header.features)):
                storage.call(lambda engine, feature=feature: engine.require(feature))  # type: ignore[misc]
            for batch in row_batches(rows()):
                storage.call(lambda engine, batch=batch: append_rows(engine, batch, clock))  # type: ignore[misc]
                advance(batch[-1].seq, header.seq)
        with open_space(str(part), create=False) as storage, progress("verifying") as advance:
            findings = storage.call(lambda engine: verify(engine, advance)).findings
    except HeadwaterError as error:
        raise UsageError(f"this log does not make a space: {error.message}", **error.facts) from error
    if findings:
        raise UsageError(f"this log does not make a space: {findings[0]}", findings=tuple(findings))
