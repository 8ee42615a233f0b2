"""A server that is killed again and again, proxies that cut, and processes that work at it meanwhile."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from headwater.core import open_space, verify
from headwater.host.storage import Storage
from headwater.store.backend import LogRow
from headwater.store.commit import Commit, Committed, Conflict, Refused, Verdict
from headwater.values.ids import LocalSeq, Seq, SessionId
from tests.server.running import ServeProcess, token_for
from tests.support.histories import Asked
from tests.support.naive import NOTHING
from tests.support.proxy import Proxy

CLIENT = Path(__file__).with_name("clients_to_kill.py")
ROOT = CLIENT.parents[3]
SPACE = "shared"
DEADLINE_S = 600.0
VERDICTS: dict[str, Verdict] = {"Conflict": Conflict(""), "Refused": Refused("")}


class Crowd:
    """One history."""

    def __init__(self, tmp_path: Path, work: str, *, seed: int, loses_power: bool = False) -> None:
        self.rng = random.Random(seed)
        self._work = work
        self._seed = seed
        self.store = tmp_path / "store"
        self.store.mkdir()
        self.folder = tmp_path / "said"
        self.folder.mkdir()
        self.token = token_for(self.store, SPACE, "own")
        self._loses_power = loses_power
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port: int = free.getsockname()[1]
        self._server: ServeProcess | None = None
        self.proxies = [Proxy(self._port) for _ in range(2)]
        self.clients: dict[str, subprocess.Popen[bytes]] = {}
        self.counts: Counter[str] = Counter()
        self._came = 0

    def __enter__(self) -> Self:
        self.start()
        for proxy in self.proxies:
            proxy.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for client in self.clients.values():
            if client.poll() is None:
                client.kill()
            client.wait(DEADLINE_S)
        for proxy in self.proxies:
            proxy.__exit__(kind, error, None)
        if self._server is not None:
            self._server.__exit__(kind, error)

    # -- what happens --------------------------------------------------------------------------------------

    def start(self) -> None:
        self._server = ServeProcess(self.store, "--log", "off", port=self._port, loses_power=self._loses_power)

    def kill(self) -> None:
        """The server, in the middle of whatever it does; and there it is again."""
        assert self._server is not None
        self._server.end(signal.SIGKILL)
        self._server.__exit__(None, None)
        self.counts["kills"] += 1
        self.start()

    def come(self, name: str, local: Path | None = None) -> None:
        """A client; with a folder, it goes on with what the last one of that name has left there."""
        # The same each time: what is kept is kept for a server, by its URL.
        port = self.proxies[int(name.removeprefix("c")) % len(self.proxies)].port
        self._came += 1
        self.clients[name] = subprocess.Popen(
            [
                sys.executable, str(CLIENT), self._work, f"ws://127.0.0.1:{port}/{SPACE}", self.token, name,
                str(self._seed * 100 + self._came), str(self.folder), *([] if local is None else [str(local)]),
            ],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip

    def kill_client(self, name: str) -> None:
        self.clients[name].kill()
        self.clients[name].wait(DEADLINE_S)
        self.counts["killed clients"] += 1

    def cut(self) -> None:
        proxy = self.rng.choice(self.proxies)
        if self.rng.random() < 0.5:
            proxy.cut()
        else:
            proxy.cut_after(self.rng.randint(1, 2000))
        self.counts["cuts"] += 1

    def until(self, is_so: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not is_so():
            dead = {name: client.poll() for name, client in self.clients.items()}
            assert not any(code not in (None, 0, -signal.SIGKILL) for code in dead.values()), f"{dead}: {what}"
            assert time.monotonic() < deadline, f"not in {DEADLINE_S} s: {what}"
            time.sleep(0.01)

    def until_said(self, more: int) -> None:
        """Everybody together has written so many more lines: it goes on."""
        goal = self._lines() + more
        self.until(lambda: self._lines() >= goal or self.all_ended, f"{more} more things were said")

    def _lines(self) -> int:
        return sum(path.read_bytes().count(b"\n") for path in self.folder.glob("*.jsonl"))

    @property
    def all_ended(self) -> bool:
        return all(client.poll() is not None for client in self.clients.values())

    def stop(self) -> None:
        """Everybody finishes what was begun."""
        (self.folder / "stop").touch()
        alive = [name for name, client in self.clients.items() if client.poll() is None]
        self.until(lambda: all(self.is_done(name) for name in alive), "everything is decided")
        (self.folder / "done").touch()
        self.until(lambda: self.all_ended, "the clients have ended")

    def is_done(self, name: str) -> bool:
        return any("done" in line for line in self.said(name)[-1:])

    # -- what is left --------------------------------------------------------------------------------------

    def said(self, name: str) -> list[dict[str, Any]]:
        lines = (self.folder / f"{name}.jsonl").read_text().splitlines(keepends=True)
        # The last line of one that was killed may be there in part.
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def opened(self) -> Storage:
        """The space, when the server has ended; also in good order, so that nothing waits in its memory."""
        assert self._server is not None
        self._server.end(signal.SIGTERM)
        self._server.wait()
        return open_space(f"{self.store}{os.sep}", SPACE)

    def log(self) -> list[LogRow]:
        with self.opened() as storage:
            report = storage.call(verify)
            assert report.ok, report.findings
            return storage.call(lambda engine: list(engine.backend.log(Seq(0), engine.head)))

    def asked(self, name: str) -> list[tuple[Asked, dict[str, Any]]]:
        """What a client has asked for, and with what it was said."""
        session = SessionId("")
        found: dict[tuple[str, int], tuple[Asked, dict[str, Any]]] = {}
        was_killed = self.clients[name].returncode != 0
        for line in self.said(name):
            if "session" in line:
                # Of those before it, one that was killed has not said everything.
                for asked, _ in found.values():
                    asked.unknown = True
                session = SessionId(line["session"])
            elif "ask" in line:
                # A list that is not there is said to be empty.
                seen = {f"space/{doc}": NOTHING if value == [] else value for doc, value in line["seen"].items()}
                asked = Asked(Commit(session, LocalSeq(line["ask"])), seen, unknown=was_killed)
                # What was not kept before its process was killed was not sent: the number is another's then.
                found[asked.key] = asked, line
            elif "told" in line:
                self._note(found, (session, line["told"]), line)
        return list(found.values())

    def _note(self, found: dict[tuple[str, int], Any], key: tuple[str, int], line: dict[str, Any]) -> None:
        asked = found[key][0]
        if "never" in line:
            del found[key]
        elif "seq" in line:
            asked.told = Committed(Seq(line["seq"]))
            self.counts["accepted"] += 1
        elif "no" in line:
            asked.told = VERDICTS[line["no"]]
            self.counts["rejected"] += 1
        else:
            asked.failed = True
            self.counts["failed"] += 1
