"""Types as authors meet them: a folder of programs, headwater installed, and a checker as strict as it can be.

`api.py`, `outside.py`, `queries.py` and `started.py` have what must pass, `errors.py` what must not: a line there that
ends in `# refused` is refused by both checkers, one that ends in `# refused by pyright` by that one alone, and any
other line by neither.
"""

import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_overloads

import msgspec
import pytest

import headwater as hw
from tests.docs.blocks import find_blocks

HERE = Path(__file__).resolve().parent
PROGRAMS = [
    *sorted((HERE.parents[1] / "examples").glob("*.py")),
    HERE / "api.py",
    HERE / "outside.py",
    HERE / "queries.py",
    HERE / "started.py",
    HERE / "errors.py",
]


MISTAKES = (
    'orders.where(Order.stat == "open")',
    'orders.where(Order.cents >= "100")',
    "orders.where(Order.state == 5)",
    "orders.where(hw.col(Order.due) < 5)",
    'orders.where(hw.col(Order.cents).starts_with("1"))',
    "orders.sum(Order.state)",
    'orders.where("state = open")',
    "Order(number=1, cents=2)",
    "titles: list[str] = orders.values(Order.cents)",
)
"""Of queries: no such field, text against a number, never equal, a number against a time, a prefix of a number, a sum
of text, no condition, missing fields, numbers as texts. Both checkers refuse each of them."""


