"""An author's exception is shown by `values/author_text.py` alone: `str()` of one may raise, and did lose events.

Found by reading the source: a name that a broad `except` binds, a parameter that is annotated with Exception or
BaseException, and the attributes in which the engine keeps such errors, may not be formatted directly.
"""

import ast
import re
from collections.abc import Collection, Iterator

import pytest

from tests.structure.project import PACKAGE, ROOT, walk

BROAD = {"Exception", "BaseException"}
HOLDERS = {"node", "event", "attempt", "handling", "self"}
"""Names of objects whose `error` is an author's exception; elsewhere it is a text."""

EXEMPT = {PACKAGE / "values" / "author_text.py"}

ALLOWED: dict[str, set[str]] = {
    # The parent of both is click's, or ours: `strerror`, and a sentence of Headwater's own.
    "cli/exits.py": {"_named", "_system"},
}


def is_broad(kind: ast.expr | None) -> bool:
    """Whether a type, or one of several, takes in every exception. `type[Exception]` is a class, and no exception."""
    match kind:
        case ast.Name(id=name):
            return name in BROAD
        case ast.BinOp(left=left, right=right):
            return is_broad(left) or is_broad(right)
        case ast.Tuple(elts=kinds):
            return any(is_broad(each) for each in kinds)
        case _:
            return False


def is_foreign(value: ast.expr, names: set[str]) -> bool:
    """Whether an expression stands for an exception of an author's."""
    if isinstance(value, ast.Name):
        return value.id in names
    if isinstance(value, ast.Attribute) and value.attr in ("error", "__cause__", "__context__"):
        return isinstance(value.value, ast.Name) and value.value.id in (HOLDERS if value.attr == "error" else names)
    return False


def formatted(block: ast.AST, names: set[str]) -> Iterator[int]:
    """Lines that make a text of one of these directly."""
    for part in walk(block):
        match part:
            case ast.FormattedValue(value=value) if is_foreign(value, names):
                yield part.lineno
            case ast.Call(func=ast.Name(id="str" | "repr" | "ascii" | "format"), args=[value, *_]) if is_foreign(
                value, names
            ):
                yield part.lineno
            case ast.Call(func=ast.Attribute(value=ast.Name(id="log")), args=[_, *rest]) if any(
                is_foreign(each, names) for each in rest
            ):
                yield part.lineno


def of_module(part: ast.AST) -> bool:
    """Whether it takes a traceback from the module that may raise."""
    match part:
        case ast.ImportFrom(module="traceback"):
            return True
        case ast.Attribute(value=ast.Name(id="traceback"), attr=name):
            return name.startswith(("format_exc", "print_exc"))
        case _:
            return False


def find_formatted(source: str, allowed: Collection[str] = ()) -> list[int]:
    """The lines of a module that format an exception of an author's."""
    lines: set[int] = set()
    if not re.search(r"Exception|traceback|\.error\b|__cause__|__context__", source):
        return []  # quickly: nothing below finds anything there
    for part in walk(ast.parse(source)):
        match part:
            case ast.FunctionDef(name=name, args=given) | ast.AsyncFunctionDef(name=name, args=given):
                if name not in allowed:
                    named = {each.arg for each in (*given.args, *given.kwonlyargs) if is_broad(each.annotation)}
                    lines.update(formatted(part, named))
            case ast.ExceptHandler(name=str(name), type=kind) if is_broad(kind):
                lines.update(formatted(part, {name}))
            case _ if of_module(part):
                assert isinstance(part, ast.stmt | ast.expr)
                lines.add(part.lineno)
            case _:
                pass
    return sorted(lines)


def test_no_exception_of_an_author_is_formatted_directly() -> None:
    found = {}
    for path in sorted(set(PACKAGE.rglob("*.py")) - EXEMPT):
        name = str(path.relative_to(PACKAGE))
        if lines := find_formatted(path.read_text(encoding="utf-8"), ALLOWED.get(name, ())):
            found[str(path.relative_to(ROOT))] = lines
    assert not found, f"use describe(), text_of() or traceback_text() at these lines: {found}"


@pytest.mark.parametrize(
    "body",
    [
        "    try: pass\n    except Exception as e: x = f'{e}'",
        "    try: pass\n    except (OSError, BaseException) as e: x = str(e)",
        "    try: pass\n    except Exception as e: log.error('%s', e)",
        "    return f'{node.error!r}'",
        "    import traceback\n    return traceback.format_exception(given)",
        "    return repr(given)",
    ],
)
def test_what_it_finds(body: str) -> None:
    assert find_formatted(f"def f(given: BaseException | None) -> object:\n{body}\n")


def test_what_it_leaves_alone() -> None:
    body = "    try: pass\n    except KeyError as e: x = str(e)\n    return f'{run.error} {error} {kind}'"
    assert not find_formatted(f"def f(run, error: OSError, kind: type[Exception]):\n{body}")
