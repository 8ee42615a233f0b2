"""What the documents show works as shown. The rules stand in blocks.py."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.cells.context import open_spaces
from headwater.host.plain_space import Space
from tests.docs.blocks import THIS_CHECKOUT, Reader, find_blocks
from tests.support.warm import Warm

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "ARCHITECTURE.md",
    # Two tutorials need more than this: see test_tutorials.py.
    *(path for path in PAGES if path.name not in {"shop.md", "board.md"} or path.parent.name != "tutorials"),
]


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    with Warm() as warm:
        yield warm


def follow(
    text: str,
    name: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    headwater: list[str],
    warm: Warm | None = None,
) -> None:
    # Where servers leave a token for programs of their user: not where somebody's real ones are.
    run = folder / "run"
    run.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(run))
    reader = Reader(name, folder, headwater, warm)
    monkeypatch.chdir(reader.work)
    # As the main module: msgspec and typing look annotations up in sys.modules.
    monkeypatch.setitem(sys.modules, "__main__", reader.module)
    reader.follow(text)


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """A document may leave a space open, as a notebook does; each starts without."""
    _close_all()
    yield
    _close_all()


def _close_all() -> None:
    for space in list(open_spaces()):
        if isinstance(space, Space):
            space.close()


@pytest.mark.parametrize(
    "document",
    DOCUMENTS,
    ids=[str(path.relative_to(ROOT)) for path in DOCUMENTS],
)
def test_document_does_what_it_shows(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warm: Warm
) -> None:
    follow(document.read_text(encoding="utf-8"), document.name, tmp_path, monkeypatch, THIS_CHECKOUT, warm)


# --- the runner itself can fail --------------------------------------------------------------------------

ECHO = [sys.executable, "-c", "import sys; print(*sys.argv[1:], sep='\\n'); sys.exit(len(sys.argv) - 2)"]
"""Stands for the command: prints its arguments one to a line, ends with their number less one."""


@pytest.mark.parametrize(
    "text",
    [
        "```python\nx = 1\n```\ntext\n```python\nassert x == 1\n```\n",
        "```python\nopen('made', 'x').close()\n```\n```console\n$ headwater a && ls\na\nmade\n```\n",
        "<!-- no-run: needs a server -->\n\n```python\n1 / 0\n```\n",
        "```console\n$ headwater one\none\n$ ./hw demo\nno\n$ headwater a one  # exit 1\na\no...e\n```\n",
        "```console\n$ headwater says-nothing-below\n```\n",
        "```console\n$ headwater \\\n    joined\njoined\n```\n",
        "- in a list:\n  ```python\n  if True:\n      pass\n  ```\n",
        "````text\n```python\n1 / 0\n```\n````\n",
        "<!-- file: a.py -->\n```python\nprint(1)\n```\n```console\n$ python a.py\n1\n```\n",
        "```python\nprint('a', 1)  # a 1\nprint(2)  # 2: two\nprint('a long one')  # a ... one\n```\n",
        "```python\ndef f():\n    print(1)\nf()  # prints 1\nx = '# 2'\nf(); f()  # it prints 1 1, as said\n```\n",
        "<!-- no-run: reason -->\n```python\nprint(1)  # 2\n```\n",
    ],
)
def test_runner_follows(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follow(text, "example.md", tmp_path, monkeypatch, ECHO)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("```python\n1 / 0\n```\n", ZeroDivisionError),
        ("<!-- no-run: reason -->\n```python\nx = 1\n```\n```python\n1 / 0\n```\n", ZeroDivisionError),
        ("<!-- no-run: -->\n```python\n1 / 0\n```\n", ZeroDivisionError),
        ("<!-- no-run: broken -->\n```python\n1 +\n```\n", SyntaxError),
        ("```console\n$ headwater one\ntwo\n```\n", AssertionError),
        ("```console\n$ headwater one two\n```\n", AssertionError),
        ("```console\n$ headwater one  # exit 3\n```\n", AssertionError),
        ("```python\nx = 1\n", AssertionError),
        ("<!-- file: a.py -->\n```python\nprint(1)\n```\n```console\n$ python a.py\n2\n```\n", AssertionError),
        ("```python\nprint(1)  # 2\n```\n", AssertionError),
        ("```python\nprint(10)  # 1\n```\n", AssertionError),
        ("```python\nif False:\n    print(1)  # 1\n```\n", AssertionError),
        ("```python\nx = 1  # prints 1\n```\n", AssertionError),
    ],
)
def test_runner_notices(text: str, error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(error):
        follow(text, "example.md", tmp_path, monkeypatch, ECHO)


SERVED = """
<!-- file: where.py -->
```python
import urllib.request
print(urllib.request.urlopen("http://127.0.0.1:8400/healthz").read())
```
```console
$ headwater serve --store data/
serving data at ws://127.0.0.1:8400; Ctrl-C ends it
$ python where.py
b'ok\\n'
$ headwater ls --url ws://127.0.0.1:8400/new  # exit 3
NotFoundError ...
```
```python
from pathlib import Path
port = "127.0.0.1:8400".partition(":")[2]
print(port != "84" "00", Path("data").exists())  # True True
```
"""


def test_runner_serves_at_a_port_that_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follow(SERVED, "example.md", tmp_path, monkeypatch, THIS_CHECKOUT)


INTERRUPTED = """
<!-- file: port.py -->
```python
print("at 127.0.0.1:8400".partition(":")[2] == open("port").read())
```
```console
$ headwater serve --store data/
$ python -c "open('port', 'w').write('127.0.0.1:8400'.partition(':')[2])"
$ python -c "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8400/healthz').read())"
b'ok\\n'
^C
...
the server has ended; everything that was acknowledged is on disk
$ headwater serve --store data/
$ python port.py
True
```
"""


def test_runner_ends_a_server_and_starts_the_next_one_at_the_same_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow(INTERRUPTED, "example.md", tmp_path, monkeypatch, THIS_CHECKOUT)


@pytest.mark.parametrize(
    "text",
    [
        "```console\n$ headwater serve --store data/ --no-such-option\n```\n",
        "```console\n$ headwater serve --store data/\nlistening\n```\n",
        "```console\n$ headwater serve --store data/\n^C\nanother end\n```\n",
    ],
)
def test_runner_notices_a_server_that_is_not_as_shown(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AssertionError):
        follow(text, "example.md", tmp_path, monkeypatch, THIS_CHECKOUT)


def test_block_knows_its_line() -> None:
    assert [block.line for block in find_blocks("a\n\n```python\nx\n```\n```console\n$ y\n```\n")] == [4, 7]
