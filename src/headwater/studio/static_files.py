"""The files of the page, read once from the package. The path of a request is a key of this table, never a path."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from headwater.machine import machine
from headwater.studio.lean import lean_script, lean_style

_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Files of other types are not served."""

_FILES: Final = "@files@"
"""What the page writes where the versioned folder belongs."""


class StaticFile(msgspec.Struct, frozen=True):
    """One file."""

    body: bytes
    media_type: str


class StaticFiles(msgspec.Struct, frozen=True):
    """All files of the page."""

    version: str
    """A hash over all of them: their folder."""
    index: StaticFile
    by_path: dict[str, StaticFile]


def static_files() -> StaticFiles:
    """The files of the package, read anew."""
    found = dict(sorted(_read(Path(__file__).with_name("web"), "").items()))
    digest = sha256()
    for path, file in found.items():
        digest.update(f"{path}\0{len(file.body)}\0".encode() + file.body)
    version = digest.hexdigest()[:16]
    page = found.pop("index.html", StaticFile(b"<!doctype html><title>Studio</title>", _TYPES[".html"]))
    body = page.body.replace(_FILES.encode(), f"/studio/{version}".encode())
    return StaticFiles(version, StaticFile(body, page.media_type), found)


def _read(folder: Path, prefix: str) -> dict[str, StaticFile]:
    found: dict[str, StaticFile] = {}
    files = machine().files
    for name in files.names(folder) if files.is_dir(folder) else ():
        each = folder / name
        if files.is_dir(each):
            found |= _read(each, f"{prefix}{name}/")
        elif each.suffix in _TYPES:
            found[f"{prefix}{name}"] = StaticFile(_lean(files.read(each), each.suffix), _TYPES[each.suffix])
    return found


def _lean(body: bytes, suffix: str) -> bytes:
    """Without comments and spare spaces."""
    match suffix:
        case ".js":
            return lean_script(body.decode()).encode()
        case ".css":
            return lean_style(body.decode()).encode()
        case _:
            return body
