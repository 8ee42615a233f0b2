"""Words that the style guide replaces, and where they are: in Markdown, docstrings, help texts and messages.

`tests/docs/vocabulary.txt` has the number of findings that each older file may still have. It only shrinks:

    .venv/bin/python -m tests.docs.vocabulary            shows the findings
    .venv/bin/python -m tests.docs.vocabulary --shrink   lowers the stored numbers to what is found
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.docs.pages import ROOT, lines_outside_code, plain, read

STORED = Path(__file__).with_suffix(".txt")

INSTEAD: dict[str, tuple[str, ...]] = {
    "name the subject: the caller, the reader, the client, a user": (
        r"who(?:m)?ever",
        r"(?:some|any|no)body",
        r"someone|anyone|no one",
        r"those who|the one who|he who|one that|who comes|who looks|who asked",
    ),
    "rolled back (the effect), rejected (the verdict)": (r"(?:take|takes|taken|took|taking) back",),
    "restored": (r"(?:take|takes|taken|took) over",),
    "is in, is at, the value at": (r"stands? (?:there|in|at|below|otherwise)", r"what stands"),
    "gets the error, is notified, reports": (r"(?:is|are|was|were|be|being) told",),
    "read, observed": (r"look(?:s|ed) at", r"looks?(?= then\b)"),
    "the current value": (
        r"what (?:is|was) there",
        r"as it stands",
        r"as it was(?! (?:written|returned|stored)\b)",
        r"(?:is|are) there already",
    ),
    "the result": (
        r"com(?:e|es|ing) to be",
        r"came to (?:be|nothing)|came to(?=[.,;:])",
        r"what (?:it|they) (?:has|have|had) come to",
        r"what (?:became|becomes|came) of",
    ),
    "fix": (r"mend(?:ed|s|ing)?",),
    "fingerprint": (r"prints? (?=of a function|from bytecode)",),
    "is available, is unavailable": (r"to be had|can(?:not)? be had|could (?:not )?be had",),
    "delete it": (r"for the most part|as well as can be|as it were",),
}
"""What to write, and the words that it replaces, as regular expressions."""

_WORDS = [(instead, word) for instead, given in INSTEAD.items() for word in given]
_FOUND = re.compile("|".join(rf"(?P<w{n}>\b(?:{word})(?!\w))" for n, (_, word) in enumerate(_WORDS)), re.IGNORECASE)
_MESSAGE_WORDS = 4
"""A string of so many words is a message or a help text."""


class Finding(NamedTuple):
    line: int
    word: str
    instead: str


def find_in(text: str) -> Iterator[tuple[str, str]]:
    for found in _FOUND.finditer(text):
        assert found.lastgroup is not None
        yield found[0], _WORDS[int(found.lastgroup[1:])][0]


def in_markdown(text: str) -> Iterator[Finding]:
    for number, line in lines_outside_code(text):
        if not line.startswith("    "):
            yield from (Finding(number, *found) for found in find_in(plain(line)))


def in_python(source: str) -> Iterator[Finding]:
    """Of docstrings, and of every other string of four words or more."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node.value.count(" ") < _MESSAGE_WORDS - 1:
                continue
            for offset, line in enumerate(node.value.splitlines()):
                said = re.sub(r"`[^`]*`", "code", line)
                yield from (Finding(node.lineno + offset, *found) for found in find_in(said))


@cache
def findings_of(path: Path) -> tuple[Finding, ...]:
    text = read(path)
    if not _FOUND.search(text):
        return ()  # quickly: most files have none, and need not be parsed
    return tuple((in_python if path.suffix == ".py" else in_markdown)(text))


@cache
def files() -> tuple[Path, ...]:
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    programs = [*(ROOT / "src" / "headwater").rglob("*.py"), *(ROOT / "examples").glob("*.py")]
    return tuple(sorted([*documents, *programs]))


def counted() -> dict[str, int]:
    counts = {path.relative_to(ROOT).as_posix(): len(findings_of(path)) for path in files()}
    return {name: count for name, count in counts.items() if count}


def stored() -> dict[str, int]:
    rows = (line.split() for line in read(STORED).splitlines() if line and not line.startswith("#"))
    return {name: int(count) for count, name in rows}


def store(counts: dict[str, int]) -> None:
    head = (
        "# Findings that a file may still have; made by `python -m tests.docs.vocabulary --shrink`. It only shrinks.\n"
    )
    STORED.write_text(head + "".join(f"{count} {name}\n" for name, count in sorted(counts.items())), encoding="utf-8")


def main(*options: str) -> None:
    found = counted()
    if "--shrink" in options:
        before = stored() if STORED.exists() else found
        store({name: min(count, found[name]) for name, count in before.items() if name in found})
    else:
        for path in files():
            for line, word, instead in findings_of(path):
                print(f"{path.relative_to(ROOT)}:{line}: {word!r}: {instead}")
    print(f"{sum(found.values())} findings in {len(found)} files", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
