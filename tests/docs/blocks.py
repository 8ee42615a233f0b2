"""Code blocks of the documents: find them, run them.

The python blocks of a file share one namespace, its commands one folder, in the order they are read. A line
`<!-- no-run: reason -->` above a block keeps it from being run; python is compiled even so.

In a console block the shell runs the lines `$ headwater ...` and no others. What stands below a command, if
anything, must be its output: `...` stands for anything, and runs of white space are alike. `# exit 3` behind
a command says that it ends with 3 and not with 0.
"""

import doctest
import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

FENCE = re.compile(r"^(?P<indent>\s*)(?P<ticks>`{3,})\s*(?P<language>[\w-]*)")
NO_RUN = re.compile(r"^\s*<!-- no-run: \S.*-->\s*$")
EXIT = re.compile(r"# exit (\d+)\s*$")
LOOSELY = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
SECONDS_MAX = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    language: str
    source: str
    line: int
    """Of the first line of the source in its file, from 1."""
    is_run: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    text: str
    wanted: str
    exit_code: int


def find_blocks(text: str) -> Iterator[Block]:
    lines = iter(enumerate(text.splitlines(), start=1))
    is_run = True
    for number, line in lines:
        fence = FENCE.match(line)
        if fence is None:
            is_run = not NO_RUN.match(line) and (is_run or bool(line.strip()))
            continue
        body = []
        for _, inner in lines:
            if inner.strip() == fence["ticks"]:
                break
            body.append(inner)
        else:
            raise AssertionError(f"line {number}: this block is never closed")
        source = textwrap.dedent("\n".join(body)) + "\n"
        yield Block(language=fence["language"], source=source, line=number + 1, is_run=is_run)
        is_run = True


def find_commands(source: str) -> Iterator[Command]:
    """The commands of a console block that can be run here, each with the output shown below it."""
    joined = source.replace("\\\n", " ")
    for entry in re.split(r"^\$ ", joined, flags=re.MULTILINE)[1:]:
        text, _, wanted = entry.partition("\n")
        if text.split()[:1] == ["headwater"]:
            code = EXIT.search(text)
            yield Command(text=text, wanted=wanted, exit_code=int(code[1]) if code else 0)


class Reader:
    """Somebody who reads one document and types what it says."""

    def __init__(self, name: str, folder: Path, headwater: list[str]) -> None:
        """Type in `folder/work`; `headwater` is what the command of that name stands for."""
        self.name = name
        self.module = ModuleType("__main__")
        self.work = folder / "work"
        self.work.mkdir()
        (folder / "bin").mkdir()
        script = folder / "bin" / "headwater"
        script.write_text(f'#!/bin/sh\nexec {shlex.join(headwater)} "$@"\n', encoding="utf-8")
        script.chmod(0o755)
        path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        self.env = {**os.environ, "PATH": path, "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100"}

    def follow(self, text: str) -> None:
        """Run the blocks in order; the caller has made `work` the current folder, `module` the main one."""
        for block in find_blocks(text):
            if block.language == "python":
                self.run_python(block)
            elif block.language == "console" and block.is_run:
                for command in find_commands(block.source):
                    self.run_command(command, block.line)

    def run_python(self, block: Block) -> None:
        # Empty lines in front, so that a traceback shows the line of the document.
        source = "\n" * (block.line - 1) + block.source
        code = compile(source, self.name, "exec", dont_inherit=True)
        if block.is_run:
            exec(code, vars(self.module))

    def run_command(self, command: Command, line: int) -> None:
        done = subprocess.run(
            ["sh", "-c", command.text],
            cwd=self.work,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS_MAX,
            check=False,
        )
        got = done.stdout.decode()
        shown = f"{self.name}, block at line {line}: $ {command.text}"
        assert done.returncode == command.exit_code, f"{shown}\nended with {done.returncode}:\n{got}"
        if command.wanted.strip():
            alike = doctest.OutputChecker().check_output(command.wanted.strip(), got.strip(), LOOSELY)
            assert alike, f"{shown}\nthe document shows:\n{command.wanted}\nit printed:\n{got}"


THIS_CHECKOUT = [sys.executable, "-P", "-m", "headwater"]
