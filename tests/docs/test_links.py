"""Links, anchors and pictures lead somewhere: on GitHub, and on the site."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import (
    DOCS,
    ROOT,
    all_pages,
    anchors,
    is_moved,
    links,
    name_of,
    on_github,
    on_the_site,
    read,
)

OLD_PATHS = {
    "guide/errors-and-output.md": "guide/errors.md",
    "guide/events.md": "guide/handlers.md",
    "guide/first-program.md": "start/first-program.md",
    "guide/http.md": "guide/resources.md",
    "guide/looking.md": "guide/inspect.md",
    "guide/notebooks.md": "guide/opening.md",
    "guide/outside.md": "guide/resources.md",
    "guide/reactions.md": "guide/computed.md",
    "guide/resuming.md": "guide/restart.md",
    "guide/store.md": "internals/engine.md",
    "glossary.md": "reference/glossary.md",
}
"""Pages that were published under another path, with where their content is. They stay for one release."""


def documents() -> list[Path]:
    return [*sorted(ROOT.glob("*.md")), *all_pages()]


def is_exactly(path: Path) -> bool:
    """Whether there is a file of this very name, upper and lower case included, on every system."""
    return path.exists() and all(
        part.name in {each.name for each in part.parent.iterdir()}
        for part in (path.resolve(), *path.resolve().parents)
        if ROOT in part.parents
    )


def broken(page: Path, text: str) -> Iterator[str]:
    """Each link of a page that leads nowhere, with its line."""
    for line, target, is_picture in links(text):
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        file, _, anchor = target.partition("#")
        found = page.parent / file if file else page
        where = f"{name_of(page)}:{line}: {target}"
        if file and not is_exactly(found):
            yield f"{where}: there is no such file"
        elif DOCS in page.parents and ROOT in found.resolve().parents and DOCS not in found.resolve().parents:
            if found.suffix != ".py" or is_picture:
                yield f"{where}: it is not on the site"
        elif (
            anchor and not is_picture and found.suffix == ".md" and anchor not in anchors(read(found) if file else text)
        ):
            yield f"{where}: there is no such heading, or it is not the same on GitHub and on the site"


def test_links_and_pictures_lead_somewhere() -> None:
    found = [each for page in documents() for each in broken(page, read(page))]
    assert not found, "\n".join(found)


def test_no_link_leads_to_a_page_that_has_moved() -> None:
    found = []
    for page in documents():
        for line, target, _ in links(read(page)):
            file = page.parent / target.partition("#")[0]
            if file.suffix == ".md" and file.is_file() and is_moved(file):
                found.append(f"{name_of(page)}:{line}: {target}")
    assert not found, "\n".join(found)


# --- redirects -----------------------------------------------------------------------------------------------


def test_an_old_path_says_where_its_content_is() -> None:
    wrong = []
    for old, new in OLD_PATHS.items():
        page = DOCS / old
        targets = [page.parent / link.target.partition("#")[0] for link in links(read(page))] if is_moved(page) else []
        if not targets or targets[0].resolve() != (DOCS / new).resolve():
            wrong.append(f"docs/{old} leads to {targets}, not to docs/{new}")
    assert not wrong, "\n".join(wrong)


def test_every_page_that_has_moved_is_an_old_path() -> None:
    moved = {page.relative_to(DOCS).as_posix() for page in all_pages() if is_moved(page)}
    assert moved == set(OLD_PATHS)


def test_paths_of_documents_that_the_source_names_exist_and_have_not_moved() -> None:
    """In messages, docstrings and comments: a reader of them has no other way to the page."""
    wrong = [
        f"{name_of(path)}: {name}"
        for path in sorted((ROOT / "src" / "headwater").rglob("*.py"))
        for name in re.findall(r"\bdocs/[\w./-]+\.md\b", read(path))
        if not is_exactly(ROOT / name) or is_moved(ROOT / name)
    ]
    assert not wrong, "\n".join(wrong)


# --- the checks themselves -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "[a](nowhere.md)",
        "![a](nowhere.svg)",
        "[a](../readme.md)",
        "[a](errors/README.md#nowhere)",
        "[a](#nowhere)",
        '<img src="nowhere.svg">',
        '<source srcset="nowhere.svg">',
        "[a](../ARCHITECTURE.md)",
        "[a](../examples/)",
        "[`a`](nowhere.md)",
        "# A\n# A\n\n[a](#a)",
        "# A - b\n\n[a](#a---b)",
    ],
)
def test_a_broken_link_is_found(text: str) -> None:
    assert list(broken(DOCS / "invented.md", text))


@pytest.mark.parametrize(
    "text",
    [
        "[a](errors/README.md)",
        "[a](https://example.com/nowhere)",
        "`[a](nowhere.md)`",
        "```text\n[a](nowhere.md)\n```",
        "[a](../examples/counter.py)",
        "<!-- [a](nowhere.md) -->",
    ],
)
def test_other_links_are_left_alone(text: str) -> None:
    assert list(broken(DOCS / "invented.md", text)) == []


@pytest.mark.parametrize(
    ("heading", "github", "site"),
    [
        ("Retry after a conflict", "retry-after-a-conflict", "retry-after-a-conflict"),
        ("`hw.why` and `graph`", "hwwhy-and-graph", "hwwhy-and-graph"),
        ("One - two", "one---two", "one-two"),
        ("What is it?", "what-is-it", "what-is-it"),
    ],
)
def test_anchors_are_made_as_on_github_and_on_the_site(heading: str, github: str, site: str) -> None:
    assert (on_github(heading), on_the_site(heading)) == (github, site)
