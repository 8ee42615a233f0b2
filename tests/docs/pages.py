"""The documentation as text: its pages, the navigation, prose without code, sentences, headings and links."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
TABS = ("start", "tutorials", "how-to", "guide", "operate", "reference")
"""Folders whose pages follow the style guide. Errors, decisions, internals and the protocol are older."""

QUESTION = re.compile(r"<!-- question: (\S.*\S) -->")
MOVED = re.compile(r"(?:<!-- question: .* -->\n)?# Moved\n\n(?P<text>.+)", re.DOTALL)
FENCE = re.compile(r"^\s*(`{3,}|~{3,})")
CODE = re.compile(r"(`+)(?:(?!\1).)+?\1")
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
SOURCE = re.compile(r"\b(?:src|srcset|href)=\"([^\"]+)\"")
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
TAG = re.compile(r"</?[a-zA-Z][^>]*>")
ABBREVIATIONS = re.compile(r"\b(?:e\.g|i\.e|etc|vs|cf|approx|No)\.", re.IGNORECASE)
END = re.compile(r"(?<=[.!?])[)\"'*_]*\s+(?=[\"'(*_`\[]*[A-Z0-9`])")


class Link(NamedTuple):
    line: int
    target: str
    is_picture: bool


@cache
def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def all_pages() -> tuple[Path, ...]:
    """Every Markdown file below docs/."""
    return tuple(sorted(DOCS.rglob("*.md")))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def navigation() -> tuple[str, ...]:
    """The pages of the navigation, as paths below docs/, in order. The file is read as text: it needs no YAML."""
    _, _, entries = read(ROOT / "mkdocs.yml").partition("\nnav:\n")
    return tuple(re.findall(r"^\s+- (?:.+: )?\"?([\w./-]+\.md)\"?$", entries, re.MULTILINE))


def is_moved(path: Path) -> bool:
    """Whether the page says only where its content is now."""
    return MOVED.fullmatch(read(path)) is not None


@cache
def new_pages() -> tuple[Path, ...]:
    """The pages of the seven tabs that follow the style guide, without those that have moved."""
    found = [DOCS / "index.md", *(path for tab in TABS for path in sorted((DOCS / tab).rglob("*.md")))]
    return tuple(path for path in found if path.exists() and not is_moved(path))


# --- prose -------------------------------------------------------------------------------------------------


def lines_outside_code(text: str) -> Iterator[tuple[int, str]]:
    """Numbered lines, without fenced blocks and comments."""
    fence = ""
    hidden = COMMENT.sub(lambda found: re.sub(r"[^\n]", "", found[0]), text)
    for number, line in enumerate(hidden.splitlines(), start=1):
        found = FENCE.match(line)
        if fence:
            if found and found[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        elif found:
            fence = found[1]
        else:
            yield number, line


def prose_lines(text: str) -> Iterator[tuple[int, str]]:
    """Numbered lines of prose: code in a line becomes one word, a link its text. Tables and directives are left out."""
    in_directive = False
    for number, line in lines_outside_code(text):
        if in_directive and (line.startswith(("    ", "\t")) or not line.strip()):
            continue
        in_directive = line.startswith("::: ")
        if in_directive or line.lstrip().startswith(("|", "--8<--")):
            continue
        yield number, plain(line)


def plain(line: str) -> str:
    without_links = LINK.sub(lambda found: "" if found[1] else found[2], line)
    return TAG.sub("", CODE.sub("Code", without_links))


def paragraphs(text: str) -> Iterator[str]:
    """Paragraphs and list items, headings left out: no sentence goes on from one to the next."""
    held: list[str] = []
    for _, line in prose_lines(text):
        is_item = re.match(r"\s*(?:[-*+]|\d+\.)\s+", line)
        if is_item or not line.strip() or line.startswith("#"):
            if held:
                yield " ".join(held)
            held = []
        if line.strip() and not line.startswith("#"):
            held.append(line[is_item.end() :].strip() if is_item else line.strip().removeprefix("> "))
    if held:
        yield " ".join(held)


def sentences(text: str) -> list[str]:
    found = []
    for paragraph in paragraphs(text):
        shielded = ABBREVIATIONS.sub(lambda abbreviation: abbreviation[0].replace(".", ""), paragraph)
        found += [each for each in END.split(shielded) if re.search(r"\w", each)]
    return found


def words(sentence: str) -> int:
    return len([word for word in re.split(r"[\s/\u2013\u2014]+", sentence) if re.search(r"\w", word)])


# --- headings and links --------------------------------------------------------------------------------------


def headings(text: str) -> list[str]:
    return [line.lstrip("#").strip() for _, line in lines_outside_code(text) if re.match(r"#{1,6} ", line)]


def on_github(heading: str) -> str:
    """The anchor that GitHub makes of a heading."""
    text = TAG.sub("", LINK.sub(lambda found: found[2], heading)).replace("`", "").replace("*", "")
    return re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-")


def on_the_site(heading: str) -> str:
    """The anchor that the site makes of it: only ASCII, and spaces in a row count as one."""
    text = TAG.sub("", LINK.sub(lambda found: found[2], heading)).replace("`", "").replace("*", "")
    ascii_only = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", ascii_only).strip().lower())


@cache
def anchors(text: str) -> set[str]:
    """The anchors of a page that lead to one heading on GitHub and on the site."""
    made = [(on_github(heading), on_the_site(heading)) for heading in headings(text)]
    once = {both[0] for both in made if both[0] == both[1] and made.count(both) == 1}
    return once | set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))


def links(text: str) -> Iterator[Link]:
    """Links and pictures of a page, outside of code."""
    for number, line in lines_outside_code(text):
        shown = CODE.sub("code", re.sub(r"(!?\[)`([^`]*)`(\]\()", r"\1\2\3", line))
        for picture, _, target in LINK.findall(shown):
            yield Link(number, target, bool(picture))
        for target in SOURCE.findall(shown):
            yield Link(number, target, is_picture=True)
