"""Rejected commits without a waiting caller, as lines of a JSON file.

One JSON object per commit: when it was rejected, why, what it did in the words of `headwater history`, and its
operations with all their values.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from headwater.access.private_files import create_private
from headwater.errors import HeadwaterError
from headwater.machine import machine
from headwater.store.commit import Commit, DeleteDoc, PatchDoc, SetDoc
from headwater.values.address import address_text
from headwater.values.codec import to_json
from headwater.values.ids import DocKey
from headwater.values.patch import PatchOp

SUFFIX: Final = ".refused.jsonl"


@dataclass(frozen=True, slots=True)
class RejectedCommit:
    """A commit, and why it is not stored."""

    commit: Commit
    why: HeadwaterError
    # Made by an earlier run of the program: reported to `on_error` only.
    is_earlier: bool


def summary_of(commit: Commit) -> str:
    """A short summary: `shop.count increment, shop.log append`."""
    return ", ".join(f"{each['at']} {each['op']}" for each in _parts(commit)) or "nothing"


def line_of(refusal: RejectedCommit) -> bytes:
    """One line of the file."""
    commit, why = refusal.commit, refusal.why
    at = datetime.fromtimestamp(machine().time(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    record = {
        "at": at,
        "session": commit.session,
        "commit": commit.local_seq,
        "change": summary_of(commit),
        "why": str(why),
        "operations": _parts(commit),
    }
    return msgspec.json.encode(record) + b"\n"


def append_lines(path: Path, lines: Iterable[bytes]) -> None:
    """Append lines to a file that only its owner can read. They are on disk when this returns."""
    files = machine().files
    is_new = not files.exists(path)
    with create_private(path, os.O_WRONLY | os.O_APPEND) as file:
        file.write(b"".join(lines))
        file.sync()
    if is_new:
        files.sync_folder(path.parent)


def _parts(commit: Commit) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for operation in commit.operations:
        match operation:
            case SetDoc(doc, value):
                found.append({"op": "set", "at": address_text(doc), "value": to_json(value)})
            case DeleteDoc(doc):
                found.append({"op": "delete", "at": address_text(doc)})
            case PatchDoc(doc, ops):
                found += [_edit(doc, op) for op in ops]
    return found


def _edit(doc: DocKey, op: PatchOp) -> dict[str, object]:
    fields = {name: to_json(getattr(op, name)) for name in op.__struct_fields__ if name != "path"}
    return {"op": str(op.__struct_config__.tag), "at": address_text(doc, op.path), **fields}
