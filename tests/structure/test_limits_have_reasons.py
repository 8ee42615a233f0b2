"""A limit without a reason cannot be changed by anyone but its author, so each states one.

The rule, for every module called limits.py: an UPPERCASE constant has a string literal on the next line, a
comment behind it, or a comment on the line above.
"""

import ast

from tests.structure.project import PACKAGE, ROOT


def find_unreasoned(source: str) -> list[str]:
    """The constants of this module that no comment and no string literal explains."""
    lines = source.splitlines()
    statements = ast.parse(source).body
    unreasoned = []
    for statement, following in zip(statements, [*statements[1:], None], strict=True):
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        elif isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        else:
            continue
        names = [target.id for target in targets if isinstance(target, ast.Name) and target.id.isupper()]
        above = lines[statement.lineno - 2].strip() if statement.lineno > 1 else ""
        behind = lines[(statement.end_lineno or 0) - 1][statement.end_col_offset or 0 :].strip()
        literal = following.value if isinstance(following, ast.Expr) else None
        below = isinstance(literal, ast.Constant) and isinstance(literal.value, str) and literal.value.strip()
        if not (above.startswith("#") or behind.startswith("#") or below):
            unreasoned += names
    return unreasoned


def test_every_limit_states_its_reason() -> None:
    paths = sorted(PACKAGE.rglob("*_limits.py"))
    unreasoned = {str(path.relative_to(ROOT)): find_unreasoned(path.read_text(encoding="utf-8")) for path in paths}
    found = {name: limits for name, limits in unreasoned.items() if limits}
    assert not found, f"say why these are where they are: {found}"


def test_limits_of_values_are_looked_at() -> None:
    assert (PACKAGE / "values" / "value_limits.py").is_file()


def test_bare_limits_are_found() -> None:
    source = '"""Docs."""\nA = 1\nB: int = 2  # a pair\n\n# A page.\nC = 3\nD = 4\n"""So."""\nE = 5\nlow = 6\n'
    assert find_unreasoned(source) == ["A", "E"]
