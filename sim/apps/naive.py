"""The naive model of a generated app: plain functions over the stored documents, without memory of earlier runs.

It knows nothing of the product but the form of stored values. Each value is computed again from the documents, and the
steps of a transaction are performed on a copy of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sim.apps import parts as p
from sim.apps.source import APP, MODULUS


class ModelError(Exception):
    """A function of the model raises what the generated one does."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class Refusal(Exception):  # noqa: N818  # an outcome of a transaction
    """The steps of a transaction do not commit."""


def linked(value: object) -> str | None:
    """The id that a stored link refers to."""
    match value:
        case {"/": {"link@1": {"id": str(found)}}}:
            return found
    return None


class Model:
    """The values of an app over documents: id, without its scope, to the stored value."""

    def __init__(self, app: p.App, documents: Mapping[str, Any], *, at_rest: bool = False) -> None:
        """`at_rest`: cells that computed functions write are read as if these had just run: a call makes them run."""
        self.app = app
        self._writers = (
            {part.target: part.name for part in app.parts if isinstance(part, p.Computed) and part.target}
            if at_rest
            else {}
        )
        self._parts = app.named()
        self.documents = dict(documents)
        self._known: dict[tuple[str, int | None], int | ModelError] = {}
        self._created = 0

    # -- state ---------------------------------------------------------------------------------------------

    def cell(self, name: str) -> Any:  # a number, list or dict
        if name in self._writers:
            try:
                return self.value(self._writers[name]) * 2 % MODULUS
            except ModelError:
                pass
        found = self.documents.get(f"{APP}.{name}")
        if found is not None:
            return found
        match self._parts[name]:
            case p.IntCell(_, default):
                return default
            case p.ListCell(_, default):
                return list(default)
            case p.MapCell(_, default):
                return dict(default)
        return 0

    def _put(self, name: str, value: object) -> None:
        self.documents[f"{APP}.{name}"] = value
        self._known.clear()

    def _board(self, doc: str) -> dict[str, Any]:
        return self.documents.get(f"{APP}.{doc}") or {}

    def _edit_board(self, doc: str, **fields: object) -> None:
        self._put(doc, {**self._board(doc), **fields})

    def _n(self, item: str | None) -> int:
        found = self.documents.get(item or "")
        return 0 if found is None else found.get("n", 0)

    def _items(self, doc: str) -> list[str]:
        return [linked(each) or "" for each in self._board(doc).get("items", ())]

    def _target(self, link: object) -> str | None:
        """An optional link to a deleted document reads as none."""
        found = linked(link)
        return found if found in self.documents else None

    def visible(self) -> dict[str, object]:
        """What a program can see, without ids that chance has made."""
        found: dict[str, object] = {}
        for part in self.app.parts:
            match part:
                case p.IntCell(name) | p.ListCell(name) | p.MapCell(name):
                    found[name] = self.cell(name)
                case p.Board(name):
                    first = self._target(self._board(name).get("first"))
                    found[name] = (
                        self._board(name).get("x", 0),
                        self._board(name).get("marks", {}),
                        [self._n(item) for item in self._items(name)],
                        None if first is None else self._n(first),
                    )
        return found

    # -- values --------------------------------------------------------------------------------------------

    def value(self, name: str, argument: int | None = None) -> int:
        """The result of a computed function, or the sum of a derived list."""
        key = (name, argument)
        if key not in self._known:
            try:
                self._known[key] = self._value(name, argument)
            except ModelError as error:
                self._known[key] = error
        found = self._known[key]
        if isinstance(found, ModelError):
            raise ModelError(found.kind)
        return found

    def _value(self, name: str, argument: int | None) -> int:
        match self._parts[name]:
            case p.Computed(_, body):
                return self.eval(body, argument)
            case p.Choice(_, condition, then, other):
                return self.value(then if self.cell(condition) else other)
            case p.Listing() | p.Derived():
                return sum(self.elements(name)) % MODULUS
        raise TypeError(name)

    def elements(self, name: str) -> list[int]:
        """The elements of a list; those of a document are its items, by their `n`."""
        match self._parts[name]:
            case p.ListCell():
                return list(self.cell(name))
            case p.Board():
                return [self._n(item) for item in self._items(name)]
            case p.Listing(_, cell, plus):
                more = self.eval(plus, None)
                return [(each + more) % MODULUS for each in self.cell(cell)]
            case p.Derived(_, source, verb, body):
                before = self.elements(source)
                after = [self.eval(body, each) for each in before]
                if verb == "select":
                    return [each for each, chosen in zip(before, after, strict=True) if chosen]
                return after if verb == "each" else [each for each in after for _ in range(abs(each) % 3)]
        raise TypeError(name)

    def eval(self, e: p.Expr, param: int | None) -> int:  # noqa: C901, PLR0911, PLR0912  # one case for each kind
        match e:
            case p.Const(value):
                return value
            case p.Param():
                return param or 0
            case p.Peek():
                return 0
            case p.Read(cell):
                found = self.cell(cell)
                return found if isinstance(found, int) else len(found)
            case p.Sum(cell):
                found = self.cell(cell)
                return sum(found.values() if isinstance(found, dict) else found) % MODULUS
            case p.At(cell, key):
                return self._at(self.cell(cell), key)
            case p.Field(doc, field):
                return self._field(doc, field)
            case p.Call(fn, argument, doc):
                if doc:
                    return sum([self.value(fn, self._n(item)) for item in self._items(doc)]) % MODULUS
                return self.value(fn, None if argument is None else self.eval(argument, param))
            case p.Binary(op, left, right):
                return _OPERATORS[op](self.eval(left, param), self.eval(right, param))
            case p.If(condition, then, other):
                return self.eval(then if self.eval(condition, param) else other, param)
            case p.Fail(condition, value, kind):
                if self.eval(condition, param):
                    raise ModelError(kind)
                return self.eval(value, param)
            case p.Catch(value, other, kind):
                try:
                    return self.eval(value, param)
                except ModelError as error:
                    if kind not in ("Exception", error.kind):
                        raise
                    return self.eval(other, param)
        raise TypeError(e)

    @staticmethod
    def _at(found: Any, key: str | int) -> int:  # a list or dict
        if isinstance(key, str):
            return int(found.get(key, 0))
        return int(found[key]) if key < len(found) else 0

    def _field(self, doc: str, field: str) -> int:
        board = self._board(doc)
        match field:
            case "x":
                return int(board.get("x", 0))
            case "count":
                return len(board.get("items", ()))
            case "total":
                return sum(map(self._n, self._items(doc))) % MODULUS
            case "marks":
                return int(sum(board.get("marks", {}).values())) % MODULUS
        item = self._target(board.get("first"))
        if field == "second" and item is not None:
            item = self._target(self.documents[item].get("next"))
        return -1 if item is None else self._n(item)

    # -- transactions --------------------------------------------------------------------------------------

    def perform(self, steps: Sequence[p.Step], param: int, sent: list[str]) -> None:
        """Change the documents as the steps do. `sent` gets the marks of events. Raises ModelError or Refusal."""
        for step in steps:
            self._perform(step, param, sent)

    def _perform(self, step: p.Step, param: int, sent: list[str]) -> None:  # noqa: C901, PLR0912  # one case each
        match step:
            case p.Put(cell, value):
                self._put(cell, self.eval(value, param))
            case p.Count(cell, value):
                self._put(cell, self.cell(cell) + self.eval(value, param))
            case p.Push(cell, value, unique):
                new, found = self.eval(value, param) % 7, self.cell(cell)
                if not unique or new not in found:
                    self._put(cell, [*found, new])
            case p.PutList(cell, how):
                self._put_list(cell, how)
            case p.PutKey(cell, key, value):
                self._put(cell, {**self.cell(cell), key: self.eval(value, param)})
            case p.DropKey(cell, key):
                self._put(cell, {each: value for each, value in self.cell(cell).items() if each != key})
            case p.SetField(doc, field, value):
                self._set_field(doc, field, self.eval(value, param))
            case p.Items(doc, how, value):
                self._change_items(doc, how, self.eval(value, param))
            case p.When(condition, inner):
                if self.eval(condition, param):
                    self.perform(inner, param, sent)
            case p.Follow(_, value, mark):
                self.eval(value, param)
                sent.append(mark)
            case p.Start(_, _, value) | p.Look(value):
                self.eval(value, param)
            case p.Stop():
                pass
            case p.Raise(condition, kind):
                if self.eval(condition, param):
                    raise Refusal(kind)
            case _:
                raise TypeError(step)

    def _put_list(self, cell: str, how: str) -> None:
        found = self.cell(cell)
        if how == "default":
            self.documents.pop(f"{APP}.{cell}", None)
            self._known.clear()
            return
        news = {"rotate": found[1:] + found[:1], "rest": found[1:], "clear": [], "insert": [len(found), *found]}
        self._put(cell, news[how])

    def _set_field(self, doc: str, field: str, value: int) -> None:
        if field == "x":
            self._edit_board(doc, x=value)
        elif field == "marks":
            self._edit_board(doc, marks={**self._board(doc).get("marks", {}), "a": value})
        elif items := self._items(doc):
            self.documents[items[0]] = {**(self.documents.get(items[0]) or {}), "n": value}
            self._known.clear()

    def _change_items(self, doc: str, how: str, value: int) -> None:
        links = list(self._board(doc).get("items", ()))
        if how == "add":
            self._created += 1
            new = f"created:{self._created}"
            self.documents[new] = {"n": value, "next": links[0] if links else None}
            links.append({"/": {"link@1": {"id": new}}})
        elif how == "clear":
            links = []
        elif how == "unlink":
            self._edit_board(doc, first=None)
            return
        elif links:
            if how == "link":
                self._edit_board(doc, first=links[value % len(links)])
                return
            if how == "delete":
                self.documents.pop(linked(links[0]) or "", None)
                self._known.clear()
                return
            links = links[1:] if how == "drop" else links[::-1]
        self._edit_board(doc, items=links)


_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: (a + b) % MODULUS,
    "-": lambda a, b: (a - b) % MODULUS,
    "*": lambda a, b: (a * b) % MODULUS,
    "<": lambda a, b: int(a < b),
    "==": lambda a, b: int(a == b),
}
