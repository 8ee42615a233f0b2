"""A web service of the documents, as a process of its own."""

import http.client
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

from tests.docs.blocks import SECONDS_MAX


class Service:
    """`uvicorn web:web`, or another application, in a process of its own, at a port that is free."""

    def __init__(self, folder: Path, *options: str, web: str = "web:web", **environment: str) -> None:
        command = [sys.executable, "-m", "uvicorn", web, *options, "--port", "0"]
        env = {**os.environ, **environment}
        self.process = subprocess.Popen(command, cwd=folder, env=env, stderr=subprocess.PIPE, text=True)
        self.lines: list[str] = []
        self.port = 0
        self._connections: list[http.client.HTTPConnection | http.client.HTTPResponse] = []
        self._listens = threading.Event()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        if not self._listens.wait(SECONDS_MAX) or not self.port:
            self.process.kill()
            raise AssertionError("it does not listen:\n" + "".join(self.lines))

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            found = re.search(r"running on http://127.0.0.1:(\d+)", line)
            if found:
                self.port = int(found[1])
                self._listens.set()
        self._listens.set()

    def ask(self, path: str, method: str = "GET", **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS_MAX)
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        self._connections += [connection, answer]
        return answer

    def end(self, number: int) -> None:
        """Send a signal and wait."""
        self.process.send_signal(number)  # of one that has ended: nothing
        self.process.wait(SECONDS_MAX)
        self._reading.join(SECONDS_MAX)
        assert self.process.stderr is not None
        self.process.stderr.close()
        while self._connections:
            self._connections.pop().close()
