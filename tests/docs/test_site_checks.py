"""The checks of the built site find what is wrong. The site itself is built and checked by `./hw docs test`."""

from pathlib import Path

import pytest

from tests.docs.pages import DOCS, navigation
from tools.docs.build_site import summary
from tools.docs.check_site import check_pages, check_styles, questions

GOOD = '<title>One</title><h1 id="one">One</h1><a href="two.html#two">two</a> <a href="https://example.com">there</a>'


def findings(site: Path, page: str) -> list[str]:
    """Of a site with this page, and another one."""
    (site / "one.html").write_text(page, encoding="utf-8")
    (site / "two.html").write_text('<title>Two</title><p id="two">Two</p>', encoding="utf-8")
    (site / "a.css").write_text('b { background: url("data:image/svg+xml,x") }', encoding="utf-8")
    return [*check_pages(site), *check_styles(site)]


def test_a_good_page_has_no_findings(tmp_path: Path) -> None:
    assert findings(tmp_path, GOOD) == []


@pytest.mark.parametrize(
    ("added", "finding"),
    [
        ('<script src="https://cdn.example/x.js"></script>', "one.html: it loads https://cdn.example/x.js"),
        ('<script src="//cdn.example/x.js"></script>', "one.html: it loads //cdn.example/x.js"),
        (
            '<link rel="stylesheet" href="https://fonts.example/a.css">',
            "one.html: it loads https://fonts.example/a.css",
        ),
        ('<img src="http://example.com/a.png">', "one.html: it loads http://example.com/a.png"),
        ('<a href="three.html">three</a>', "one.html: three.html: it leads nowhere"),
        ('<a href="two.html#three">three</a>', "one.html: two.html#three: it leads nowhere"),
        ('<a href="#three">three</a>', "one.html: #three: it leads nowhere"),
        ('<a href="../outside.html">out</a>', "one.html: ../outside.html: it leads nowhere"),
        ("<p>::: headwater.App</p>", "one.html: a directive was not carried out"),
    ],
)
def test_a_fault_is_found(added: str, finding: str, tmp_path: Path) -> None:
    (tmp_path / "outside.html").write_text(GOOD, encoding="utf-8")
    site = tmp_path / "site"
    site.mkdir()
    assert findings(site, GOOD + added) == [finding]


def test_a_page_without_a_title_is_found(tmp_path: Path) -> None:
    assert findings(tmp_path, GOOD.replace("One</title>", "</title>")) == ["one.html: it has no title"]


def test_a_style_sheet_that_loads_a_font_is_found(tmp_path: Path) -> None:
    (tmp_path / "b.css").write_text("@font-face { src: url(https://fonts.example/a.woff2) }", encoding="utf-8")
    assert findings(tmp_path, GOOD) == ["b.css: it loads https://fonts.example/a.woff2"]


def test_thirty_questions_or_more_are_asked_and_their_pages_exist() -> None:
    asked = questions()
    assert len(asked) >= 30
    assert [page for page in asked.values() if not (DOCS / f"{page}.md").is_file()] == []


def test_the_summary_for_programs_has_every_page_of_the_navigation() -> None:
    text = summary()
    assert [
        name for name in navigation() if f"({name.replace('README', 'index').removesuffix('.md')}.html)" not in text
    ] == []
