"""Scripts and styles without comments and spare spaces: what is served is smaller, the sources stay readable.

It is no compiler: line breaks stay, so that the rules of JavaScript about missing semicolons do not change, and texts
and patterns are copied as they are.
"""

from __future__ import annotations

import re
from typing import Final

_STYLE_COMMENT: Final = re.compile(r"/\*.*?\*/", re.DOTALL)
_STYLE_SPACE: Final = re.compile(r"\s*([{};,>])\s*")
_STYLE_COLON: Final = re.compile(r"(?<=[\w-]):\s+")

_BEFORE_PATTERN: Final = frozenset("(,=:[!&|?{};>\n")
"""After one of these, a slash begins a pattern, not a division."""

_TIGHT: Final = frozenset("(){}[],;:?=<>!&|*%")
"""Spaces beside these mean nothing. Not beside + and -: `a + +b`."""

_OPEN: Final = frozenset("{([,;")
"""A line break after one of these means nothing."""


def lean_style(text: str) -> str:
    """A style sheet. `calc()` and selectors with spaces keep theirs."""
    found = _STYLE_COMMENT.sub("", text)
    found = _STYLE_SPACE.sub(r"\1", found)
    return _STYLE_COLON.sub(":", found).replace(";}", "}").strip()


def lean_script(text: str) -> str:
    """A module."""
    out: list[str] = []
    at = 0
    while at < len(text):
        end = _end_of_token(text, at, _last(out))
        token = text[at:end]
        at = end
        if token.startswith(("//", "/*")):
            continue
        if token.isspace():
            _put_space(out, "\n" if "\n" in token else " ")
            continue
        if token in _TIGHT and out and out[-1] == " ":
            out.pop()
        out.append(token)
    return "".join(out).strip() + "\n"


def _last(out: list[str]) -> str:
    """The last character that is no space."""
    for part in reversed(out):
        if part == "\n":
            return part
        if part != " ":
            return part[-1]
    return "\n"


def _put_space(out: list[str], space: str) -> None:
    if not out or out[-1] == "\n":
        return
    if space == "\n":
        if out[-1] == " ":
            out.pop()
        if out[-1] not in _OPEN:
            out.append(space)
    elif out[-1] != " " and out[-1] not in _TIGHT:
        out.append(space)


def _end_of_token(text: str, at: int, last: str) -> int:
    """The end of a comment, a text, a pattern, a run of spaces, or of one character."""
    first = text[at]
    if text.startswith("//", at):
        end = text.find("\n", at)
        return len(text) if end < 0 else end
    if text.startswith("/*", at):
        return text.index("*/", at) + 2
    if first in "\"'":
        return _end_of_text(text, at)
    if first == "`":
        return _end_of_template(text, at)
    if first == "/" and last in _BEFORE_PATTERN:
        return _end_of_pattern(text, at)
    end = at + 1
    if first.isspace():
        while end < len(text) and text[end].isspace():
            end += 1
    return end


def _end_of_text(text: str, at: int) -> int:
    end = at + 1
    while text[end] != text[at]:
        end += 2 if text[end] == "\\" else 1
    return end + 1


def _end_of_pattern(text: str, at: int) -> int:
    end = at + 1
    in_class = False
    while in_class or text[end] != "/":
        in_class = text[end] == "[" or (in_class and text[end] != "]")
        end += 2 if text[end] == "\\" else 1
    return end + 1


def _end_of_template(text: str, at: int) -> int:
    end = at + 1
    while text[end] != "`":
        if text[end] == "\\":
            end += 2
        elif text.startswith("${", end):
            end = _end_of_expression(text, end + 2)
        else:
            end += 1
    return end + 1


def _end_of_expression(text: str, at: int) -> int:
    """The character after the closing brace of an expression in a template."""
    last = "{"
    while text[at] != "}":
        end = _end_of_expression(text, at + 1) if text[at] == "{" else _end_of_token(text, at, last)
        if not text[at:end].isspace():
            last = text[end - 1]
        at = end
    return at + 1
