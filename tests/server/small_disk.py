"""A server and its clients on a disk that is full for a while: run as a program, in a place of its own.

    python small_disk.py FOLDER HOW

HOW is `tmpfs`: FOLDER is mounted as a small file system, in a name space of this process (`unshare -m`); or `fsize`:
no file may grow any more while the disk is "full". What was found is printed as JSON.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx

import headwater as hw
from headwater.access.local_token import find_local
from headwater.server.server import Server, Serving

DEADLINE_S = 60.0


def until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not is_so():
        if time.monotonic() > deadline:
            raise SystemExit(f"not in {DEADLINE_S} s: {what}")
        time.sleep(0.01)


def backup_size(server: Server) -> int:
    """Of a copy that is asked for now."""
    local = find_local("127.0.0.1", server.port)
    assert local is not None
    url = server.url.replace("ws", "http", 1) + "/spaces/board/backup"
    got = httpx.get(url, headers={"Authorization": f"Bearer {local.token}"}, trust_env=False, timeout=DEADLINE_S)
    assert got.status_code == 200, got.text
    return len(got.content)


class Disk:
    """It can be filled, and freed again."""

    def __init__(self, folder: Path, how: str) -> None:
        self._filler = folder / "filler"
        self._how = how

    def fill(self) -> None:
        if self._how == "fsize":
            # Whatever grows from here on is refused; the signal that goes with it is not wanted.
            resource.setrlimit(resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
            return
        size = 1 << 16
        with self._filler.open("ab", buffering=0) as filler:
            while size:
                try:
                    filler.write(bytes(size))
                except OSError:
                    size //= 2

    def free(self) -> None:
        if self._how == "fsize":
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        else:
            self._filler.unlink()


class App:
    """One program."""

    def __init__(self, name: str) -> None:
        self.app = hw.App("board")
        self.count = self.app.cell(f"count_{name}", 0)
        self.log = self.app.cell("log", list[str]())
        self.name = name
        self.lost: list[object] = []

        @self.app.handler
        def add(what: str) -> str:
            self.log.value = [*self.log.value, what]
            return what

        self.add = add


def play(folder: Path, elsewhere: Path, how: str) -> dict[str, object]:
    disk = Disk(folder, how)
    store = folder / "store"
    store.mkdir(mode=0o700)
    found: dict[str, object] = {}
    with Server(Serving(store=store, port=0)) as server:
        url = f"{server.url}/board"
        # With `fsize` all disks of this process are full: the client's must not be.
        local = elsewhere / "kept" if how == "tmpfs" else None
        kept, plain, reader = App("kept"), App("plain"), App("reader")
        with (
            kept.app.open(url, local=local, on_error=kept.lost.append) as kept_at,
            plain.app.open(url, on_error=plain.lost.append) as plain_at,
            reader.app.open(url, on_error=reader.lost.append) as reader_at,
        ):
            for each, at in ((kept, kept_at), (plain, plain_at)):
                for _ in range(10):
                    each.count.increment()
                at.sync()
            disk.fill()
            tickets = []
            for each in (kept, plain):
                for _ in range(5):
                    each.count.increment()
                tickets.append(each.add.send(each.name))
            until(lambda: all(at.connection.tries > 2 for at in (kept_at, plain_at)), "they come again and again")
            found["while full"] = [at.connection.state for at in (kept_at, plain_at, reader_at)]
            found["seen while full"] = [kept.count.value, plain.count.value]
            found["backup while full"] = backup_size(server) if how == "tmpfs" else 0
            disk.free()
            for at in (kept_at, plain_at, reader_at):
                at.sync()
            found["results"] = [ticket.result(timeout="60s") for ticket in tickets]
            until(lambda: len(reader.log.value) == 2, "the reader hears of it")
            found["states"] = [at.connection.state for at in (kept_at, plain_at, reader_at)]
            found["counts"] = [kept.count.value, plain.count.value]
            found["log"] = sorted(reader.log.value)
            found["lost"] = [str(each) for each in (*kept.lost, *plain.lost, *reader.lost)]
            found["refused"] = kept_at.connection.refused
        found["files"] = [] if local is None else sorted(path.suffix for path in local.iterdir())
    command = [sys.executable, "-P", "-m", "headwater"]
    where = ["--url", f"{store}{os.sep}", "--space", "board"]
    for cell in ("board.count_kept", "board.count_plain"):
        found[cell] = subprocess.run([*command, "get", cell, *where], capture_output=True, text=True, check=True).stdout
    found["verify"] = subprocess.run([*command, "verify", *where], capture_output=True, check=False).returncode
    return found


if __name__ == "__main__":
    given, kind = Path(sys.argv[1]), sys.argv[2]
    place = given / "disk"
    place.mkdir()
    if kind == "tmpfs":
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(place)], check=True)
    print(json.dumps(play(place, given, kind)))
