"""About Headwater itself: version, explain."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from headwater import __version__, errors
from headwater.cli.care_syntax import ERROR
from headwater.cli.exits import exit_of
from headwater.cli.output import Form, Record, answer, json_text, show, write
from headwater.host.libraries import core_form, library_versions
from headwater.values.suggestions import did_you_mean


def show_version(*, form: Form) -> None:
    """Carry out `version`."""
    record: dict[str, object] = {"headwater": __version__}
    if form is not None:
        record |= {
            "core": core_form(),
            "python": sys.version.split()[0],
            **library_versions(),
            "platform": sys.platform,
        }
    answer(record, sentence=f"headwater {__version__}", plain=f"headwater {__version__}", form=form)


# --- explain --------------------------------------------------------------------------------------------------


def explain(*, code: str | None, form: Form) -> None:
    """Carry out `explain`."""
    known = {kind.code: kind for kind in _kinds(errors.HeadwaterError)}
    if code is None:
        show((_describe(known[one]) for one in sorted(known)), ERROR, form, empty="")
        return
    kind = known.get(_canonical(code))
    if kind is None:
        raise errors.NotFoundError(f"there is no error {code}{_suggestion(code, known)}", code=code)
    record = _describe(kind)
    write(json_text(record) if form is not None else _page(kind.code) or _text(record))


def _kinds(kind: type[errors.HeadwaterError]) -> Iterator[type[errors.HeadwaterError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _kinds(below)


def _canonical(code: str) -> str:
    """`hw101` and `101` mean HW101."""
    return re.sub(r"^(HW)?(?=\d{3}$)", "HW", code.strip().upper())


def _suggestion(code: str, known: Iterable[str]) -> str:
    return did_you_mean(_canonical(code), known) or "; `headwater explain` lists them all"


def _describe(kind: type[errors.HeadwaterError]) -> dict[str, object]:
    # The tree in the module's docstring has one line with a short text for each class.
    line = re.search(rf"\b{kind.__name__} .*?(?:HW\d+)? {{2,}}(\S.*)", errors.__doc__ or "")
    meaning = " ".join((kind.__doc__ or "").split())
    above = [one.__name__ for one in kind.__mro__ if issubclass(one, errors.HeadwaterError)]
    return {
        "code": kind.code,
        "error": kind.__name__,
        "summary": line[1].removeprefix(kind.code).strip() if line else meaning,
        "meaning": meaning,
        "tree": above[::-1],
        "exit": int(exit_of(kind)),
    }


def _text(record: Record) -> str:
    tree = record["tree"]
    assert isinstance(tree, list)
    lines = [f"{record['code']} {record['error']}: {record['summary']}", "", str(record["meaning"]), ""]
    lines += [
        f"In the tree of errors: {' > '.join(tree)}",
        f"Exit code of a command that ends with it: {record['exit']}",
    ]
    return "\n".join(lines)


# --- the pages of the documentation ---------------------------------------------------------------------------

_WIDTHS: Final = range(40, 101)
"""The width of a page in columns. Narrower and wider lines are hard to read."""

_PARTS: Final = re.compile(
    r"^```(?P<language>.*)\n(?P<program>(?:.*\n)*?)```$"
    r"|^#+ (?P<heading>.+)$"
    r"|^(?!<!--)(?P<prose>.+(?:\n(?!```|#).+)*)",
    re.MULTILINE,
)


def _page(code: str) -> str | None:
    """The page of the documentation: in the installed package, or in the checkout."""
    package = Path(__file__).parents[1]
    for docs in (package / "docs", package.parents[1] / "docs"):
        page = docs / "errors" / f"{code}.md"
        if page.is_file():
            width = min(max(shutil.get_terminal_size().columns, _WIDTHS[0]), _WIDTHS[-1])
            return _plain(page.read_text(encoding="utf-8"), width)
    return None


def _plain(page: str, width: int) -> str:
    """Markdown for a terminal: programs are indented, sentences wrapped; no markup, no comments."""
    shown: list[str] = []
    for part in _PARTS.finditer(page):
        match part.lastgroup:
            case "heading":
                shown += [part["heading"]]
                continue
            case "prose":
                # A list has its entries on lines of their own.
                for entry in re.split(r"\n(?=- )", part["prose"]):
                    shown += _wrap(entry, width, "  ", "    " if entry.startswith("- ") else "  ")
            case _ if part["language"] == "text":
                # A message may take several lines; the others are indented.
                for message in re.split(r"\n(?=\S)", part["program"]):
                    shown += _wrap(message, width, "    ", "      ")
            case _:
                shown += [f"    {line}".rstrip() for line in part["program"].splitlines()]
        shown.append("")
    return "\n".join(shown).rstrip()


def _wrap(text: str, width: int, first: str, others: str) -> list[str]:
    text = re.sub(r"\[([^]]+)\]\([^)]+\.md\)", r"\1", " ".join(text.split()))
    # Readers copy code between backticks: it stays on one line.
    text = re.sub(r"`[^`]+`", lambda code: code[0].replace(" ", "\0"), text)
    lines = textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=others, break_long_words=False, break_on_hyphens=False
    )
    return [line.replace("\0", " ") for line in lines]
