"""The plans that failed in this checkout, the last of them: each run plays them first."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from sim.report import Failure

FILE: Final = Path(__file__).resolve().parent.parent / ".sim" / "failing.jsonl"

KEPT: Final = 50
"""Half a minute of worlds at most."""


def known(file: Path = FILE) -> list[Failure]:
    """The latest last, each world once. A line that cannot be read is passed over: the file is a convenience."""
    found: dict[str, Failure] = {}
    try:
        lines = file.read_bytes().splitlines()
    except OSError:
        return []
    for line in lines:
        try:
            failure = msgspec.json.decode(line, type=Failure)
        except msgspec.MsgspecError:
            continue
        found.pop(failure.name, None)
        found[failure.name] = failure
    return list(found.values())[-KEPT:]


def remember(failures: list[Failure], file: Path = FILE) -> None:
    """Add those of a run."""
    if not failures:
        return
    rows = {failure.name: failure for failure in [*known(file), *failures]}
    file.parent.mkdir(exist_ok=True)
    fresh = file.with_suffix(".new")
    fresh.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in list(rows.values())[-KEPT:]))
    fresh.replace(file)