class Complaint(msgspec.Struct, frozen=True):
    """One error that a checker has found. Lines are counted from 1."""

    file: str
    line: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message} [{self.rule}]"

    @property
    def is_echo(self) -> bool:
        """Follows from another error of the same line, and would not do as its only one."""
        return self.rule.startswith("reportUnknown")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The programs, away from the configuration and the source of this project."""
    for program in PROGRAMS:
        shutil.copy(program, tmp_path)
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict"}), encoding="utf-8")
    (tmp_path / "mypy.ini").write_text("[mypy]\n", encoding="utf-8")
    return tmp_path


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a module with the interpreter of these tests, which is also the one that pyright looks at."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    env = {**os.environ, "PATH": path}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=600
    )


# --- the two checkers ---------------------------------------------------------------------------------------


class MypyLine(msgspec.Struct):
    file: str
    line: int
    message: str
    code: str | None
    severity: str


def mypy(folder: Path) -> Iterator[Complaint]:
    options = ["--strict", "--config-file=mypy.ini", "--cache-dir=cache", "--output=json"]
    done = run(folder, "-m", "mypy", *options, *(program.name for program in PROGRAMS))
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    for text in done.stdout.splitlines():
        line = msgspec.json.decode(text, type=MypyLine)
        if line.severity == "error":
            yield Complaint(Path(line.file).name, line.line, line.code or "", line.message)


class Position(msgspec.Struct):
    line: int


class Range(msgspec.Struct):
    start: Position


class Diagnostic(msgspec.Struct):
    severity: str
    message: str
    file: str = ""
    range: Range | None = None
    rule: str = ""


class Symbol(msgspec.Struct):
    name: str
    diagnostics: list[Diagnostic]


class Completeness(msgspec.Struct, rename="camel"):
    py_typed_path: str = ""
    symbols: list[Symbol] = []


class Report(msgspec.Struct, rename="camel"):
    general_diagnostics: list[Diagnostic]
    type_completeness: Completeness | None = None


def ask_pyright(folder: Path, *options: str) -> Report:
    done = run(folder, "-m", "pyright", "--outputjson", *options)
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    return msgspec.json.decode(done.stdout, type=Report)


def pyright(folder: Path) -> Iterator[Complaint]:
    for found in ask_pyright(folder).general_diagnostics:
        assert found.range is not None, found.message
        line = found.range.start.line + 1
        yield Complaint(Path(found.file).name, line, found.rule, found.message.splitlines()[0])


def marked(checker: str) -> set[tuple[str, int]]:
    """The lines that this checker has to refuse."""
    found: set[tuple[str, int]] = set()
    for program in PROGRAMS:
        for number, line in enumerate(program.read_text(encoding="utf-8").splitlines(), 1):
            if line.endswith(("  # refused", f"  # refused by {checker}")):
                found.add((program.name, number))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("checker", [mypy, pyright], ids=lambda checker: checker.__name__)
def test_marked_lines_are_refused_and_no_others(project: Path, checker: Callable[[Path], Iterator[Complaint]]) -> None:
    complaints = list(checker(project))
    wanted = marked(checker.__name__)
    assert len(wanted) > 100

    unwanted = [str(complaint) for complaint in complaints if (complaint.file, complaint.line) not in wanted]
    assert not unwanted, "\n".join(unwanted)
    refused = {(complaint.file, complaint.line) for complaint in complaints if not complaint.is_echo}
    missing = [f"{file}:{line}" for file, line in sorted(wanted - refused)]
    assert not missing, f"{checker.__name__} accepts {', '.join(missing)}"


def test_mistakes_in_queries_are_among_the_lines_that_both_checkers_refuse() -> None:
    lines = {line.strip() for line in (HERE / "errors.py").read_text(encoding="utf-8").splitlines()}
    assert {f"{mistake}  # refused" for mistake in MISTAKES} <= lines


@pytest.mark.slow
def test_programs_of_the_readme_pass_as_they_stand_there(tmp_path: Path) -> None:
    text = (HERE.parents[1] / "README.md").read_text(encoding="utf-8")
    programs = {block.file: block.source for block in find_blocks(text) if block.file is not None}
    assert "shop.py" in programs
    for name, source in programs.items():
        (tmp_path / name).write_text(source, encoding="utf-8")
    checked = run(tmp_path, "-m", "mypy", "--strict", "--cache-dir=cache", *programs)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.slow
@pytest.mark.parametrize("program", ["api.py", "outside.py", "queries.py", "started.py"])
def test_what_is_typed_also_runs(project: Path, program: str) -> None:
    done = run(project, program)
    assert done.returncode == 0, done.stderr


# --- what authors are handed --------------------------------------------------------------------------------


def public_classes() -> dict[str, type]:
    """What is exported, and what that is made of: a method may be written down in a base."""
    exported = [value for value in (getattr(hw, name) for name in hw.__all__) if isinstance(value, type)]
    bases = [base for cls in exported for base in cls.__mro__ if base.__module__.startswith("headwater")]
    return {f"{cls.__module__}.{cls.__qualname__}": cls for cls in bases}


def public_functions() -> Iterator[tuple[str, Callable[..., object]]]:
    """Every function and method, and every overload of those that have some."""
    found: list[tuple[str, object]] = [(name, getattr(hw, name)) for name in hw.__all__]
    found += [
        (f"{path}.{name}", value)
        for path, cls in public_classes().items()
        for name, value in vars(cls).items()
        if not re.match("_[^_]", name)
    ]
    for path, value in found:
        plain = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if inspect.isfunction(plain):
            for variant in get_overloads(plain) or [plain]:
                yield path, variant


@pytest.mark.slow
def test_no_public_function_returns_any() -> None:
    functions = list(public_functions())
    assert len(functions) > 100
    leaks = [
        f"{path} -> {returned}"
        for path, function in functions
        if re.search(r"\bAny\b", returned := str(inspect.signature(function).return_annotation))
    ]
    assert not leaks


@pytest.mark.slow
def test_public_types_are_known_in_full(tmp_path: Path) -> None:
    """What pyright says of the package, as far as authors get hold of it.

    "Partially unknown" without an Unknown in the type means that some attribute deep in the engine is not annotated.
    """
    found = ask_pyright(tmp_path, "--verifytypes", "headwater").type_completeness
    assert found is not None
    assert found.py_typed_path.endswith("py.typed")
    exported = {f"{value.__module__}.{name}" for name in hw.__all__ if inspect.isfunction(value := getattr(hw, name))}
    public = exported | public_classes().keys()
    symbols = [symbol for symbol in found.symbols if symbol.name in public or symbol.name.rpartition(".")[0] in public]
    assert len(symbols) > 150

    unknown = {
        symbol.name: diagnostic.message
        for symbol in symbols
        for diagnostic in symbol.diagnostics
        if diagnostic.severity == "error"
        and not diagnostic.message.startswith("Ambiguous base class override")  # the base says what it is
        and ("partially unknown" not in diagnostic.message or "Unknown" in diagnostic.message)
    }
    leaks = [f"{name}: {message}" for name, message in unknown.items()]
    assert not leaks, "\n".join(leaks)
