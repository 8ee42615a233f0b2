"""What must hold for the built site: pages load nothing from other hosts, links lead somewhere, the search finds pages.

The search is asked with the site's own search worker, under node.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

HERE: Final = Path(__file__).resolve().parent
FIRST: Final = 3
"""Of the pages that the search finds, so many are looked through by readers."""

LOADED: Final = {"img": "src", "script": "src", "iframe": "src", "source": "srcset", "video": "src", "link": "href"}
"""What a browser loads by itself. Links of the text are not."""


class Page(HTMLParser):
    """What a built page has: its title, what it loads, its links, and the ids that links can lead to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.title = ""
        self.loads: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self._in_title = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note one element."""
        given = {name: value or "" for name, value in attrs}
        self._in_title = tag == "title" and not self.title
        self.ids.update(given[name] for name in ("id", "name") if given.get(name))
        if tag in LOADED and given.get("rel") not in ("canonical", "prev", "next"):
            self.loads += [each.split()[0] for each in given.get(LOADED[tag], "").split(",") if each.strip()]
        if tag == "a" and "href" in given:
            self.links.append(given["href"])

    def handle_data(self, data: str) -> None:
        """Note the title."""
        if self._in_title:
            self.title += data

    def handle_endtag(self, tag: str) -> None:
        """Note the end of the title."""
        self._in_title = self._in_title and tag != "title"


@cache
def page_of(path: Path) -> Page:
    """The page in a file."""
    return Page(path.read_text(encoding="utf-8"))


def check(site: Path, node: str) -> list[str]:
    """Everything that is wrong, in words."""
    return [*check_pages(site), *check_styles(site), *check_search(site, node)]


def check_pages(site: Path) -> Iterator[str]:
    """Titles, sources, links, and directives that were not carried out."""
    site = site.resolve()
    for path in sorted(site.rglob("*.html")):
        page, name = page_of(path), path.relative_to(site)
        if not page.title.strip():
            yield f"{name}: it has no title"
        yield from (f"{name}: it loads {source}" for source in page.loads if is_foreign(source))
        if name.name != "404.html":
            yield from (
                f"{name}: {link}: it leads nowhere" for link in page.links if not leads_somewhere(site, path, link)
            )
        if re.search(r"<p>(?::::|--8&lt;--)", path.read_text(encoding="utf-8")):
            yield f"{name}: a directive was not carried out"


def is_foreign(source: str) -> bool:
    """Whether a browser asks another host for it."""
    return urlsplit(source).netloc != ""


def leads_somewhere(site: Path, page: Path, link: str) -> bool:
    """Whether a link within the site has a file, and the file what the anchor names."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if target.is_dir():
        target /= "index.html"
    if not target.is_file() or site not in target.parents:
        return False
    return not parts.fragment or target.suffix != ".html" or unquote(parts.fragment) in page_of(target).ids | {"__top"}


def check_styles(site: Path) -> Iterator[str]:
    """Fonts and pictures that a style sheet loads."""
    for path in sorted(site.rglob("*.css")):
        for source in re.findall(r"(?:url\(|@import )[\"']?([^\"')]+)", path.read_text(encoding="utf-8")):
            if is_foreign(source) and not source.startswith("data:"):
                yield f"{path.relative_to(site)}: it loads {source}"


# --- the search ----------------------------------------------------------------------------------------------


def questions() -> dict[str, str]:
    """The questions, each with the page that answers it."""
    lines = (HERE / "questions.txt").read_text(encoding="utf-8").splitlines()
    rows = [re.split(r"\s{2,}", line.strip()) for line in lines if line and not line.startswith("#")]
    return {question: page for question, page in rows}  # noqa: C416  # two of them, or an error


def check_search(site: Path, node: str) -> Iterator[str]:
    """Questions whose page is not among the first that are found."""
    asked = questions()
    (worker,) = site.glob("assets/javascripts/workers/search.*.js")
    command = [node, str(HERE / "search.js"), str(worker), str(site / "search.json")]
    done = subprocess.run(command, input=json.dumps(list(asked)), stdout=subprocess.PIPE, text=True, check=True)
    for (question, page), found in zip(asked.items(), json.loads(done.stdout), strict=True):
        pages = list(dict.fromkeys(location.partition("#")[0].removesuffix(".html") for location in found))
        if page not in pages[:FIRST]:
            yield f"a search for {question!r} finds {', '.join(pages[:FIRST]) or 'nothing'}, and not {page}"
