"""The Python source of a generated app, readable, and its module.

A body is written as statements with temporary names, as a person would: what a run reads, and in which order, follows
from the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sim.apps import parts as p
from sim.apps import resources, templates
from sim.apps.resources import Resource

MODULE: Final = "simulated_app"
"""The module of every generated app: functions are identified by it over restarts."""

APP: Final = "sim"
MODULUS: Final = 997
"""Results are kept small, so that equal ones are common."""


class _Body:
    """The statements of one function."""

    def __init__(self, app: p.App, indent: str = "    ", *, waits: int = 0, param: str = "n") -> None:
        self._kinds = app.named()
        self.lines: list[str] = []
        self._indent = indent
        self._count = 0
        self._waits = waits
        self._param = param

    def add(self, line: str) -> None:
        self.lines.append(self._indent + line)

    def _name(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def _keep(self, text: str) -> str:
        """Assign at once: the order of reads is that of the tree."""
        name = self._name()
        self.add(f"{name} = {text}")
        if self._waits:
            self.add(f"await asyncio.sleep({self._waits / 1000})")
        return name

    def _deeper(self, *blocks: tuple[str, Callable[[], None]]) -> None:
        before = self._indent
        for head, inside in blocks:
            self.add(head)
            self._indent = before + "    "
            inside()
            self._indent = before

    def expr(self, e: p.Expr) -> str:  # noqa: C901, PLR0911, PLR0912  # one case for each kind
        match e:
            case p.Const(value):
                return repr(value)
            case p.Param():
                return self._param
            case p.Peek(cell):
                return self._keep(f"0 * len(str({cell}.peek()))")
            case p.Read(cell):
                is_int = isinstance(self._kinds[cell], p.IntCell)
                return self._keep(f"{cell}.value" if is_int else f"len({cell}.value)")
            case p.Sum(cell):
                is_map = isinstance(self._kinds[cell], p.MapCell)
                return self._keep(f"sum({cell}.value{'.values()' if is_map else ''}) % {MODULUS}")
            case p.At(cell, key):
                return self._keep(f"at({cell}.{'key' if isinstance(key, str) else 'at'}({key!r}))")
            case p.Field(doc, field):
                return self._keep(
                    {
                        "x": f"{doc}.x",
                        "count": f"len({doc}.items)",
                        "total": f"sum(item.n for item in {doc}.items) % {MODULUS}",
                        "first": f"first_of({doc})",
                        "second": f"second_of({doc})",
                        "marks": f"sum({doc}.marks.values()) % {MODULUS}",
                    }[field]
                )
            case p.Call(fn, argument, doc):
                return self._keep(self._call(fn, argument, doc))
            case p.Binary(op, left, right):
                a, b = self.expr(left), self.expr(right)
                return f"int({a} {op} {b})" if op in ("<", "==") else f"(({a} {op} {b}) % {MODULUS})"
            case p.If(condition, then, other):
                test, name = self.expr(condition), self._name()
                self._deeper((f"if {test}:", self._into(name, then)), ("else:", self._into(name, other)))
                return name
            case p.Fail(condition, value, kind):
                test = self.expr(condition)
                self._deeper((f"if {test}:", lambda: self.add(f"raise {_raised(kind)}")))
                return self.expr(value)
            case p.Catch(value, other, kind):
                name = self._name()
                self._deeper(("try:", self._into(name, value)), (f"except {kind}:", self._into(name, other)))
                return name
            case _:
                raise TypeError(e)

    def _into(self, name: str, e: p.Expr) -> Callable[[], None]:
        return lambda: self.add(f"{name} = {self.expr(e)}")

    def _call(self, fn: str, argument: p.Expr | None, doc: str) -> str:
        part = self._kinds[fn]
        if isinstance(part, p.Derived | p.Listing):
            if isinstance(part, p.Derived) and part.verb == "select" and self._is_board(part.source):
                return f"sum(item.n for item in {fn}()) % {MODULUS}"
            return f"sum({fn}()) % {MODULUS}"
        if doc:
            return f"sum({fn}(item) for item in {doc}.items) % {MODULUS}"
        return f"{fn}()" if argument is None else f"{fn}({self.expr(argument)})"

    def _is_board(self, name: str) -> bool:
        return isinstance(self._kinds[name], p.Board)

    def steps(self, steps: Sequence[p.Step]) -> None:
        for step in steps:
            self.step(step)

    def step(self, step: p.Step) -> None:  # noqa: C901, PLR0912  # one case for each kind
        match step:
            case p.Put(cell, value):
                self.add(f"{cell}.value = {self.expr(value)}")
            case p.Count(cell, value):
                self.add(f"{cell}.increment({self.expr(value)})")
            case p.Push(cell, value, unique):
                self.add(f"{cell}.{'add_unique' if unique else 'append'}({self.expr(value)} % 7)")
            case p.PutList(cell, how):
                self.add(
                    {
                        "rotate": f"{cell}.value = {cell}.value[1:] + {cell}.value[:1]",
                        "rest": f"{cell}.value = {cell}.value[1:]",
                        "clear": f"{cell}.value = []",
                        "insert": f"{cell}.insert(0, len({cell}.value))",
                        "default": f"{cell}.clear()",
                    }[how]
                )
            case p.PutKey(cell, key, value):
                self.add(f"{cell}.key({key!r}).value = {self.expr(value)}")
            case p.DropKey(cell, key):
                self.add(f"{cell}.remove({key!r})")
            case p.SetField(doc, field, value):
                text = self.expr(value)
                if field == "item":
                    self._deeper(
                        (f"if len({doc}.items):", lambda: self.add(f"{doc}.items[0].n = {text}")),
                    )
                else:
                    place = "x" if field == "x" else 'marks["a"]'
                    self.add(f"{doc}.{place} = {text}")
            case p.Items(doc, how, value):
                self._items(doc, how, self.expr(value))
            case p.When(condition, inner):
                self._deeper((f"if {self.expr(condition)}:", lambda: self.steps(inner)))
            case p.Follow(handler, value, mark):
                self.add(f'{handler}.send({self.expr(value)}, tag + ".{mark}")')
                self.add(f'sent.append(tag + ".{mark}")')
            case p.Start(pattern, key, value):
                self.add(f"hw.start({pattern}, {key!r}, key={key!r}, given={self.expr(value)} % 5)")
            case p.Stop(pattern, key):
                self.add(f"hw.start({pattern}, {key!r}, key={key!r}, given=0).stop()")
            case p.Raise(condition, kind):
                raised = {"Reject": 'raise hw.Reject("no")', "abort": "tx.abort()"}.get(kind, f"raise {_raised(kind)}")

                def give_up() -> None:
                    self.add(raised)
                    if kind == "abort":
                        self.add("return 0")

                self._deeper((f"if {self.expr(condition)}:", give_up))
            case p.Look(value):
                self.expr(value)
            case _:
                raise TypeError(step)

    def _items(self, doc: str, how: str, value: str) -> None:
        if how == "add":
            self.add(f"item = Item(n={value}, next={doc}.items[0] if len({doc}.items) else None)")
            self.add(f"{doc}.items.append(item)")
        elif how == "clear":
            self.add(f"{doc}.items = []")
        elif how == "unlink":
            self.add(f"{doc}.first = None")
        else:
            action = {
                "drop": f"del {doc}.items[0]",
                "delete": f"hw.delete({doc}.items[0])",
                "reverse": f"{doc}.items.reverse()",
                "link": f"{doc}.first = {doc}.items[{value} % len({doc}.items)]",
            }[how]
            self._deeper((f"if len({doc}.items):", lambda: self.add(action)))


def _raised(kind: str) -> str:
    return "Odd" if kind == "Odd" else f'{kind}("generated")'


def statements(app: p.App, steps: Sequence[p.Step]) -> list[str]:
    """The lines of some steps."""
    body = _Body(app, indent="")
    body.steps(steps)
    return body.lines


def source(app: p.App) -> str:
    """The module of an app."""
    return templates.HEAD + "".join(f"\n\n{declaration(app, part)}" for part in app.parts)


def declaration(app: p.App, part: p.Part) -> str:  # noqa: C901, PLR0911, PLR0912  # one for each kind
    """One declaration, with its line end."""
    name = part.name
    match part:
        case p.IntCell(_, default):
            return f"{name} = app.cell({name!r}, {default})\n"
        case p.ListCell(_, default):
            return f"{name} = app.cell({name!r}, {list(default)}, type=list[int])\n"
        case p.MapCell(_, default):
            return f"{name} = app.cell({name!r}, {dict(default)}, type=dict[str, int])\n"
        case p.Board():
            return f"{name} = app.doc({name!r}, Board)\n"
        case p.Computed():
            return _computed(app, part)
        case p.Listing(_, cell, plus):
            body = _Body(app)
            text = body.expr(plus)
            body.add(f"return [(each + {text}) % {MODULUS} for each in {cell}.value]")
            return _function("app.computed", f"def {name}() -> list[int]:", body)
        case p.Derived():
            return _derived(app, part)
        case p.Choice(_, condition, then, other):
            return f"{name} = hw.if_else({condition}, {then}, {other}, name={name!r})\n"
        case p.Sink():
            return _sink(app, part)
        case p.Restless(_, seed, limit):
            return templates.RESTLESS.format(name=name, seed=seed, limit=limit)
        case p.Ring(_, seed, lit):
            return templates.RING.format(name=name, seed=seed, lit=lit)
        case p.Materializer(_, cell, target):
            return templates.MATERIALIZER.format(name=name, source=cell, target=target)
        case p.Handler():
            body = _Body(app)
            options = f"(reads=[{', '.join(part.reads)}])" if part.reads else ""
            _logged(body, part.steps, part.result, name, part.slow)
            return _function(f"app.handler{options}", f"def {name}(n: int, tag: str) -> int:", body)
        case p.Pattern():
            return _pattern(app, part)
        case p.Children():
            return _children(part)
        case p.Patient(_, cell, finishes):
            options = 'on_invalid="finish"' if finishes else ""
            return templates.PATIENT.format(name=name, cell=cell, options=options, held=p.HELD)
        case Resource():
            return resources.declaration(part)
        case _:
            raise TypeError(part)


def _function(decorator: str, head: str, body: _Body, indent: str = "") -> str:
    return f"{indent}@{decorator}\n{indent}{head}\n" + "".join(line + "\n" for line in body.lines)


def _decorated(verb: str, **options: object) -> str:
    given = ", ".join(f"{key}={value}" for key, value in options.items() if value)
    return f"app.{verb}({given})" if given else f"app.{verb}"


def _ms(value: int) -> str:
    return f'"{value}ms"' if value else ""


def _computed(app: p.App, part: p.Computed) -> str:
    param = {"": "", "int": "n: int", "item": "item: Item"}[part.takes]
    body = _Body(app, waits=part.waits, param="item.n" if part.takes == "item" else "n")
    text = body.expr(part.body)
    _work(body, part.slow)
    if part.target:
        body.add(f"{part.target}.value = ({text} * 2) % {MODULUS}")
    body.add(f"return {text}")
    head = f"{'async ' if part.waits else ''}def {part.name}({param}) -> int:"
    decorator = _decorated(
        "computed",
        debounce=_ms(part.debounce),
        throttle=_ms(part.throttle),
        eager=part.eager,
        version=part.version,
        writes=f"[{part.target}]" if part.target else "",
        on_invalid='"finish"' if part.finishes else "",
    )
    return _function(decorator, head, body)


def _derived(app: p.App, part: p.Derived) -> str:
    is_board = isinstance(app.named()[part.source], p.Board)
    body = _Body(app, param="item.n" if is_board else "item")
    text = body.expr(part.body)
    returns = "list[int]" if part.verb == "flat" else "int"
    body.add(f"return [{text}] * (abs({text}) % 3)" if part.verb == "flat" else f"return {text}")
    head = f"def {part.name}_element(item: {'Item' if is_board else 'int'}) -> {returns}:\n"
    verb = {"each": "each", "select": "select", "flat": "flat_each"}[part.verb]
    place = f"{part.source}.items" if is_board else part.source
    made = f"{part.name} = hw.{verb}({place}, {part.name}_element, name={part.name!r})\n"
    return head + "".join(line + "\n" for line in body.lines) + f"\n\n{made}"


def _sink(app: p.App, part: p.Sink) -> str:
    body = _Body(app, waits=part.waits)
    shown = [body.expr(each) for each in part.shows]
    _work(body, part.slow)
    if part.target and part.rereads:
        body.add(f"{part.target}.value  # noqa: B018")
    body.add(f"show({part.name!r}, ({', '.join(shown)},))")
    total = " + ".join(shown)
    if part.target:
        body.add(f"{part.target}.value = ({total}) % {MODULUS}")
    if part.sends:
        body.add(f'{part.sends}.send(({total}) % {MODULUS}, "{part.name}")')
    decorator = _decorated(
        "sink",
        resume='"quiet"' if part.quiet else "",
        debounce=_ms(part.debounce),
        throttle=_ms(part.throttle),
        change_group=repr(part.group) if part.group else "",
    )
    return _function(decorator, f"{'async ' if part.waits else ''}def {part.name}() -> None:", body)


def _work(body: _Body, slow: int) -> None:
    if slow:
        body.add(f"work({slow})")


def _logged(body: _Body, steps: Sequence[p.Step], result: p.Expr, by: str, slow: int = 0) -> None:
    """Steps of a transaction that ends with its entry in the ledger."""
    body.add("called(tag)")
    body.add("sent: list[str] = []")
    body.steps(steps)
    _work(body, slow)
    body.add(f"result = {body.expr(result)}")
    body.add(f'ledger.append({{"tag": tag, "by": {by!r}, "n": n, "sent": sent, "result": result}})')
    body.add("return result")


def block(app: p.App, name: str, steps: Sequence[p.Step], *, logged: bool) -> str:
    """A function with the steps of an operation: one transaction that is noted in the ledger, or single writes."""
    body = _Body(app)
    if logged:
        _logged(body, steps, p.Const(0), "block")
    else:
        body.add("sent: list[str] = []")
        body.steps(steps)
        body.add("return 0")
    head = f"def {name}(tx: hw.Transaction | None, tag: str, n: int) -> int:\n"
    return head + "".join(line + "\n" for line in body.lines)


def _pattern(app: p.App, part: p.Pattern) -> str:
    body = _Body(app, indent="        ", param="given")
    text = body.expr(part.body)
    body.add(f"return (left.value + {text}) % {MODULUS}")
    label = "".join(line + "\n" for line in body.lines)
    nested = f'    p.start({part.nests}, "part", key="part of {part.name} " + key, given=given)\n' if part.nests else ""
    return templates.PATTERN.format(name=part.name, label=label, nested=nested)


def _children(part: p.Children) -> str:
    fails = templates.FAILS.format(fails=part.fails) if part.fails else ""
    given = {"name": part.name, "source": part.source, "pattern": part.pattern, "fails": fails}
    if not part.lit:
        return templates.STARTER.format(**given)
    return templates.LIT.format(**given, lit=part.lit)
