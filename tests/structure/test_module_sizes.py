"""A module that grows past what one can hold in mind is two modules.

The rule: 400 lines; a module of the package may have up to 600 if its docstring has a paragraph that starts
with "Length:" and says why it is not two. Worlds, tests, benchmarks and examples may have 600.
"""

import ast
import re

from tests.structure.project import ROOT, find_python

LINES_MAX = 400
LINES_MAX_JUSTIFIED = 600


def complain(name: str, source: str, *, of_the_package: bool) -> str | None:
    """What is wrong with the size of this module, as a sentence; None if it is fine."""
    count = len(source.splitlines())
    if count > LINES_MAX_JUSTIFIED:
        return f"{name} has {count} lines, more than {LINES_MAX_JUSTIFIED}: split it"
    if not of_the_package or count <= LINES_MAX:
        return None
    docstring = ast.get_docstring(ast.parse(source)) or ""
    if not re.search(r"^Length: \w", docstring, re.MULTILINE):
        return (
            f"{name} has {count} lines, more than {LINES_MAX}: split it, "
            f"or say in a paragraph 'Length: ...' of its docstring why it is better whole"
        )
    return None


def test_modules_are_short_enough_or_say_why_not() -> None:
    complaints = []
    for path in find_python("src", "sim", "tests", "bench", "examples"):
        name, source = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
        complaints.append(complain(name, source, of_the_package=path.is_relative_to(ROOT / "src")))
    found = [complaint for complaint in complaints if complaint is not None]
    assert not found, "\n".join(found)


def test_long_modules_are_found() -> None:
    body = "x = 1\n" * 450
    assert complain("m", body, of_the_package=True)
    assert complain("m", '"""Does much."""\n' + body, of_the_package=True)
    assert complain("m", '"""Does much.\n\nLength: one table.\n"""\n' + body, of_the_package=True) is None
    assert complain("m", body, of_the_package=False) is None
    assert complain("m", '"""Length: no excuse."""\n' + body * 2, of_the_package=True)
