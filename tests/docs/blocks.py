"""Code blocks of the documents: find them, run them.

The python blocks of a file share one namespace, its commands one folder, in the order they are read. A line
`<!-- no-run: reason -->` above a block keeps it from being run; python is compiled even so. A line
`<!-- file: name.py -->` above a block makes it a file in that folder, for the commands below it.

A comment behind a `print(...)` begins with what is printed there; one with `prints ...` behind any other line ends
with what is printed while that line runs. After the text a `:`, `;` or `,` may begin an explanation.

In a console block the lines `$ headwater ...` and `$ python ...` are run and no others; without a shell, in an
interpreter that is warm, where neither is needed. What stands below a
command, if anything, must be its output: `...` stands for anything, and runs of white space are alike. `# exit 3`
behind a command says that it ends with 3 and not with 0.

`$ headwater serve ...` alone on a line is a server, which runs until the document ends, at a port that is free:
wherever the document has port 8400, in programs above that line, too, this one is meant. A line `^C` ends the server
that was started last; the lines below it are its output since the start. The next server listens at the same port.
"""

import builtins
import contextlib
import doctest
import io
import os
import random
import re
import shlex
import signal
import socket
import subprocess
import sys
import textwrap
import time
import tokenize
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.support.warm import Warm

FENCE = re.compile(r"^(?P<indent>\s*)(?P<ticks>`{3,})\s*(?P<language>[\w-]*)")
NO_RUN = re.compile(r"^\s*<!-- no-run: \S.*-->\s*$")
FILE = re.compile(r"^\s*<!-- file: (?P<name>[\w.-]+) -->\s*$")
EXIT = re.compile(r"# exit (\d+)\s*$")
PRINTS = re.compile(r"\bprints (.*)$")
COMMANDS = ("headwater", "python")
INTERRUPT = "^C"
SHELL = re.compile(r"""[|&;<>()$`*?~]|(^| )#|^python -""")
"""Whatever a shell or the start of an interpreter may be needed for."""
SERVER = re.compile(r"headwater serve [^|&;<>]*")
PORT = ":8400"
LOOSELY = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
SECONDS_MAX = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    language: str
    source: str
    line: int
    """Of the first line of the source in its file, from 1."""
    is_run: bool
    file: str | None = None
    """The name of the file that it is, if it is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    text: str
    wanted: str
    exit_code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    process: subprocess.Popen[bytes]
    log: Path
    """What it prints."""


def find_blocks(text: str) -> Iterator[Block]:
    lines = iter(enumerate(text.splitlines(), start=1))
    is_run, file = True, None
    for number, line in lines:
        fence = FENCE.match(line)
        if fence is None:
            if line.strip():
                named = FILE.match(line)
                is_run, file = not NO_RUN.match(line), named and named["name"]
            continue
        body = []
        for _, inner in lines:
            if inner.strip() == fence["ticks"]:
                break
            body.append(inner)
        else:
            raise AssertionError(f"line {number}: this block is never closed")
        source = textwrap.dedent("\n".join(body)) + "\n"
        yield Block(language=fence["language"], source=source, line=number + 1, is_run=is_run, file=file)
        is_run, file = True, None


def find_commands(source: str, words: Sequence[str] = COMMANDS) -> Iterator[Command]:
    """The commands of a console block that can be run here, each with the output shown below it."""
    joined = source.replace("\\\n", " ")
    for entry in re.split(r"^(?:\$ |(?=\^C$))", joined, flags=re.MULTILINE)[1:]:
        text, _, wanted = entry.partition("\n")
        if text.split()[:1] and text.split()[0] in (*words, INTERRUPT):
            code = EXIT.search(text)
            yield Command(text=text, wanted=wanted, exit_code=int(code[1]) if code else 0)


def find_claims(source: str) -> dict[int, str]:
    """What a program says it prints, by the line that is said to."""
    lines = source.splitlines()
    claims: dict[int, str] = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            number, column = token.start
            told = token.string.removeprefix("#").strip()
            said = PRINTS.search(told)
            if said is not None:
                claims[number] = said[1].strip('"')
            elif "print(" in lines[number - 1][:column]:
                claims[number] = told
    return claims


def is_as_claimed(claim: str, printed: str) -> bool:
    """Compare, with whatever explanation follows the claim left out."""
    ends = [len(claim), *(found.start() for found in re.finditer(r"[:;,](?= )", claim))]
    return any(alike(claim[:end].strip('"'), printed) for end in ends)


def alike(wanted: str, got: str) -> bool:
    return doctest.OutputChecker().check_output(wanted.strip(), got.strip(), LOOSELY)


class Reader:
    """Somebody who reads one document and types what it says."""

    words: Sequence[str] = COMMANDS
    """The first words of the commands that are run."""

    def __init__(self, name: str, folder: Path, headwater: list[str], warm: Warm | None = None) -> None:
        """Type in `folder/work`; `headwater` is what the command of that name stands for, in a shell."""
        self.warm = warm
        self.name = name
        self.module = ModuleType("__main__")
        vars(self.module)["print"] = self.print
        self.printed: dict[int, list[str]] = {}
        self.work = folder / "work"
        self.work.mkdir()
        (folder / "bin").mkdir()
        for word, command in zip(COMMANDS, (headwater, [sys.executable]), strict=True):
            script = folder / "bin" / word
            script.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n', encoding="utf-8")
            script.chmod(0o755)
        path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        self.env = {**os.environ, "PATH": path, "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100"}
        self.servers: list[Server] = []
        self.port = PORT
        self.listen = "127.0.0.1:0"
        self.files: dict[str, str] = {}

    def follow(self, text: str) -> None:
        """Run the blocks in order; the caller has made `work` the current folder, `module` the main one."""
        if any(line == INTERRUPT for line in text.splitlines()):
            self.listen = f"127.0.0.1:{find_port()}"
        try:
            self._follow(text)
        finally:
            for server in self.servers:
                server.process.send_signal(signal.SIGTERM)
            ends = [server.process.wait(SECONDS_MAX) for server in self.servers]
        assert not any(ends), f"{self.name}: a server ended with {ends}"

    def _follow(self, text: str) -> None:
        for block in find_blocks(text):
            if block.file is not None:
                self.files[block.file] = block.source
                self.write(block.file)
            elif block.language == "python":
                self.run_python(block)
            elif block.language == "console" and block.is_run:
                for command in find_commands(block.source, self.words):
                    self.run_command(command, block.line)

    def write(self, name: str) -> None:
        (self.work / name).write_text(self.files[name].replace(PORT, self.port), encoding="utf-8")

    def run_python(self, block: Block) -> None:
        # Empty lines in front, so that a traceback shows the line of the document.
        source = "\n" * (block.line - 1) + block.source.replace(PORT, self.port)
        code = compile(source, self.name, "exec", dont_inherit=True)
        if block.is_run:
            exec(code, vars(self.module))
            for line, claim in find_claims(source).items():
                printed = "\n".join(self.printed.get(line, []))
                shown = f"{self.name}, line {line}"
                assert is_as_claimed(claim, printed), f"{shown} shows:\n{claim}\nit printed:\n{printed}"

    def print(self, *values: object, **options: Any) -> None:
        """What the documents call: notes which of their lines were running."""
        builtins.print(*values, **options)
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename == self.name:
                self.printed.setdefault(frame.f_lineno, []).append(" ".join(map(str, values)))
            frame = frame.f_back  # type: ignore[assignment]

    def serve(self, command: Command, line: int) -> None:
        """Start a server, and wait until it can be used."""
        log = self.work.parent / f"server-{len(self.servers)}.log"
        words = [*shlex.split(command.text), "--listen", self.listen]
        with log.open("wb") as out:
            server = subprocess.Popen(words, cwd=self.work, env=self.env, stdout=out, stderr=subprocess.STDOUT)
        self.servers.append(Server(process=server, log=log))
        end = time.monotonic() + SECONDS_MAX
        while not (found := re.search(r"://127.0.0.1(:\d+)", log.read_text())) or not is_ready(found[1]):
            assert server.poll() is None, f"{self.name}: {command.text} has ended:\n{log.read_text()}"
            assert time.monotonic() < end
            time.sleep(0.01)
        self.port = found[1]
        for name in self.files:
            self.write(name)
        got = log.read_text().replace(self.port, PORT)
        shown = f"{self.name}, block at line {line}: $ {command.text}"
        if command.wanted.strip():
            assert alike(command.wanted, got), f"{shown}\nthe document shows:\n{command.wanted}\nit printed:\n{got}"

    def interrupt(self, command: Command, line: int) -> None:
        """End the server that was started last, as Ctrl-C does."""
        server = self.servers.pop()
        before = len(server.log.read_text())
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(SECONDS_MAX) == 0, server.log.read_text()
        got = server.log.read_text()[before:]
        if command.wanted.strip():
            shown = f"{self.name}, block at line {line}: {INTERRUPT}"
            assert alike(command.wanted, got), f"{shown}\nthe document shows:\n{command.wanted}\nit printed:\n{got}"

    def run_command(self, command: Command, line: int) -> None:
        if command.text == INTERRUPT:
            self.interrupt(command, line)
            return
        if SERVER.fullmatch(command.text):
            self.serve(command, line)
            return
        text = command.text.replace(PORT, self.port)
        if self.warm is not None and not SHELL.search(EXIT.sub("", text)):
            code, got = self.warm.run(*shlex.split(text, comments=True), folder=self.work, env=self.env)
        else:
            code, got = self.run_in_shell(text)
        got = got.replace(self.port, PORT)
        shown = f"{self.name}, block at line {line}: $ {command.text}"
        assert code == command.exit_code, f"{shown}\nended with {code}:\n{got}"
        if command.wanted.strip():
            assert alike(command.wanted, got), f"{shown}\nthe document shows:\n{command.wanted}\nit printed:\n{got}"

    def run_in_shell(self, text: str) -> tuple[int, str]:
        done = subprocess.run(
            ["sh", "-c", text],
            cwd=self.work,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS_MAX,
            check=False,
        )
        return done.returncode, done.stdout.decode()


def find_port() -> int:
    """A port below those that the system gives out by itself: it is free again when a server has ended."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def is_ready(port: str) -> bool:
    """Whether the server there takes something by now."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError):
        return False


THIS_CHECKOUT = [sys.executable, "-P", "-m", "headwater"]
