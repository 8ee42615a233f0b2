"""Every code has a page that says what it means and what to do, and shows the message as it is."""

import inspect
import os
import re
import sys
from pathlib import Path

import pytest

from headwater import errors
from headwater.cli.exits import exit_of
from headwater.values.space_ids import ALPHABET
from tests.docs.blocks import THIS_CHECKOUT, Reader, find_blocks

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "errors"
INDEX = FOLDER / "README.md"
Kind = type[errors.HeadwaterError]
KINDS: dict[str, Kind] = {
    kind.code: kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, errors.HeadwaterError) and kind is not errors.HeadwaterError
}
"""By their codes. The root is never raised, and has no page."""

MESSAGE = re.compile(r"(\w+) (HW\d{3}): \S")
SPACE_IDS = re.compile(rf"\b(?=[a-z]*[0-9])[{ALPHABET}]{{20}}\b")
SPACE_ID = "7k3q9d4m2x8v1n6p0c5r"  # Stands for the id of a space in the pages.
PROCESS = "4119"  # Stands for the number of a process in the pages.


def read(code: str) -> str:
    return (FOLDER / f"{code}.md").read_text(encoding="utf-8")


def section(page: str, title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert found is not None, f"there is no section {title!r}"
    return found[1]


def on_one_line(text: str) -> str:
    return " ".join(text.split())


every_code = pytest.mark.parametrize("code", sorted(KINDS))


def test_every_code_has_a_page_and_every_page_has_a_code() -> None:
    assert {path.stem for path in FOLDER.glob("*.md")} - {INDEX.stem} == KINDS.keys()


@every_code
def test_title_is_code_and_class(code: str) -> None:
    assert read(code).startswith(f"# {code} {KINDS[code].__name__}\n\n")


@every_code
def test_page_says_why_and_what_to_do(code: str) -> None:
    page = read(code)
    for title in ("Why it happens", "What to do"):
        sentences = re.sub(r"^```.*?^```$", "", section(page, title), flags=re.MULTILINE | re.DOTALL)
        assert len(sentences.split()) >= 10, f"{title}: this helps nobody"


@every_code
def test_page_is_read_at_a_glance_on_any_terminal(code: str) -> None:
    page = read(code)
    assert 12 <= len(page.splitlines()) <= 40
    assert max(map(len, page.splitlines())) <= 120
    assert page.isascii()


@every_code
def test_page_ends_with_exit_code_and_place_in_the_tree(code: str) -> None:
    kind = KINDS[code]
    tree = " > ".join(f"`{above.__name__}`" for above in reversed(kind.__mro__) if above.__name__ in vars(errors))
    last = on_one_line(read(code).rstrip().rpartition("\n\n")[2])
    assert last.startswith(f"Exit code of commands: {int(exit_of(kind))}.")
    assert f"In Python: {tree}." in last


@every_code
def test_page_shows_a_message(code: str) -> None:
    """Of its own kind; a group that is never raised itself shows one of those below it."""
    shown = [found for block in find_blocks(read(code)) for found in MESSAGE.findall(block.source)]
    assert shown
    for name, number in shown:
        kind = KINDS[number]
        assert kind.__name__ == name
        assert issubclass(kind, KINDS[code])


@pytest.mark.parametrize("code", [code for code in sorted(KINDS) if "print(error" in read(code)])
def test_message_is_the_one_that_the_example_prints(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What `headwater` commands print is compared where all documents are; this is for python."""
    page = read(code)
    reader = Reader(code, tmp_path, THIS_CHECKOUT)
    monkeypatch.chdir(reader.work)
    monkeypatch.setitem(sys.modules, "__main__", reader.module)
    reader.follow(page)
    printed = [line for line in capsys.readouterr().out.splitlines() if line.startswith(f"{code}: ")]
    assert printed
    messages = on_one_line("\n".join(block.source for block in find_blocks(page) if block.language == "text"))
    for line in printed:
        assert SPACE_IDS.sub(SPACE_ID, line.replace(str(os.getpid()), PROCESS)) in messages


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.md")), ids=lambda path: path.stem)
def test_links_and_codes_lead_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)]+)\)", text):
        assert (FOLDER / target).is_file()
    assert set(re.findall(r"\bHW\d{3}\b", text)) <= KINDS.keys()


def test_index_has_a_line_for_every_code_in_order() -> None:
    rows = re.findall(
        r"^\| \[(HW\d{3})\]\((HW\d{3})\.md\) \| (\w+) \| (\S.*\S) \|$", INDEX.read_text("utf-8"), re.MULTILINE
    )
    assert [(code, page, name) for code, page, name, _ in rows] == [
        (code, code, KINDS[code].__name__) for code in sorted(KINDS)
    ]
    assert all(advice.endswith(".") for *_, advice in rows)
